/* The interface of Open-MX, as Packhorse has it: MX under other names, with contiguous calls beside those for segments, time-outs
   last, and one list of codes for returns and statuses. */
#ifndef OPEN_MX_H
#define OPEN_MX_H

#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define OMX_API 0x301

typedef struct omx_endpoint *omx_endpoint_t;
typedef union omx_request *omx_request_t;

enum omx_return {
  OMX_SUCCESS = 0,
  OMX_BAD_ERROR = 1,
  OMX_ALREADY_INITIALIZED = 3,
  OMX_NOT_INITIALIZED = 4,
  OMX_NO_DEVICE_FILE = 5,
  OMX_NO_DRIVER = 6,
  OMX_ACCESS_DENIED = 7,
  OMX_BOARD_NOT_FOUND = 8,
  OMX_BAD_ENDPOINT = 9,
  OMX_SEGMENTS_BAD_COUNT = 12,
  OMX_BAD_REQUEST = 13,
  OMX_BAD_MATCH_MASK = 14,
  OMX_NO_RESOURCES = 15,
  OMX_BUSY = 20,
  OMX_BAD_INFO_KEY = 21,
  OMX_BAD_INFO_ADDRESS = 22,
  OMX_ENDPOINT_PARAMS_BAD_LIST = 24,
  OMX_ENDPOINT_PARAM_BAD_KEY = 25,
  OMX_ENDPOINT_PARAM_BAD_VALUE = 26,
  OMX_PEER_NOT_FOUND = 28,
  OMX_TIMEOUT = 30,
  OMX_REMOTE_ENDPOINT_BAD_ID = 32,
  OMX_REMOTE_ENDPOINT_CLOSED = 33,
  OMX_REMOTE_ENDPOINT_BAD_CONNECTION_KEY = 34,
  OMX_BAD_INFO_LENGTH = 35,
  OMX_NIC_ID_NOT_FOUND = 36,
  OMX_BAD_KERNEL_ABI = 37,
  OMX_BAD_LIB_ABI = 38,
  OMX_BAD_MATCHING_FOR_CONTEXT_ID_MASK = 42,
  OMX_CANCELLED = 90,
  OMX_REMOTE_RDMA_WINDOW_BAD_ID = 91,
  OMX_REMOTE_ENDPOINT_UNREACHABLE = 92,
  OMX_REMOTE_ENDPOINT_BAD_SESSION = 93,
  OMX_MESSAGE_ABORTED = 94,
  OMX_MESSAGE_TRUNCATED = 95,
  OMX_NOT_SUPPORTED_IN_HANDLER = 96,
  OMX_NO_SYSTEM_RESOURCES = 97,
  OMX_NOT_IMPLEMENTED = 99,
  OMX_RETURN_CODE_MAX = 100
};
typedef enum omx_return omx_return_t;

#define OMX_SIZEOF_ADDR 16
typedef struct omx_endpoint_addr {
  uint64_t data[OMX_SIZEOF_ADDR / sizeof(uint64_t)];
} omx_endpoint_addr_t;

typedef struct omx_status {
  omx_return_t code;
  omx_endpoint_addr_t addr;
  uint64_t match_info;
  uint32_t msg_length;
  uint32_t xfer_length;
  void *context;
} omx_status_t;

#define OMX_ANY_NIC 0xffffffffU
#define OMX_ANY_ENDPOINT 0xffffffffU
#define OMX_TIMEOUT_INFINITE ((uint32_t)-1)
#define OMX_MAX_SEGMENTS 256
#define OMX_HOSTNAMELEN_MAX 80
#define OMX_BOARD_ADDR_STRLEN 18
#define OMX_ENDPOINT_CONTEXT_ID_BITS_MAX 16

omx_return_t omx__init_api(int api);
static __inline__ omx_return_t omx_init(void) { return omx__init_api(OMX_API); }
omx_return_t omx_finalize(void);
const char *omx_strerror(omx_return_t code);

omx_return_t omx_board_number_to_nic_id(uint32_t board_number, uint64_t *nic_id);
omx_return_t omx_nic_id_to_board_number(uint64_t nic_id, uint32_t *board_number);

typedef omx_return_t (*omx_error_handler_t)(char *, omx_return_t);
extern const omx_error_handler_t OMX_ERRORS_ARE_FATAL;
extern const omx_error_handler_t OMX_ERRORS_RETURN;
/* Of an endpoint, or with null of the process. */
omx_error_handler_t omx_set_error_handler(omx_endpoint_t endpoint, omx_error_handler_t handler);

