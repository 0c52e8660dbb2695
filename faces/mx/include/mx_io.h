/* Boards and their mapper, as programs that look below the MX interface ask for them. */
#ifndef MX_IO_H
#define MX_IO_H

#include <stddef.h>

#include "myriexpress.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef int mx_endpt_handle_t;
#define MX__INVALID_HANDLE (-1)

typedef struct {
  uint32_t board_number;
  uint8_t mapper_mac[6];
  uint16_t iport;
  uint32_t map_version;
  uint32_t num_hosts;
  uint32_t network_configured;
  uint32_t routes_valid;
  uint32_t level;
  uint32_t flags;
} mx_mapper_state_t;

mx_return_t mx_open_board(int board_number, mx_endpt_handle_t *handle);
mx_return_t mx__get_mapper_state(mx_endpt_handle_t handle, mx_mapper_state_t *state);
int mx__regcache_clean(void *ptr, size_t len);

#ifdef __cplusplus
}
#endif

MX_ASSERT_LAYOUT(handle, sizeof(mx_endpt_handle_t) == 4);
MX_ASSERT_LAYOUT(mapper_state, sizeof(mx_mapper_state_t) == 36 && offsetof(mx_mapper_state_t, board_number) == 0);
MX_ASSERT_LAYOUT(mapper_mac, offsetof(mx_mapper_state_t, mapper_mac) == 4 && offsetof(mx_mapper_state_t, iport) == 10);
MX_ASSERT_LAYOUT(mapper_map, offsetof(mx_mapper_state_t, map_version) == 12 && offsetof(mx_mapper_state_t, num_hosts) == 16);
MX_ASSERT_LAYOUT(mapper_net, offsetof(mx_mapper_state_t, network_configured) == 20);
MX_ASSERT_LAYOUT(mapper_routes, offsetof(mx_mapper_state_t, routes_valid) == 24);
MX_ASSERT_LAYOUT(mapper_end, offsetof(mx_mapper_state_t, level) == 28 && offsetof(mx_mapper_state_t, flags) == 32);

#endif
