/* Extensions of the MX interface, as Packhorse has it. */
#ifndef MX_EXTENSIONS_H
#define MX_EXTENSIONS_H

#include "myriexpress.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MX_HAS_ICONNECT_V2 1

mx_return_t mx_iconnect(mx_endpoint_t endpoint, uint64_t nic_id, uint32_t endpoint_id, uint32_t key, uint64_t match_info,
                        void *context, mx_request_t *request);
mx_return_t mx_disconnect(mx_endpoint_t endpoint, mx_endpoint_addr_t addr);

typedef enum mx_unexp_handler_action { MX_RECV_CONTINUE = 0, MX_RECV_FINISHED = 1 } mx_unexp_handler_action_t;
/* Called in the application's own calls, for a message that no receive waits for. The data, where there is some, is for the time
   of the call. */
typedef mx_unexp_handler_action_t (*mx_unexp_handler_t)(void *context, mx_endpoint_addr_t source, uint64_t match_value,
                                                        uint32_t length, void *data_if_available);
mx_return_t mx_register_unexp_handler(mx_endpoint_t endpoint, mx_unexp_handler_t handler, void *context);

mx_return_t mx_forget(mx_endpoint_t endpoint, mx_request_t *request);
mx_return_t mx_progress(mx_endpoint_t endpoint);
mx_return_t mx_set_endpoint_addr_context(mx_endpoint_addr_t addr, void *context);
mx_return_t mx_get_endpoint_addr_context(mx_endpoint_addr_t addr, void **context);
mx_return_t mx_set_request_timeout(mx_endpoint_t endpoint, mx_request_t request, uint32_t milliseconds);
mx_return_t mx_decompose_endpoint_addr2(mx_endpoint_addr_t addr, uint64_t *nic_id, uint32_t *endpoint_id,
                                        uint32_t *session_id);

#ifdef __cplusplus
}
#endif

MX_ASSERT_LAYOUT(action, sizeof(mx_unexp_handler_action_t) == 4);

#endif
