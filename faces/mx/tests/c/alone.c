/* One process: what MX promises, and what it says to bad input. */
#define _GNU_SOURCE
#include <pthread.h>
#include <unistd.h>

#include "one.h"

static void before_and_after_init(void) {
  mx_endpoint_t none;
  CHECK(CALL(mx_set_error_handler)(errors_return) == errors_are_fatal);
  RETURNS(MX_NOT_INITIALIZED, CALL(mx_open_endpoint)(0, 0, KEY, NULL, 0, &none));
  RETURNS(MX_NOT_INITIALIZED, CALL(mx_finalize)());
  RETURNS(MX_BAD_LIB_VERSION, CALL(mx__init_api)(0x200));
  RETURNS(MX_BAD_LIB_VERSION, CALL(mx__init_api)(0));
  WELL(CALL(mx__init_api)(0x300));
  RETURNS(MX_ALREADY_INITIALIZED, CALL(mx__init_api)(MX_API));
  CHECK(CALL(mx_set_error_handler)(errors_return) == errors_return);
  /* Null is the default, which is fatal. */
  CHECK(CALL(mx_set_error_handler)(NULL) == errors_return);
  CHECK(CALL(mx_set_error_handler)(errors_return) == errors_are_fatal);
}

static void strings(void) {
  for (int code = -1; code < 120; code++) {
    CHECK(*CALL(mx_strerror)((mx_return_t)code) != 0);
    CHECK(*CALL(mx_strstatus)((mx_status_code_t)code) != 0);
  }
}

static void information(void) {
  uint32_t count = 0, word = 0, board = 0;
  uint64_t ids[33], nic_id;
  char text[80], labels[64 * 128];
  WELL(CALL(mx_get_info)(NULL, MX_NIC_COUNT, NULL, 0, &count, sizeof count));
  CHECK(count >= 1 && count <= 32);
  WELL(CALL(mx_get_info)(NULL, MX_NIC_IDS, NULL, 0, ids, (count + 1) * 8));
  CHECK(ids[count] == 0);
  RETURNS(MX_BAD_INFO_LENGTH, CALL(mx_get_info)(NULL, MX_NIC_IDS, NULL, 0, ids, count * 8));
  RETURNS(MX_BAD_INFO_VAL, CALL(mx_get_info)(NULL, MX_NIC_COUNT, NULL, 0, NULL, 4));
  RETURNS(MX_BAD_INFO_KEY, CALL(mx_get_info)(NULL, (mx_get_info_key_t)77, NULL, 0, &word, 4));
  WELL(CALL(mx_get_info)(NULL, MX_COPY_SEND_MAX, NULL, 0, &word, 4));
  CHECK(word == 32768);
  WELL(CALL(mx_get_info)(NULL, MX_LINE_SPEED, &board, 4, &word, 4));
  CHECK(word == MX_SPEED_OPEN_MX);
  WELL(CALL(mx_get_info)(NULL, MX_NUMA_NODE, &board, 4, &word, 4));
  WELL(CALL(mx_get_info)(NULL, MX_PRODUCT_CODE, &board, 4, text, 6));
  CHECK(strlen(text) == 5);
  WELL(CALL(mx_get_info)(NULL, MX_COUNTERS_COUNT, NULL, 0, &word, 4));
  CHECK(word > 0 && word <= 64);
  WELL(CALL(mx_get_info)(NULL, MX_COUNTERS_LABELS, NULL, 0, labels, sizeof labels));
  CHECK(strcmp(labels, "messages_out") == 0);
  /* Every key: what it tells, whether or not an endpoint is open, and that a word needs four bytes. */
  static const struct { mx_get_info_key_t key; uint32_t told; } words[] = {
      {MX_MAX_NATIVE_ENDPOINTS, 255}, {MX_NATIVE_REQUESTS, 0xffffffff}, {MX_PORT_COUNT, 1},
      {MX_PIO_SEND_MAX, 128}, {MX_NET_TYPE, MX_NET_ETHER}, {MX_LINE_SPEED, MX_SPEED_OPEN_MX}};
  for (unsigned index = 0; index < sizeof words / sizeof *words; index++) {
    WELL(CALL(mx_get_info)(NULL, words[index].key, &board, 4, &word, 4));
    CHECK(word == words[index].told);
    RETURNS(MX_BAD_INFO_LENGTH, CALL(mx_get_info)(NULL, words[index].key, &board, 4, &word, 3));
  }
  for (int key = MX_PRODUCT_CODE; key <= MX_SERIAL_NUMBER; key++) {
    WELL(CALL(mx_get_info)(NULL, (mx_get_info_key_t)key, &board, 4, text, sizeof text));
    CHECK(strncmp(text, "N/A", 3) == 0);
  }
  uint32_t counted[64];
  WELL(CALL(mx_get_info)(NULL, MX_COUNTERS_VALUES, &board, 4, counted, sizeof counted));
  RETURNS(MX_BAD_INFO_VAL, CALL(mx_get_info)(NULL, MX_COUNTERS_VALUES, NULL, 0, counted, sizeof counted));
  WELL(CALL(mx_board_number_to_nic_id)(0, &nic_id));
  CHECK(nic_id == ids[0]);
  WELL(CALL(mx_nic_id_to_board_number)(nic_id, &board));
  CHECK(board == 0);
  RETURNS(MX_BOARD_UNKNOWN, CALL(mx_board_number_to_nic_id)(31, &nic_id));
  RETURNS(MX_BOARD_UNKNOWN, CALL(mx_nic_id_to_board_number)(0xdead, &board));
  WELL(CALL(mx_nic_id_to_hostname)(ids[0], text));
  WELL(CALL(mx_hostname_to_nic_id)(text, &nic_id));
  CHECK(nic_id == ids[0]);
  RETURNS(MX_HOST_NOT_FOUND, CALL(mx_hostname_to_nic_id)("no such host:7", &nic_id));
}

