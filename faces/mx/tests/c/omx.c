/* One process: what Open-MX has under its own names. Codes and statuses are one list, time-outs come last, and none is all ones. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "open-mx.h"

#define KEY 0x999
#define ALL (~0ULL)
#define INDEX 205

#define CHECK(condition)                                                      \
  do {                                                                        \
    if (!(condition)) {                                                       \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                \
    }                                                                         \
  } while (0)
#define RETURNS(expected, call)                                                                                         \
  do {                                                                                                                  \
    omx_return_t code_ = (call);                                                                                        \
    if (code_ != (expected)) {                                                                                          \
      fprintf(stderr, "%s:%d: %s returned %d (%s), not %d\n", __FILE__, __LINE__, #call, code_, omx_strerror(code_), expected); \
      exit(1);                                                                                                          \
    }                                                                                                                   \
  } while (0)
#define WELL(call) RETURNS(OMX_SUCCESS, call)

static omx_endpoint_t ep;
static omx_endpoint_addr_t self;
static uint64_t nic_id;
static char out_bytes[1000], in_bytes[1000];

static omx_status_t wait_for(omx_request_t request) {
  omx_status_t status;
  uint32_t result;
  WELL(omx_wait(ep, &request, &status, &result, OMX_TIMEOUT_INFINITE));
  CHECK(result == 1 && request == NULL);
  return status;
}

static void opening(void) {
  omx_endpoint_t none;
  uint32_t index, session, board = 77;
  char name[OMX_HOSTNAMELEN_MAX];
  uint64_t found;
  RETURNS(OMX_NOT_INITIALIZED, omx_open_endpoint(0, INDEX, KEY, NULL, 0, &none));
  RETURNS(OMX_BAD_LIB_ABI, omx__init_api(0x200));
  WELL(omx_init());
  RETURNS(OMX_ALREADY_INITIALIZED, omx_init());
  RETURNS(OMX_BOARD_NOT_FOUND, omx_open_endpoint(31, INDEX, KEY, NULL, 0, &none));
  RETURNS(OMX_BAD_ENDPOINT, omx_open_endpoint(0, 256, KEY, NULL, 0, &none));
  WELL(omx_open_endpoint(0, INDEX, KEY, NULL, 0, &ep));
  RETURNS(OMX_BUSY, omx_open_endpoint(0, INDEX, KEY, NULL, 0, &none));
  WELL(omx_get_endpoint_addr(ep, &self));
  WELL(omx_decompose_endpoint_addr_with_session(self, &nic_id, &index, &session));
  CHECK(index == INDEX);
  WELL(omx_board_number_to_nic_id(0, &found));
  CHECK(found == nic_id);
  WELL(omx_nic_id_to_board_number(nic_id, &board));
  CHECK(board == 0);
  WELL(omx_nic_id_to_hostname(nic_id, name));
  WELL(omx_hostname_to_nic_id(name, &found));
  CHECK(found == nic_id);
}

static void information(void) {
  uint32_t count = 0, board = 0, label = 1;
  char text[OMX_HOSTNAMELEN_MAX];
  WELL(omx_get_info(NULL, OMX_INFO_BOARD_COUNT, NULL, 0, &count, sizeof count));
  CHECK(count == 1);
  WELL(omx_get_info(NULL, OMX_INFO_BOARD_MAX, NULL, 0, &count, sizeof count));
  CHECK(count == 32);
  WELL(omx_get_info(ep, OMX_INFO_BOARD_IFACENAME, NULL, 0, text, sizeof text));
  CHECK(strcmp(text, "lo") == 0);
  WELL(omx_get_info(NULL, OMX_INFO_BOARD_HOSTNAME, &board, sizeof board, text, sizeof text));
  CHECK(strcmp(text, "localhost") == 0);
  WELL(omx_get_info(NULL, OMX_INFO_COUNTER_LABEL, &label, sizeof label, text, sizeof text));
  CHECK(strcmp(text, "messages_in") == 0);
  board = 31;
  RETURNS(OMX_BOARD_NOT_FOUND, omx_get_info(NULL, OMX_INFO_BOARD_HOSTNAME, &board, sizeof board, text, sizeof text));
  RETURNS(OMX_BAD_INFO_KEY, omx_get_info(NULL, (omx_info_key_t)10, NULL, 0, text, sizeof text));
  RETURNS(OMX_BAD_INFO_ADDRESS, omx_get_info(NULL, OMX_INFO_BOARD_MAX, NULL, 0, NULL, 4));
  RETURNS(OMX_BAD_INFO_LENGTH, omx_get_info(NULL, OMX_INFO_BOARD_MAX, NULL, 0, text, 3));
}

static void messages(void) {
  omx_request_t send, receive, seen;
  omx_status_t status;
  uint32_t result;
  void *context;
  omx_seg_t pieces[2] = {{out_bytes, 300}, {out_bytes + 300, 700}};
  for (int at = 0; at < 1000; at++)
    out_bytes[at] = (char)(at * 7);
  WELL(omx_irecv(ep, in_bytes, 1000, 1, ALL, &seen, &receive));
  /* No time at all: one look. */
  WELL(omx_wait(ep, &receive, &status, &result, 0));
  CHECK(result == 0);
  WELL(omx_probe(ep, 1, ALL, &status, &result, 0));
  CHECK(result == 0);
  WELL(omx_peek(ep, &seen, &result, 0));
  CHECK(result == 0);
  WELL(omx_issendv(ep, pieces, 2, self, 1, NULL, &send));
  WELL(omx_context(&receive, &context));
  CHECK(context == &seen);
  status = wait_for(receive);
  CHECK(status.code == OMX_SUCCESS && status.xfer_length == 1000 && memcmp(in_bytes, out_bytes, 1000) == 0);
  CHECK(memcmp(&status.addr, &self, sizeof self) == 0);
  CHECK(wait_for(send).code == OMX_SUCCESS);
  /* A cut is a code like any other. */
  WELL(omx_irecvv(ep, pieces, 1, 2, ALL, NULL, &receive));
  WELL(omx_issend(ep, in_bytes, 1000, self, 2, NULL, &send));
  CHECK(wait_for(receive).code == OMX_MESSAGE_TRUNCATED);
  status = wait_for(send);
  CHECK(status.code == OMX_MESSAGE_TRUNCATED && status.xfer_length == 300 && status.msg_length == 1000);
  WELL(omx_isend(ep, out_bytes, 8, self, 3, NULL, &send));
  WELL(omx_ibuffered(ep, &send, &result));
  CHECK(result == 1);
  WELL(omx_wait_any(ep, 3, ALL, &status, &result, OMX_TIMEOUT_INFINITE));
  CHECK(result == 1 && status.match_info == 3);
  WELL(omx_probe(ep, 3, ALL, &status, &result, OMX_TIMEOUT_INFINITE));
  CHECK(result == 1 && status.msg_length == 8 && status.xfer_length == 8);
  WELL(omx_irecv(ep, in_bytes, 8, 3, ALL, NULL, NULL));
  RETURNS(OMX_BAD_MATCH_MASK, omx_irecv(ep, in_bytes, 8, 3, 1, NULL, NULL));
  RETURNS(OMX_SEGMENTS_BAD_COUNT, omx_isendv(ep, pieces, 257, self, 3, NULL, NULL));
}