enum omx_endpoint_param_key {
  OMX_ENDPOINT_PARAM_ERROR_HANDLER = 0,
  OMX_ENDPOINT_PARAM_UNEXP_QUEUE_MAX = 1,
  OMX_ENDPOINT_PARAM_CONTEXT_ID = 2
};
typedef enum omx_endpoint_param_key omx_endpoint_param_key_t;
typedef struct {
  omx_endpoint_param_key_t key;
  union {
    omx_error_handler_t error_handler;
    uint32_t unexp_queue_max;
    struct {
      uint8_t bits;
      uint8_t shift;
    } context_id;
  } val;
} omx_endpoint_param_t;

omx_return_t omx_open_endpoint(uint32_t board_number, uint32_t endpoint_id, uint32_t key, omx_endpoint_param_t *params,
                               uint32_t params_count, omx_endpoint_t *endpoint);
omx_return_t omx_close_endpoint(omx_endpoint_t endpoint);
omx_return_t omx_wakeup(omx_endpoint_t endpoint);
omx_return_t omx_disable_progression(omx_endpoint_t endpoint);
omx_return_t omx_reenable_progression(omx_endpoint_t endpoint);
omx_return_t omx_progress(omx_endpoint_t endpoint);

omx_return_t omx_get_endpoint_addr(omx_endpoint_t endpoint, omx_endpoint_addr_t *addr);
omx_return_t omx_connect(omx_endpoint_t endpoint, uint64_t nic_id, uint32_t endpoint_id, uint32_t key, uint32_t timeout,
                         omx_endpoint_addr_t *addr);
omx_return_t omx_iconnect(omx_endpoint_t endpoint, uint64_t nic_id, uint32_t endpoint_id, uint32_t key,
                          uint64_t match_info, void *context, omx_request_t *request);
omx_return_t omx_disconnect(omx_endpoint_t endpoint, omx_endpoint_addr_t addr);
omx_return_t omx_decompose_endpoint_addr(omx_endpoint_addr_t addr, uint64_t *nic_id, uint32_t *endpoint_id);
omx_return_t omx_decompose_endpoint_addr_with_session(omx_endpoint_addr_t addr, uint64_t *nic_id, uint32_t *endpoint_id,
                                                      uint32_t *session_id);
omx_return_t omx_set_endpoint_addr_context(omx_endpoint_addr_t addr, void *context);
omx_return_t omx_get_endpoint_addr_context(omx_endpoint_addr_t addr, void **context);

omx_return_t omx_isend(omx_endpoint_t endpoint, void *buffer, size_t length, omx_endpoint_addr_t dest,
                       uint64_t match_info, void *context, omx_request_t *request);
omx_return_t omx_issend(omx_endpoint_t endpoint, void *buffer, size_t length, omx_endpoint_addr_t dest,
                        uint64_t match_info, void *context, omx_request_t *request);
omx_return_t omx_irecv(omx_endpoint_t endpoint, void *buffer, size_t length, uint64_t match_info, uint64_t match_mask,
                       void *context, omx_request_t *request);

typedef void *omx_seg_ptr_t;
typedef struct omx_seg {
  omx_seg_ptr_t ptr;
  uint32_t len;
} omx_seg_t;
omx_return_t omx_isendv(omx_endpoint_t endpoint, omx_seg_t *segs, uint32_t nseg, omx_endpoint_addr_t dest,
                        uint64_t match_info, void *context, omx_request_t *request);
omx_return_t omx_issendv(omx_endpoint_t endpoint, omx_seg_t *segs, uint32_t nseg, omx_endpoint_addr_t dest,
                         uint64_t match_info, void *context, omx_request_t *request);
omx_return_t omx_irecvv(omx_endpoint_t endpoint, omx_seg_t *segs, uint32_t nseg, uint64_t match_info,
                        uint64_t match_mask, void *context, omx_request_t *request);

omx_return_t omx_context(omx_request_t *request, void **context);
omx_return_t omx_test(omx_endpoint_t endpoint, omx_request_t *request, omx_status_t *status, uint32_t *result);
omx_return_t omx_wait(omx_endpoint_t endpoint, omx_request_t *request, omx_status_t *status, uint32_t *result,
                      uint32_t timeout);
omx_return_t omx_test_any(omx_endpoint_t endpoint, uint64_t match_info, uint64_t match_mask, omx_status_t *status,
                          uint32_t *result);
omx_return_t omx_wait_any(omx_endpoint_t endpoint, uint64_t match_info, uint64_t match_mask, omx_status_t *status,
                          uint32_t *result, uint32_t timeout);
omx_return_t omx_ipeek(omx_endpoint_t endpoint, omx_request_t *request, uint32_t *result);
omx_return_t omx_peek(omx_endpoint_t endpoint, omx_request_t *request, uint32_t *result, uint32_t timeout);
omx_return_t omx_iprobe(omx_endpoint_t endpoint, uint64_t match_info, uint64_t match_mask, omx_status_t *status,
                        uint32_t *result);