static void opening(void) {
  mx_endpoint_t other, third, same;
  mx_endpoint_addr_t address;
  uint32_t first, second;
  uint64_t nic_id;
  mx_param_t param = {.key = (mx_param_key_t)9};
  RETURNS(MX_BAD_PARAM_NAME, CALL(mx_open_endpoint)(0, 5, KEY, &param, 1, &ep));
  param.key = MX_PARAM_CONTEXT_ID;
  param.val.context_id.bits = 17;
  param.val.context_id.shift = 0;
  RETURNS(MX_BAD_PARAM_VAL, CALL(mx_open_endpoint)(0, 5, KEY, &param, 1, &ep));
  param.val.context_id.bits = 2;
  param.val.context_id.shift = 63;
  RETURNS(MX_BAD_PARAM_VAL, CALL(mx_open_endpoint)(0, 5, KEY, &param, 1, &ep));
  RETURNS(MX_BAD_PARAM_LIST, CALL(mx_open_endpoint)(0, 5, KEY, NULL, 1, &ep));
  RETURNS(MX_BOARD_UNKNOWN, CALL(mx_open_endpoint)(31, 5, KEY, NULL, 0, &ep));
  RETURNS(MX_BAD_ENDPOINT, CALL(mx_open_endpoint)(32, 5, KEY, NULL, 0, &ep));
  RETURNS(MX_BAD_ENDPOINT, CALL(mx_open_endpoint)(0, 255, KEY, NULL, 0, &ep));
  RETURNS(MX_BAD_ENDPOINT, CALL(mx_open_endpoint)(0, 256, KEY, NULL, 0, &ep));
  WELL(CALL(mx_open_endpoint)(0, 205, KEY, NULL, 0, &ep));
  RETURNS(MX_BUSY, CALL(mx_open_endpoint)(0, 205, KEY, NULL, 0, &same));
  WELL(CALL(mx_open_endpoint)(MX_ANY_NIC, MX_ANY_ENDPOINT, KEY, NULL, 0, &other));
  WELL(CALL(mx_open_endpoint)(0, MX_ANY_ENDPOINT, KEY, NULL, 0, &third));
  WELL(CALL(mx_get_endpoint_addr)(other, &address));
  WELL(CALL(mx_decompose_endpoint_addr)(address, &nic_id, &first));
  WELL(CALL(mx_get_endpoint_addr)(third, &address));
  WELL(CALL(mx_decompose_endpoint_addr)(address, &nic_id, &second));
  CHECK(second > first);
  WELL(CALL(mx_close_endpoint)(third));
  WELL(CALL(mx_close_endpoint)(other));
  RETURNS(MX_BAD_ENDPOINT, CALL(mx_close_endpoint)(other));
  RETURNS(MX_BAD_ENDPOINT, CALL(mx_close_endpoint)(NULL));
  WELL(CALL(mx_get_endpoint_addr)(ep, &self));
}

