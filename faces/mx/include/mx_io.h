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

MX_ASSERT_LAYOUT(mapper_state, sizeof(mx_mapper_state_t) == 36 && offsetof(mx_mapper_state_t, map_version) == 12);

#endif
