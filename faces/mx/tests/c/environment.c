/* One process: what the environment says, a word for each variable. Whoever starts it sets that variable and tells what is to come of it. */
#define _GNU_SOURCE
#include "one.h"

/* The longest message of these that is complete with its post. */
static void eager_up_to(uint32_t longest) {
  static const uint32_t lens[] = {127, 128, 129, 1000, 1001, 32768, 32769};
  uint32_t told = 0;
  WELL(CALL(mx_get_info)(ep, MX_COPY_SEND_MAX, NULL, 0, &told, sizeof told));
  CHECK(told == longest);
  for (unsigned index = 0; index < sizeof lens / sizeof *lens; index++) {
    uint32_t is_complete = 7;
    mx_request_t send = send_one(lens[index], 1, 0, NULL);
    WELL(CALL(mx_ibuffered)(ep, &send, &is_complete));
    CHECK(is_complete == (lens[index] <= longest));
    CHECK(wait_for(recv_one(lens[index], 1, ALL, NULL)).xfer_length == lens[index]);
    CHECK(wait_for(send).code == MX_STATUS_SUCCESS);
  }
}

static uint32_t own_index(void) {
  uint64_t nic_id;
  uint32_t index;
  WELL(CALL(mx_decompose_endpoint_addr)(self, &nic_id, &index));
  return index;
}

/* An endpoint that asks for no context ids has those of the environment; one that asks has its own. */
static void context_ids(uint32_t bits, uint32_t shift) {
  mx_param_t param = {.key = MX_PARAM_CONTEXT_ID};
  mx_request_t request;
  mx_endpoint_t own;
  uint64_t mask = ((1ULL << bits) - 1) << shift;
  RETURNS(MX_BAD_MATCHING_FOR_CONTEXT_ID_MASK, CALL(mx_irecv)(ep, NULL, 0, 0, ~mask, NULL, &request));
  WELL(CALL(mx_irecv)(ep, NULL, 0, 0, mask, NULL, NULL));
  param.val.context_id.bits = 1;
  param.val.context_id.shift = 63;
  WELL(CALL(mx_open_endpoint)(0, 208, KEY, &param, 1, &own));
  WELL(CALL(mx_irecv)(own, NULL, 0, 0, 1ULL << 63, NULL, NULL));
  WELL(CALL(mx_close_endpoint)(own));
}

int main(int argc, char **argv) {
  mx_endpoint_t none;
  find_functions();
  CHECK(argc >= 3);
  uint32_t number = (uint32_t)strtoul(argv[2], NULL, 0);
  if (strcmp(argv[1], "verbose") == 0) {
    /* A failure is said on standard error where somebody asked for that. */
    CALL(mx_set_error_handler)(errors_return);
    WELL(CALL(mx__init_api)(MX_API));
    RETURNS(MX_BOARD_UNKNOWN, CALL(mx_open_endpoint)(31, 0, KEY, NULL, 0, &none));
    return 0;
  }
  CALL(mx_set_error_handler)(errors_return);
  WELL(CALL(mx__init_api)(MX_API));
  int is_any = strcmp(argv[1], "any") == 0;
  WELL(CALL(mx_open_endpoint)(0, is_any ? MX_ANY_ENDPOINT : 205, KEY, NULL, 0, &ep));
  WELL(CALL(mx_get_endpoint_addr)(ep, &self));
  if (is_any)
    CHECK(own_index() == number);
  else if (strcmp(argv[1], "eager") == 0)
    eager_up_to(number);
  else
    context_ids(number, (uint32_t)strtoul(argv[3], NULL, 0));
  WELL(CALL(mx_close_endpoint)(ep));
  WELL(CALL(mx_finalize)());
  printf("as the environment says\n");
  return 0;
}