static void bad_input(void) {
  mx_request_t request = NULL, stale;
  mx_segment_t segment = {NULL, 5}, many[257];
  mx_status_t status;
  uint32_t result;
  void *context;
  memset(many, 0, sizeof many);
  RETURNS(MX_BAD_ENDPOINT, CALL(mx_isend)(NULL, NULL, 0, self, 1, NULL, &request));
  RETURNS(MX_BAD_ENDPOINT, CALL(mx_test)((mx_endpoint_t)0x1234, &request, &status, &result));
  RETURNS(MX_BAD_SEG_CNT, CALL(mx_isend)(ep, many, 257, self, 1, NULL, &request));
  RETURNS(MX_BAD_SEG_CNT, CALL(mx_irecv)(ep, many, 257, 1, ALL, NULL, &request));
  RETURNS(MX_BAD_SEG_LIST, CALL(mx_isend)(ep, NULL, 1, self, 1, NULL, &request));
  RETURNS(MX_BAD_SEG_MEM, CALL(mx_isend)(ep, &segment, 1, self, 1, NULL, &request));
  RETURNS(MX_BAD_MATCH_MASK, CALL(mx_irecv)(ep, NULL, 0, 3, 1, NULL, &request));
  RETURNS(MX_BAD_MATCH_MASK, CALL(mx_test_any)(ep, 3, 1, &status, &result));
  RETURNS(MX_BAD_MATCH_MASK, CALL(mx_iprobe)(ep, 3, 1, &status, &result));
  RETURNS(MX_BAD_REQUEST, CALL(mx_test)(ep, &request, &status, &result));
  RETURNS(MX_BAD_REQUEST, CALL(mx_test)(ep, NULL, &status, &result));
  RETURNS(MX_BAD_REQUEST, CALL(mx_wait)(ep, &request, 10, &status, &result));
  RETURNS(MX_BAD_REQUEST, CALL(mx_context)(&request, &context));
  RETURNS(MX_BAD_REQUEST, CALL(mx_forget)(ep, &request));
  request = stale = send_one(0, 77, 0, NULL);
  WELL(CALL(mx_test)(ep, &request, &status, &result));
  CHECK(result == 1 && request == NULL);
  RETURNS(MX_BAD_REQUEST, CALL(mx_test)(ep, &stale, &status, &result));
  RETURNS(MX_BAD_REQUEST, CALL(mx_cancel)(ep, &stale, &result));
  stale = (mx_request_t)~(uintptr_t)0;
  RETURNS(MX_BAD_REQUEST, CALL(mx_test)(ep, &stale, &status, &result));
  mx_endpoint_addr_t foreign = self;
  foreign.stuff[1] = ~foreign.stuff[1];
  RETURNS(MX_BAD_ENDPOINT_ID, CALL(mx_isend)(ep, NULL, 0, foreign, 1, NULL, &request));
  request = recv_one(0, 77, ALL, NULL);
  CHECK(wait_for(request).code == MX_STATUS_SUCCESS);
  RETURNS(MX_NO_PERM, CALL(mx_raw_open_endpoint)(0, NULL, 0, NULL));
  RETURNS(MX_FAILURE, CALL(mx_iput)(ep, NULL, 0, self, 0, NULL, &request));
  RETURNS(MX_FAILURE, CALL(mx_register_unexp_callback)(ep, NULL, NULL));
  CHECK(CALL(mx__regcache_clean)(NULL, 4096) == 0);
  mx_mapper_state_t state;
  mx_endpt_handle_t handle;
  WELL(CALL(mx_open_board)(0, &handle));
  WELL(CALL(mx__get_mapper_state)(handle, &state));
  CHECK(state.map_version == 1);
}