static void cancels(void) {
  omx_request_t request;
  omx_status_t status;
  uint32_t result;
  WELL(omx_irecv(ep, in_bytes, 8, 4, ALL, NULL, &request));
  WELL(omx_cancel_notest(ep, &request, &result));
  CHECK(result == 1 && request != NULL); /* it stays, and ends as cancelled */
  CHECK(wait_for(request).code == OMX_CANCELLED);
  WELL(omx_irecv(ep, in_bytes, 8, 4, ALL, NULL, &request));
  WELL(omx_cancel(ep, &request, &result));
  CHECK(result == 1 && request == NULL);
  WELL(omx_isend(ep, out_bytes, 8, self, 5, NULL, &request));
  RETURNS(OMX_BAD_REQUEST, omx_cancel(ep, &request, &result));
  WELL(omx_forget(ep, &request));
  WELL(omx_irecv(ep, in_bytes, 8, 5, ALL, NULL, &request));
  CHECK(wait_for(request).code == OMX_SUCCESS);
  /* A connection that was cancelled ends once, though its answer comes later. */
  for (int times = 0; times < 20; times++) {
    uint32_t count = 0;
    WELL(omx_iconnect(ep, nic_id, INDEX, KEY, 6, NULL, &request));
    WELL(omx_cancel_notest(ep, &request, &result));
    omx_return_t expected = result ? OMX_CANCELLED : OMX_SUCCESS;
    omx_endpoint_addr_t address;
    WELL(omx_connect(ep, nic_id, INDEX, KEY, OMX_TIMEOUT_INFINITE, &address));
    for (result = 1; result; count += result) {
      WELL(omx_test_any(ep, 6, ALL, &status, &result));
      CHECK(!result || status.code == expected);
      CHECK(count < 2);
    }
    CHECK(count == 1);
  }
}

static int heard;

static omx_return_t hears(char *text, omx_return_t code) {
  (void)text;
  heard = (int)code;
  return code;
}

static void failures(void) {
  omx_endpoint_addr_t address;
  RETURNS(OMX_TIMEOUT, omx_connect(ep, nic_id, INDEX, KEY, 0, &address));
  RETURNS(OMX_REMOTE_ENDPOINT_BAD_CONNECTION_KEY, omx_connect(ep, nic_id, INDEX, KEY + 1, 20000, &address));
  RETURNS(OMX_REMOTE_ENDPOINT_CLOSED, omx_connect(ep, nic_id, INDEX + 1, KEY, 20000, &address));
  RETURNS(OMX_REMOTE_ENDPOINT_BAD_ID, omx_connect(ep, nic_id, 300, KEY, 20000, &address));
  RETURNS(OMX_NIC_ID_NOT_FOUND, omx_connect(ep, 0x2ffffffff01, INDEX, KEY, 20000, &address));
  CHECK(omx_set_error_handler(ep, hears) == NULL);
  RETURNS(OMX_REMOTE_ENDPOINT_BAD_ID, omx_connect(ep, nic_id, 300, KEY, 20000, &address));
  CHECK(heard == OMX_REMOTE_ENDPOINT_BAD_ID);
  CHECK(omx_set_error_handler(ep, NULL) == hears);
  RETURNS(OMX_BAD_ENDPOINT, omx_progress(NULL));
}

int main(void) {
  CHECK(omx_set_error_handler(NULL, OMX_ERRORS_RETURN) == OMX_ERRORS_ARE_FATAL);
  opening();
  information();
  messages();
  cancels();
  failures();
  WELL(omx_disable_progression(ep));
  WELL(omx_reenable_progression(ep));
  WELL(omx_wakeup(ep));
  WELL(omx_set_request_timeout(ep, NULL, 1000));
  WELL(omx_close_endpoint(ep));
  RETURNS(OMX_BAD_ENDPOINT, omx_close_endpoint(ep));
  WELL(omx_finalize());
  printf("all is as Open-MX has it\n");
  return 0;
}
