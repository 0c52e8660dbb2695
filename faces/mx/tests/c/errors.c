/* One process: whom failures are told to, and what becomes of what they say. `errors told`; `errors call`, `errors status` and `errors nonsense`
   end the process, unless the environment says otherwise. */
#define _GNU_SOURCE
#include "one.h"

#define CLOSED_INDEX 210

static int told_count, own_count;
static mx_return_t told, answer;
static char said[128];

/* Of the process: gives back another code, if it has one. */
static mx_return_t hears(char *text, mx_return_t code) {
  told_count++;
  told = code;
  snprintf(said, sizeof said, "%s", text);
  return answer ? answer : code;
}

/* Of the endpoint. */
static mx_return_t hears_at_endpoint(char *text, mx_return_t code) {
  (void)text;
  own_count++;
  told = code;
  return code;
}

static mx_return_t forgives(char *text, mx_return_t code) {
  (void)text;
  told = code;
  return MX_SUCCESS;
}

static mx_status_t cut_short(void) {
  fill(out_bytes, 8, 1);
  mx_request_t receive = recv_one(4, 1, ALL, NULL);
  WELL(CALL(mx_isend)(ep, &(mx_segment_t){out_bytes, 8}, 1, self, 1, NULL, NULL));
  return wait_for(receive);
}

static void open_with(mx_error_handler_t handler) {
  mx_param_t param = {.key = MX_PARAM_ERROR_HANDLER};
  param.val.error_handler = handler;
  WELL(CALL(mx_open_endpoint)(0, 205, KEY, handler ? &param : NULL, handler ? 1 : 0, &ep));
  WELL(CALL(mx_get_endpoint_addr)(ep, &self));
}

static void calls_are_told(void) {
  mx_endpoint_t none;
  CHECK(CALL(mx_set_error_handler)(hears) == errors_are_fatal);
  RETURNS(MX_BOARD_UNKNOWN, CALL(mx_open_endpoint)(31, 0, KEY, NULL, 0, &none));
  CHECK(told_count == 1 && told == MX_BOARD_UNKNOWN && strcmp(said, "mx_open_endpoint") == 0);
  /* What it answers is what the program gets. */
  answer = MX_BUSY;
  RETURNS(MX_BUSY, CALL(mx_open_endpoint)(31, 0, KEY, NULL, 0, &none));
  answer = MX_SUCCESS;
  /* That it is initialised already is told, and is no failure. */
  told_count = 0;
  RETURNS(MX_ALREADY_INITIALIZED, CALL(mx__init_api)(MX_API));
  CHECK(told_count == 0);
}

static void requests_are_told(void) {
  mx_request_t request;
  open_with(NULL);
  CHECK(cut_short().code == MX_STATUS_TRUNCATED && told_count == 1);
  CHECK(told == 95 && strcmp(said, "mx_wait") == 0); /* a status that is no return code: Open-MX's number */
  /* Of a request that nobody waits for it is told, too, in a call of the program's. */
  told_count = 0;
  request = recv_one(4, 2, ALL, NULL);
  WELL(CALL(mx_forget)(ep, &request));
  WELL(CALL(mx_isend)(ep, &(mx_segment_t){out_bytes, 8}, 1, self, 2, NULL, NULL));
  while (told_count == 0)
    WELL(CALL(mx_progress)(ep));
  CHECK(told_count == 1 && told == 95);
  uint64_t nic_id;
  uint32_t index;
  told_count = 0;
  WELL(CALL(mx_decompose_endpoint_addr)(self, &nic_id, &index));
  WELL(CALL(mx_iconnect)(ep, nic_id, CLOSED_INDEX, KEY, 0, NULL, NULL));
  while (told_count == 0)
    WELL(CALL(mx_progress)(ep));
  CHECK(told_count == 1 && told == MX_CONNECTION_FAILED);
  WELL(CALL(mx_close_endpoint)(ep));
  told_count = 0;
}