static void all_lengths(void) {
  static const uint32_t lens[] = {0, 1, 32, 33, 128, 129, 1024, 8192, 24577, 32767, 32768, 32769, 65536, 65537, 1 << 20};
  for (unsigned index = 0; index < sizeof lens / sizeof *lens; index++) {
    uint32_t len = lens[index], result;
    mx_status_t status;
    for (int variant = 0; variant < 4; variant++) {
      int is_synchronous = variant & 1, is_unexpected = variant & 2;
      mx_request_t receive = NULL, send, seen;
      fill(out_bytes, len, index + variant);
      memset(in_bytes, 0, len);
      if (!is_unexpected)
        receive = recv_one(len, 0xabc0 + index, ALL, &receive);
      send = send_one(len, 0xabc0 + index, is_synchronous, &send);
      /* Up to MX_COPY_SEND_MAX a send is complete with its post. */
      if (!is_synchronous && len <= 32768) {
        WELL(CALL(mx_ibuffered)(ep, &send, &result));
        CHECK(result == 1);
        WELL(CALL(mx_ipeek)(ep, &seen, &result));
        CHECK(result == 1 && (seen == send || seen == receive));
      }
      if (is_unexpected) {
        WELL(CALL(mx_probe)(ep, 20000, 0xab00, 0xff00, &status, &result));
        CHECK(result == 1 && status.msg_length == len && status.xfer_length == len && status.match_info == 0xabc0 + index);
        receive = recv_one(len, 0xabc0 + index, ALL, &receive);
      }
      void *context;
      WELL(CALL(mx_context)(&receive, &context));
      CHECK(context == &receive);
      status = wait_for(receive);
      CHECK(status.code == MX_STATUS_SUCCESS && status.msg_length == len && status.xfer_length == len);
      CHECK(status.match_info == 0xabc0 + index && status.context == &receive);
      CHECK(is_filled(in_bytes, len, index + variant));
      CHECK(memcmp(&status.source, &self, sizeof self) == 0);
      status = wait_for(send);
      CHECK(status.code == MX_STATUS_SUCCESS && status.xfer_length == len && status.context == &send);
    }
  }
}

static void vectors(void) {
  mx_segment_t from[256], to[256];
  mx_request_t send, receive;
  uint32_t total = 0;
  for (int index = 0; index < 256; index++) {
    from[index].segment_ptr = out_bytes + total;
    from[index].segment_length = index % 7 ? (uint32_t)index * 3 : 0;
    total += from[index].segment_length;
  }
  for (int index = 0, at = 0; index < 256; index++) {
    to[index].segment_ptr = in_bytes + at;
    to[index].segment_length = index < 255 ? 11 : total - at;
    at += to[index].segment_length;
  }
  for (int round = 0; round < 2; round++) {
    fill(out_bytes, total, 5 + round);
    memset(in_bytes, 0, total);
    WELL(CALL(mx_irecv)(ep, to, 256, 9, ALL, NULL, &receive));
    if (round)
      WELL(CALL(mx_issend)(ep, from, 256, self, 9, NULL, &send));
    else
      WELL(CALL(mx_isend)(ep, from, 256, self, 9, NULL, &send));
    CHECK(wait_for(receive).xfer_length == total);
    CHECK(wait_for(send).code == MX_STATUS_SUCCESS);
    CHECK(is_filled(in_bytes, total, 5 + round));
  }
}

static void truncation(void) {
  static const uint32_t lens[] = {10, 100, 10000, 40000, 1 << 20};
  for (int index = 0; index < 10; index++) {
    uint32_t len = lens[index / 2];
    int is_synchronous = index % 2;
    fill(out_bytes, len, 3);
    memset(in_bytes, 0xee, len);
    mx_request_t receive = recv_one(len / 2, 4, ALL, NULL), send = send_one(len, 4, is_synchronous, NULL);
    mx_status_t status = wait_for(receive);
    CHECK(status.code == MX_STATUS_TRUNCATED && status.msg_length == len && status.xfer_length == len / 2);
    CHECK(is_filled(in_bytes, len / 2, 3) && in_bytes[len / 2] == 0xee);
    /* An eager send is over before anybody receives it; whoever waits for the receiver hears of the cut. */
    int is_eager = !is_synchronous && len <= 32768;
    status = wait_for(send);
    CHECK(status.code == (is_eager ? MX_STATUS_SUCCESS : MX_STATUS_TRUNCATED));
    CHECK(status.msg_length == len && status.xfer_length == (is_eager ? len : len / 2));
  }
}

