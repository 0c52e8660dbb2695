/* What programs of one process have in common: an endpoint that talks to itself, and its buffers. */
#ifndef ONE_H
#define ONE_H

#include "calls.h"

#define KEY 0x12345
#define ALL MX_MATCH_MASK_NONE

static mx_endpoint_t ep;
static mx_endpoint_addr_t self;
static unsigned char out_bytes[2 << 20], in_bytes[2 << 20];

static inline mx_request_t send_one(uint32_t len, uint64_t match, int is_synchronous, void *context) {
  mx_segment_t segment = {out_bytes, len};
  mx_request_t request;
  if (is_synchronous)
    WELL(CALL(mx_issend)(ep, &segment, 1, self, match, context, &request));
  else
    WELL(CALL(mx_isend)(ep, &segment, 1, self, match, context, &request));
  return request;
}

static inline mx_request_t recv_one(uint32_t len, uint64_t match, uint64_t mask, void *context) {
  mx_segment_t segment = {in_bytes, len};
  mx_request_t request;
  WELL(CALL(mx_irecv)(ep, &segment, 1, match, mask, context, &request));
  return request;
}

static inline mx_status_t wait_for(mx_request_t request) {
  mx_status_t status;
  uint32_t result;
  WELL(CALL(mx_wait)(ep, &request, 20000, &status, &result));
  CHECK(result == 1 && request == NULL);
  return status;
}

#endif