/* Does what it likes with the endpoint: as an application that stops it, and sees to its other requests. */
static mx_return_t stops_it(char *text, mx_return_t code) {
  mx_request_t none;
  uint32_t result;
  (void)text;
  own_count++;
  told = code;
  WELL(CALL(mx_disable_progression)(ep));
  WELL(CALL(mx_reenable_progression)(ep));
  WELL(CALL(mx_ipeek)(ep, &none, &result));
  CHECK(result == 1); /* what ended beside it */
  return code;
}

static void a_handler_may_call_what_it_likes(void) {
  open_with(stops_it);
  own_count = 0;
  mx_request_t request = recv_one(4, 3, ALL, NULL), other = recv_one(4, 4, ALL, NULL);
  WELL(CALL(mx_forget)(ep, &request));
  WELL(CALL(mx_isend)(ep, &(mx_segment_t){out_bytes, 4}, 1, self, 4, NULL, NULL));
  wait_for(other);
  WELL(CALL(mx_isend)(ep, &(mx_segment_t){out_bytes, 4}, 1, self, 5, NULL, &other));
  WELL(CALL(mx_isend)(ep, &(mx_segment_t){out_bytes, 8}, 1, self, 3, NULL, NULL));
  while (own_count == 0)
    WELL(CALL(mx_progress)(ep));
  CHECK(own_count == 1 && told == 95);
  wait_for(other);
  WELL(CALL(mx_close_endpoint)(ep));
}

static void an_endpoint_has_its_own(void) {
  mx_request_t none = NULL;
  mx_status_t status;
  uint32_t result;
  open_with(hears_at_endpoint);
  RETURNS(MX_BAD_REQUEST, CALL(mx_test)(ep, &none, &status, &result));
  CHECK(own_count == 1 && told == MX_BAD_REQUEST);
  CHECK(cut_short().code == MX_STATUS_TRUNCATED && own_count == 2 && told_count == 0);
  /* That a request is no send is said without the handler. */
  none = recv_one(0, 9, ALL, NULL);
  RETURNS(MX_BAD_REQUEST, CALL(mx_ibuffered)(ep, &none, &result));
  CHECK(own_count == 2);
  WELL(CALL(mx_close_endpoint)(ep));
  /* There is no endpoint any more whose handler that could be. */
  RETURNS(MX_BAD_ENDPOINT, CALL(mx_close_endpoint)(ep));
  CHECK(own_count == 2 && told_count == 1);
  open_with(forgives);
  status = cut_short();
  CHECK(status.code == MX_STATUS_SUCCESS && told == 95 && status.xfer_length == 4 && status.msg_length == 8);
  WELL(CALL(mx_close_endpoint)(ep));
}

static mx_unexp_handler_action_t talks_nonsense(void *context, mx_endpoint_addr_t source, uint64_t match, uint32_t len,
                                                void *data) {
  (void)context, (void)source, (void)match, (void)len, (void)data;
  return (mx_unexp_handler_action_t)7;
}

int main(int argc, char **argv) {
  mx_endpoint_t none;
  find_functions();
  CHECK(argc == 2);
  WELL(CALL(mx__init_api)(MX_API));
  if (strcmp(argv[1], "call") == 0) {
    RETURNS(MX_BOARD_UNKNOWN, CALL(mx_open_endpoint)(31, 0, KEY, NULL, 0, &none));
  } else if (strcmp(argv[1], "status") == 0) {
    open_with(NULL);
    CHECK(cut_short().code == MX_STATUS_TRUNCATED);
  } else if (strcmp(argv[1], "nonsense") == 0) {
    open_with(NULL);
    WELL(CALL(mx_register_unexp_handler)(ep, talks_nonsense, NULL));
    WELL(CALL(mx_isend)(ep, NULL, 0, self, 1, NULL, NULL));
    for (;;)
      WELL(CALL(mx_progress)(ep));
  } else {
    calls_are_told();
    requests_are_told();
    an_endpoint_has_its_own();
    a_handler_may_call_what_it_likes();
  }
  printf("went on\n");
  return 0;
}