static void completion_order_cancel_forget(void) {
  mx_request_t requests[3], seen, copy;
  mx_status_t status;
  uint32_t result;
  for (int index = 0; index < 3; index++)
    requests[index] = recv_one(0, 10 + index, ALL, (void *)(uintptr_t)(index + 1));
  WELL(CALL(mx_ipeek)(ep, &seen, &result));
  CHECK(result == 0);
  for (int index = 2; index >= 0; index--)
    WELL(CALL(mx_isend)(ep, NULL, 0, self, 10 + index, NULL, NULL));
  /* In the order of their ends, and the oldest until somebody completes it. */
  for (int index = 2; index >= 1; index--) {
    for (int times = 0; times < 2; times++) {
      WELL(CALL(mx_peek)(ep, 20000, &seen, &result));
      CHECK(result == 1 && seen == requests[index]);
    }
    copy = seen;
    WELL(CALL(mx_test)(ep, &copy, &status, &result));
    CHECK(result == 1 && status.context == (void *)(uintptr_t)(index + 1));
  }
  WELL(CALL(mx_wait_any)(ep, 20000, 10, ALL, &status, &result));
  CHECK(result == 1 && status.context == (void *)1);
  WELL(CALL(mx_test_any)(ep, 0, 0, &status, &result));
  CHECK(result == 0);
  /* A time that is over is no error. */
  seen = recv_one(0, 20, ALL, NULL);
  memset(&status, 0x55, sizeof status);
  WELL(CALL(mx_wait)(ep, &seen, 20, &status, &result));
  CHECK(result == 0 && seen != NULL && status.msg_length == 0x55555555); /* nothing is told of it */
  WELL(CALL(mx_probe)(ep, 20, 99, ALL, &status, &result));
  CHECK(result == 0);
  WELL(CALL(mx_cancel)(ep, &seen, &result));
  CHECK(result == 1 && seen == NULL);
  /* The cancelled receive takes nothing. */
  WELL(CALL(mx_isend)(ep, NULL, 0, self, 20, NULL, NULL));
  WELL(CALL(mx_probe)(ep, 20000, 20, ALL, &status, &result));
  CHECK(result == 1);
  seen = recv_one(0, 20, ALL, NULL);
  CHECK(wait_for(seen).code == MX_STATUS_SUCCESS);
  seen = send_one(0, 21, 0, NULL);
  RETURNS(MX_BAD_REQUEST, CALL(mx_cancel)(ep, &seen, &result));
  WELL(CALL(mx_forget)(ep, &seen));
  CHECK(seen == NULL);
  /* A forgotten receive still takes its message. */
  memset(in_bytes, 0, 8);
  seen = recv_one(8, 22, ALL, NULL);
  WELL(CALL(mx_forget)(ep, &seen));
  fill(out_bytes, 8, 9);
  CHECK(wait_for(send_one(8, 22, 1, NULL)).code == MX_STATUS_SUCCESS);
  CHECK(is_filled(in_bytes, 8, 9));
  seen = recv_one(0, 21, ALL, NULL);
  CHECK(wait_for(seen).code == MX_STATUS_SUCCESS);
  seen = recv_one(0, 23, ALL, NULL);
  RETURNS(MX_BAD_REQUEST, CALL(mx_ibuffered)(ep, &seen, &result));
  WELL(CALL(mx_cancel)(ep, &seen, &result));
}

static mx_request_t in_wait;
static int is_in_wait;

static void *wait_long(void *unused) {
  mx_status_t status;
  uint32_t result = 7;
  __atomic_store_n(&is_in_wait, 1, __ATOMIC_SEQ_CST);
  WELL(CALL(mx_wait)(ep, &in_wait, MX_INFINITE, &status, &result));
  CHECK(result == 0);
  __atomic_store_n(&is_in_wait, 2, __ATOMIC_SEQ_CST);
  return unused;
}

static void wake_up(void) {
  pthread_t thread;
  uint32_t result;
  in_wait = recv_one(0, 30, ALL, NULL);
  CHECK(pthread_create(&thread, NULL, wait_long, NULL) == 0);
  while (__atomic_load_n(&is_in_wait, __ATOMIC_SEQ_CST) == 0)
    usleep(100);
  /* It wakes those that sleep, and nobody later: repeated until the thread was asleep. */
  while (__atomic_load_n(&is_in_wait, __ATOMIC_SEQ_CST) != 2) {
    WELL(CALL(mx_wakeup)(ep));
    usleep(1000);
  }
  CHECK(pthread_join(thread, NULL) == 0);
  WELL(CALL(mx_cancel)(ep, &in_wait, &result));
  CHECK(result == 1);
}

static int asked, has_data;
static mx_unexp_handler_action_t answer;
static mx_request_t posted_inside;
static pthread_t main_thread;

