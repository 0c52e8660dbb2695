/* What btl mx of Open MPI does: data into a receive that was posted and forgotten, and when that send has ended, a short word. That a word has come
   means that its data is there. Frames are lost on the way. */
#include "calls.h"

#define KEY 0x12345
#define OWN_INDEX 205
#define OTHER_INDEX 208
#define COUNT 4
#define ROUND_COUNT 60
#define LEN_MAX 40000

static mx_endpoint_t here, there;
static mx_endpoint_addr_t to;
static unsigned char data[COUNT][LEN_MAX], room[COUNT][LEN_MAX];
static const uint32_t lengths[] = {12345, 16384, 32767, 40000};

static mx_status_t wait_for(mx_endpoint_t ep, mx_request_t request) {
  mx_status_t status;
  uint32_t result = 0;
  while (!result) {
    /* Both ends are in this thread. */
    WELL(CALL(mx_progress)(here));
    WELL(CALL(mx_progress)(there));
    WELL(CALL(mx_test)(ep, &request, &status, &result));
  }
  CHECK(status.code == MX_STATUS_SUCCESS);
  return status;
}

static void round_of(uint32_t len, int round) {
  mx_request_t words[COUNT], send, request;
  uint64_t word = 7;
  for (int i = 0; i < COUNT; i++) {
    mx_segment_t to_room = {room[i], len}, to_word = {&word, sizeof word};
    memset(room[i], 0, len);
    memset(data[i], 1 + (round + i) % 255, len);
    WELL(CALL(mx_irecv)(there, &to_room, 1, 2 + 16 * i, MX_MATCH_MASK_NONE, NULL, &request));
    WELL(CALL(mx_forget)(there, &request));
    WELL(CALL(mx_irecv)(there, &to_word, 1, 1 + 16 * i, MX_MATCH_MASK_NONE, NULL, &words[i]));
  }
  for (int i = 0; i < COUNT; i++) {
    mx_segment_t from = {data[i], len}, from_word = {&word, sizeof word};
    WELL(CALL(mx_isend)(here, &from, 1, to, 2 + 16 * i, NULL, &send));
    wait_for(here, send);
    WELL(CALL(mx_isend)(here, &from_word, 1, to, 1 + 16 * i, NULL, NULL));
  }
  for (int i = 0; i < COUNT; i++) {
    wait_for(there, words[i]);
    if (memcmp(room[i], data[i], len) != 0) {
      fprintf(stderr, "round %d, %u bytes: the word of message %d came before its data\n", round, len, i);
      exit(1);
    }
  }
}

int main(void) {
  uint64_t nic_id;
  find_functions();
  WELL(CALL(mx__init_api)(MX_API));
  WELL(CALL(mx_board_number_to_nic_id)(0, &nic_id));
  WELL(CALL(mx_open_endpoint)(0, OWN_INDEX, KEY, NULL, 0, &here));
  WELL(CALL(mx_open_endpoint)(0, OTHER_INDEX, KEY, NULL, 0, &there));
  WELL(CALL(mx_connect)(here, nic_id, OTHER_INDEX, KEY, 20000, &to));
  for (int round = 0; round < ROUND_COUNT; round++)
    round_of(lengths[round % 4], round);
  WELL(CALL(mx_close_endpoint)(here));
  WELL(CALL(mx_close_endpoint)(there));
  WELL(CALL(mx_finalize)());
  return 0;
}