omx_return_t omx_probe(omx_endpoint_t endpoint, uint64_t match_info, uint64_t match_mask, omx_status_t *status,
                       uint32_t *result, uint32_t timeout);
omx_return_t omx_ibuffered(omx_endpoint_t endpoint, omx_request_t *request, uint32_t *result);
omx_return_t omx_cancel(omx_endpoint_t endpoint, omx_request_t *request, uint32_t *result);
/* The request stays, and ends as cancelled. */
omx_return_t omx_cancel_notest(omx_endpoint_t endpoint, omx_request_t *request, uint32_t *result);
omx_return_t omx_forget(omx_endpoint_t endpoint, omx_request_t *request);
omx_return_t omx_set_request_timeout(omx_endpoint_t endpoint, omx_request_t request, uint32_t milliseconds);

enum omx_unexp_handler_action { OMX_UNEXP_HANDLER_RECV_CONTINUE = 0, OMX_UNEXP_HANDLER_RECV_FINISHED = 1 };
typedef enum omx_unexp_handler_action omx_unexp_handler_action_t;
typedef omx_unexp_handler_action_t (*omx_unexp_handler_t)(void *context, omx_endpoint_addr_t source,
                                                          uint64_t match_info, uint32_t msg_length,
                                                          void *data_if_available);
omx_return_t omx_register_unexp_handler(omx_endpoint_t endpoint, omx_unexp_handler_t handler, void *context);

enum omx_info_key {
  OMX_INFO_BOARD_MAX = 0,
  OMX_INFO_ENDPOINT_MAX = 1,
  OMX_INFO_BOARD_COUNT = 2,
  OMX_INFO_BOARD_IDS = 3,
  OMX_INFO_BOARD_HOSTNAME = 4,
  OMX_INFO_BOARD_IFACENAME = 5,
  OMX_INFO_BOARD_NUMA_NODE = 6,
  OMX_INFO_COUNTER_MAX = 7,
  OMX_INFO_COUNTER_VALUES = 8,
  OMX_INFO_COUNTER_LABEL = 9
};
typedef enum omx_info_key omx_info_key_t;
omx_return_t omx_get_info(omx_endpoint_t endpoint, omx_info_key_t key, const void *in_val, uint32_t in_len,
                          void *out_val, uint32_t out_len);
omx_return_t omx_hostname_to_nic_id(char *hostname, uint64_t *nic_id);
omx_return_t omx_nic_id_to_hostname(uint64_t nic_id, char *hostname);

#ifdef __cplusplus
}
#endif

/* An array of no such length: programs of that time are compiled as C89 and C++98, which have no static_assert. */
#define OMX_ASSERT_LAYOUT(name, condition) typedef char omx_layout_of_##name[(condition) ? 1 : -1]

OMX_ASSERT_LAYOUT(handles, sizeof(omx_endpoint_t) == sizeof(void *) && sizeof(omx_request_t) == sizeof(void *));
OMX_ASSERT_LAYOUT(address, sizeof(omx_endpoint_addr_t) == 16 && sizeof(omx_return_t) == 4);
OMX_ASSERT_LAYOUT(keys, sizeof(omx_endpoint_param_key_t) == 4 && sizeof(omx_info_key_t) == 4);
OMX_ASSERT_LAYOUT(action, sizeof(omx_unexp_handler_action_t) == 4);
OMX_ASSERT_LAYOUT(param_bits, offsetof(omx_endpoint_param_t, val.context_id.bits) == offsetof(omx_endpoint_param_t, val));
OMX_ASSERT_LAYOUT(param_shift, offsetof(omx_endpoint_param_t, val.context_id.shift) == offsetof(omx_endpoint_param_t, val) + 1);
#if UINTPTR_MAX > 0xffffffffU
OMX_ASSERT_LAYOUT(segment, sizeof(omx_seg_t) == 16 && offsetof(omx_seg_t, ptr) == 0 && offsetof(omx_seg_t, len) == 8);
OMX_ASSERT_LAYOUT(status, sizeof(omx_status_t) == 48 && offsetof(omx_status_t, code) == 0 && offsetof(omx_status_t, addr) == 8);
OMX_ASSERT_LAYOUT(status_match, offsetof(omx_status_t, match_info) == 24 && offsetof(omx_status_t, msg_length) == 32);
OMX_ASSERT_LAYOUT(status_end, offsetof(omx_status_t, xfer_length) == 36 && offsetof(omx_status_t, context) == 40);
OMX_ASSERT_LAYOUT(param, sizeof(omx_endpoint_param_t) == 16 && offsetof(omx_endpoint_param_t, val) == 8);
#else
#error "Packhorse has Open-MX's interface for 64-bit programs only"
#endif

#endif