static mx_unexp_handler_action_t on_unexpected(void *context, mx_endpoint_addr_t source, uint64_t match, uint32_t len,
                                               void *data) {
  CHECK(context == &asked && memcmp(&source, &self, sizeof self) == 0);
  CHECK(pthread_equal(pthread_self(), main_thread)); /* in the application's calls only */
  RETURNS(MX_CLOSE_IN_HANDLER, CALL(mx_close_endpoint)(ep));
  RETURNS(MX_CLOSE_IN_HANDLER, CALL(mx_disable_progression)(ep));
  asked++;
  has_data = data != NULL;
  if (data && len)
    CHECK(is_filled(data, len, 6));
  if (answer == MX_RECV_CONTINUE && match == 41)
    posted_inside = recv_one(len, match, ALL, NULL);
  return answer;
}

static void until_asked(int count) {
  while (asked < count)
    WELL(CALL(mx_progress)(ep));
  CHECK(asked == count);
}

static void handler(void) {
  mx_status_t status;
  uint32_t result;
  mx_request_t request;
  main_thread = pthread_self();
  WELL(CALL(mx_register_unexp_handler)(ep, on_unexpected, &asked));
  fill(out_bytes, 1 << 20, 6);
  /* Finished: nobody gets it. */
  answer = MX_RECV_FINISHED;
  WELL(CALL(mx_isend)(ep, &(mx_segment_t){out_bytes, 100}, 1, self, 40, NULL, NULL));
  until_asked(1);
  CHECK(has_data);
  WELL(CALL(mx_iprobe)(ep, 40, ALL, &status, &result));
  CHECK(result == 0);
  /* Whoever waits for its receiver hears that nothing was taken, unless there was nothing. */
  for (int kind = 0; kind < 3; kind++) {
    uint32_t len = kind == 2 ? 1 << 20 : kind * 100;
    request = send_one(len, 40, kind < 2, NULL);
    until_asked(2 + kind);
    status = wait_for(request);
    CHECK(status.code == (len ? MX_STATUS_TRUNCATED : MX_STATUS_SUCCESS));
    CHECK(status.msg_length == len && status.xfer_length == 0);
  }
  /* Continue: a receive that the handler posted takes it. Short, synchronous, long. */
  answer = MX_RECV_CONTINUE;
  for (int kind = 0; kind < 3; kind++) {
    uint32_t len = kind == 2 ? 1 << 20 : 100;
    memset(in_bytes, 0, len);
    request = send_one(len, 41, kind == 1, NULL);
    until_asked(5 + kind);
    CHECK(has_data == (kind == 0));
    status = wait_for(posted_inside);
    CHECK(status.code == MX_STATUS_SUCCESS && status.xfer_length == len && is_filled(in_bytes, len, 6));
    CHECK(wait_for(request).code == MX_STATUS_SUCCESS);
  }
  /* Continue without a receive: it waits for one, in order, behind its elder. */
  for (uint32_t len = 200; len < 202; len++)
    WELL(CALL(mx_isend)(ep, &(mx_segment_t){out_bytes, len}, 1, self, 42, NULL, NULL));
  until_asked(9);
  WELL(CALL(mx_iprobe)(ep, 42, ALL, &status, &result));
  CHECK(result == 1 && status.msg_length == 200);
  for (uint32_t len = 200; len < 202; len++) {
    memset(in_bytes, 0, len);
    status = wait_for(recv_one(1000, 42, ALL, NULL));
    CHECK(status.xfer_length == len && is_filled(in_bytes, len, 6));
  }
  /* What a receive waits for is nothing to ask about. */
  request = recv_one(10, 43, ALL, NULL);
  WELL(CALL(mx_isend)(ep, &(mx_segment_t){out_bytes, 10}, 1, self, 43, NULL, NULL));
  CHECK(wait_for(request).xfer_length == 10 && asked == 9);
  WELL(CALL(mx_register_unexp_handler)(ep, NULL, NULL));
  WELL(CALL(mx_disable_progression)(ep));
  WELL(CALL(mx_reenable_progression)(ep));
}

static mx_unexp_handler_action_t lets_be(void *context, mx_endpoint_addr_t source, uint64_t match, uint32_t len, void *bytes) {
  (void)context, (void)source, (void)match, (void)len, (void)bytes;
  return MX_RECV_CONTINUE;
}

static volatile int is_pushing;

static void *push(void *unused) {
  while (is_pushing) WELL(CALL(mx_progress)(ep));
  return unused;
}

