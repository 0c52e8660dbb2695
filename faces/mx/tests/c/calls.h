/* The functions under test, called as a program that was linked with them does, or found by name as a foreign binary's loader does
   (-DBY_NAME). */
#ifndef CALLS_H
#define CALLS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mx_extensions.h"
#include "mx_io.h"
#include "mx_raw.h"
#include "myriexpress.h"

#define EACH_FUNCTION(DO)                                                                                             \
  DO(mx__init_api) DO(mx_finalize) DO(mx_set_error_handler) DO(mx_open_endpoint) DO(mx_close_endpoint) DO(mx_wakeup)    \
  DO(mx_disable_progression) DO(mx_reenable_progression) DO(mx_isend) DO(mx_issend) DO(mx_irecv) DO(mx_cancel)          \
  DO(mx_test) DO(mx_wait) DO(mx_test_any) DO(mx_wait_any) DO(mx_ipeek) DO(mx_peek) DO(mx_iprobe) DO(mx_probe)           \
  DO(mx_ibuffered) DO(mx_buffered) DO(mx_context) DO(mx_get_info) DO(mx_hostname_to_nic_id) DO(mx_nic_id_to_hostname)   \
  DO(mx_board_number_to_nic_id) DO(mx_nic_id_to_board_number) DO(mx_connect) DO(mx_decompose_endpoint_addr)             \
  DO(mx_get_endpoint_addr) DO(mx_strerror) DO(mx_strstatus) DO(mx_register_unexp_callback) DO(mx_iput) DO(mx_iget)      \
  DO(mx_iconnect) DO(mx_disconnect) DO(mx_register_unexp_handler) DO(mx_forget) DO(mx_progress)                         \
  DO(mx_set_endpoint_addr_context) DO(mx_get_endpoint_addr_context) DO(mx_set_request_timeout)                          \
  DO(mx_decompose_endpoint_addr2) DO(mx__regcache_clean) DO(mx_open_board) DO(mx__get_mapper_state) DO(mx_raw_handle)   \
  DO(mx_raw_open_endpoint) DO(mx_raw_close_endpoint) DO(mx_raw_send) DO(mx_raw_next_event) DO(mx_raw_set_route_begin)   \
  DO(mx_raw_set_route_end) DO(mx_raw_clear_routes) DO(mx_raw_set_nic_reply_info) DO(mx_raw_set_route)                   \
  DO(mx_raw_set_route_mag) DO(mx_raw_set_peer_name) DO(mx_raw_set_hostname) DO(mx_raw_set_map_version)                  \
  DO(mx_raw_num_ports) DO(mx_raw_line_speed) DO(mx_raw_remove_peer)

#ifdef BY_NAME
#include <dlfcn.h>
#define DECLARE(f) static __typeof__(f) *call_##f;
EACH_FUNCTION(DECLARE)
static mx_error_handler_t errors_return, errors_are_fatal;

static void *named(void *library, const char *name) {
  void *found = dlsym(library, name);
  if (!found) {
    fprintf(stderr, "%s is missing\n", name);
    exit(1);
  }
  return found;
}

static void find_functions(void) {
  void *library = dlopen("libmyriexpress.so", RTLD_NOW);
  if (!library) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
#define FIND(f) call_##f = (__typeof__(f) *)named(library, #f);
  EACH_FUNCTION(FIND)
  errors_return = *(mx_error_handler_t *)named(library, "MX_ERRORS_RETURN");
  errors_are_fatal = *(mx_error_handler_t *)named(library, "MX_ERRORS_ARE_FATAL");
  /* With its version, as a binary of MX asks for it. */
  if (!dlvsym(library, "mx_test", "MX_0.91") || !dlvsym(library, "mx__init_api", "MX_0.92") ||
      !dlvsym(library, "mx_open_endpoint", "MX_0.9") || dlvsym(library, "mx_isend", "MX_0.9")) {
    fprintf(stderr, "versions of symbols are wrong\n");
    exit(1);
  }
}
#else
/* Real symbols: their addresses can be taken, as MPICH-MX does. */
#define DECLARE(f) static __typeof__(f) *const call_##f = f;
EACH_FUNCTION(DECLARE)
#define errors_return MX_ERRORS_RETURN
#define errors_are_fatal MX_ERRORS_ARE_FATAL
static void find_functions(void) {}
#endif

#define CALL(f) (*call_##f)

#define CHECK(condition)                                                          \
  do {                                                                            \
    if (!(condition)) {                                                           \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);     \
      exit(1);                                                                    \
    }                                                                             \
  } while (0)

/* A call that must return this code. */
#define RETURNS(expected, call)                                                                             \
  do {                                                                                                      \
    mx_return_t code_ = (call);                                                                             \
    if (code_ != (expected)) {                                                                              \
      fprintf(stderr, "%s:%d: %s returned %d (%s), not %d\n", __FILE__, __LINE__, #call, (int)code_,        \
              CALL(mx_strerror)(code_), (int)(expected));                                                   \
      exit(1);                                                                                              \
    }                                                                                                       \
  } while (0)
#define WELL(call) RETURNS(MX_SUCCESS, call)

/* Bytes by which a message is known. */
static inline void fill(unsigned char *bytes, size_t len, unsigned seed) {
  for (size_t at = 0; at < len; at++)
    bytes[at] = (unsigned char)(seed * 31 + at * 7 + (at >> 8));
}

static inline int is_filled(const unsigned char *bytes, size_t len, unsigned seed) {
  for (size_t at = 0; at < len; at++)
    if (bytes[at] != (unsigned char)(seed * 31 + at * 7 + (at >> 8)))
      return 0;
  return 1;
}

#endif