/* A receive that is posted while another thread takes a message to the handler gets that message, and not a later one of its sender. */
static void handler_in_another_thread(void) {
  enum { ROUND_COUNT = 3000, BATCH_COUNT = 4 };
  pthread_t pusher;
  is_pushing = 1;
  WELL(CALL(mx_register_unexp_handler)(ep, lets_be, NULL));
  CHECK(pthread_create(&pusher, NULL, push, NULL) == 0);
  for (int round = 0; round < ROUND_COUNT; round++) {
    for (int i = 0; i < BATCH_COUNT; i++) {
      out_bytes[0] = (unsigned char)i;
      wait_for(send_one(1, 0x77, 0, NULL));
    }
    for (int i = 0; i < BATCH_COUNT; i++) {
      wait_for(recv_one(1, 0x77, ALL, NULL));
      CHECK(in_bytes[0] == i);
    }
  }
  is_pushing = 0;
  CHECK(pthread_join(pusher, NULL) == 0);
  WELL(CALL(mx_register_unexp_handler)(ep, NULL, NULL));
}

enum { TAKER_COUNT = 4, TAKEN_COUNT = 2000 };
static int taken_count;

static void *take_some(void *unused) {
  mx_status_t status;
  uint32_t result;
  while (__atomic_load_n(&taken_count, __ATOMIC_SEQ_CST) < TAKEN_COUNT) {
    WELL(CALL(mx_wait_any)(ep, 20, 0x88, ALL, &status, &result));
    if (result) {
      CHECK(status.code == MX_STATUS_SUCCESS && status.xfer_length == 8);
      __atomic_add_fetch(&taken_count, 1, __ATOMIC_SEQ_CST);
    }
  }
  return unused;
}

/* Several threads wait for any on one endpoint while another sends: each end is told once. */
static void several_threads_take(void) {
  pthread_t takers[TAKER_COUNT];
  for (int index = 0; index < TAKER_COUNT; index++)
    CHECK(pthread_create(&takers[index], NULL, take_some, NULL) == 0);
  for (int count = 0; count < TAKEN_COUNT; count++) {
    recv_one(8, 0x88, ALL, NULL);
    WELL(CALL(mx_isend)(ep, &(mx_segment_t){out_bytes, 8}, 1, self, 0x88, NULL, NULL));
  }
  for (int index = 0; index < TAKER_COUNT; index++)
    CHECK(pthread_join(takers[index], NULL) == 0);
  CHECK(taken_count == TAKEN_COUNT);
}

static void connections(void) {
  mx_endpoint_addr_t address, again;
  uint64_t nic_id, other;
  uint32_t index, session, session_again;
  void *context = &address;
  mx_request_t request;
  mx_status_t status;
  WELL(CALL(mx_decompose_endpoint_addr2)(self, &nic_id, &index, &session));
  CHECK(index == 205);
  WELL(CALL(mx_connect)(ep, nic_id, 205, KEY, 20000, &address));
  WELL(CALL(mx_connect)(ep, nic_id, 205, KEY, MX_INFINITE, &again));
  CHECK(memcmp(&address, &again, sizeof again) == 0);
  WELL(CALL(mx_decompose_endpoint_addr2)(address, &other, &index, &session_again));
  CHECK(other == nic_id && index == 205 && session == session_again);
  RETURNS(MX_BAD_CONNECTION_KEY, CALL(mx_connect)(ep, nic_id, 205, KEY + 1, 20000, &again));
  RETURNS(MX_CONNECTION_FAILED, CALL(mx_connect)(ep, nic_id, 206, KEY, 20000, &again));
  RETURNS(MX_BAD_ENDPOINT_ID, CALL(mx_connect)(ep, nic_id, 300, KEY, 20000, &again));
  RETURNS(MX_NIC_NOT_FOUND, CALL(mx_connect)(ep, 0x2ffffffff01, 0, KEY, 20000, &again));
  WELL(CALL(mx_get_endpoint_addr_context)(address, &context));
  CHECK(context == NULL);
  WELL(CALL(mx_set_endpoint_addr_context)(address, &session));
  WELL(CALL(mx_get_endpoint_addr_context)(self, &context));
  CHECK(context == &session);
  WELL(CALL(mx_iconnect)(ep, nic_id, 205, KEY, 0x55, &request, &request));
  status = wait_for(request);
  CHECK(status.code == MX_STATUS_SUCCESS && status.match_info == 0x55 && status.context == &request);
  CHECK(memcmp(&status.source, &self, sizeof self) == 0);
  WELL(CALL(mx_iconnect)(ep, nic_id, 205, KEY + 1, 0x55, NULL, &request));
  CHECK(wait_for(request).code == MX_STATUS_BAD_KEY);
  WELL(CALL(mx_iconnect)(ep, nic_id, 206, KEY, 0x55, NULL, &request));
  CHECK(wait_for(request).code == MX_STATUS_ENDPOINT_CLOSED);
}

static void context_ids(void) {
  mx_param_t param = {.key = MX_PARAM_CONTEXT_ID};
  mx_endpoint_t own;
  mx_request_t request;
  uint32_t result;
  param.val.context_id.bits = 1;
  param.val.context_id.shift = 63;
  WELL(CALL(mx_open_endpoint)(0, 207, KEY, &param, 1, &own));
  RETURNS(MX_BAD_MATCHING_FOR_CONTEXT_ID_MASK, CALL(mx_irecv)(own, NULL, 0, 0, ALL >> 1, NULL, &request));
  WELL(CALL(mx_irecv)(own, NULL, 0, 0, 1ULL << 63, NULL, &request));
  WELL(CALL(mx_cancel)(own, &request, &result));
  CHECK(result == 1);
  /* Probes and waits for any look into one context or across all, by the bits of their mask. */
  mx_endpoint_addr_t to_own;
  mx_status_t status;
  static const uint64_t of_first = 5, of_second = 1ULL << 63 | 6;
  WELL(CALL(mx_get_endpoint_addr)(own, &to_own));
  WELL(CALL(mx_isend)(own, NULL, 0, to_own, of_first, NULL, NULL));
  WELL(CALL(mx_isend)(own, NULL, 0, to_own, of_second, NULL, NULL));
  WELL(CALL(mx_probe)(own, 20000, 2, 2, &status, &result)); /* no bit of the context */
  CHECK(result == 1 && status.match_info == of_second);
  WELL(CALL(mx_iprobe)(own, 0, 0, &status, &result));
  CHECK(result == 1 && status.match_info == of_first);
  WELL(CALL(mx_iprobe)(own, 1ULL << 63, 1ULL << 63, &status, &result));
  CHECK(result == 1 && status.match_info == of_second);
  WELL(CALL(mx_irecv)(own, NULL, 0, 0, 1ULL << 63, NULL, &request));
  WELL(CALL(mx_irecv)(own, NULL, 0, 1ULL << 63, 1ULL << 63, NULL, &request));
  WELL(CALL(mx_wait_any)(own, 20000, 2, 2, &status, &result));
  CHECK(result == 1 && status.match_info == of_second);
  WELL(CALL(mx_test_any)(own, 1ULL << 63, 1ULL << 63, &status, &result));
  CHECK(result == 0);
  WELL(CALL(mx_test_any)(own, 0, 1ULL << 63, &status, &result));
  CHECK(result == 1 && status.match_info == of_first);
  WELL(CALL(mx_close_endpoint)(own));
}

/* Finished and begun again: the settings are what they were. */
static void again(void) {
  uint32_t word = 0;
  WELL(CALL(mx__init_api)(MX_API));
  WELL(CALL(mx_open_endpoint)(0, 205, KEY, NULL, 0, &ep));
  WELL(CALL(mx_get_endpoint_addr)(ep, &self));
  WELL(CALL(mx_get_info)(ep, MX_COPY_SEND_MAX, NULL, 0, &word, 4));
  CHECK(word == 32768);
  WELL(CALL(mx_isend)(ep, &(mx_segment_t){out_bytes, 32768}, 1, self, 3, NULL, NULL));
  CHECK(wait_for(recv_one(32768, 3, ALL, NULL)).xfer_length == 32768);
  WELL(CALL(mx_close_endpoint)(ep));
  WELL(CALL(mx_finalize)());
}

int main(void) {
  find_functions();
  before_and_after_init();
  strings();
  information();
  opening();
  bad_input();
  all_lengths();
  vectors();
  truncation();
  completion_order_cancel_forget();
  wake_up();
  handler();
  handler_in_another_thread();
  several_threads_take();
  connections();
  context_ids();
  WELL(CALL(mx_close_endpoint)(ep));
  mx_status_t status;
  uint32_t result;
  RETURNS(MX_BAD_ENDPOINT, CALL(mx_test_any)(ep, 0, 0, &status, &result));
  WELL(CALL(mx_finalize)());
  again();
  printf("all is as MX has it\n");
  return 0;
}
