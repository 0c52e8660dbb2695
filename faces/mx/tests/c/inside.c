/* One process: calls from inside the handler of unexpected messages, with progression switched off, ended from other threads; handles and addresses
   that are over; and calls that answer where MX ended the process. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <pthread.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "one.h"

#define OWN_INDEX 205
#define OTHER_INDEX 208
/* Somebody has the port of this index who never says a word. */
#define SILENT_INDEX 209
#define FIRST_PORT 61952

static uint64_t nic_id;

static int get(const int *flag) { return __atomic_load_n(flag, __ATOMIC_SEQ_CST); }
static void set(int *flag, int value) { __atomic_store_n(flag, value, __ATOMIC_SEQ_CST); }

static void await(const int *flag, int value) {
  while (get(flag) != value)
    usleep(100);
}

static mx_endpoint_t open_other(mx_endpoint_addr_t *to_ep) {
  mx_endpoint_t other;
  WELL(CALL(mx_open_endpoint)(0, OTHER_INDEX, KEY, NULL, 0, &other));
  WELL(CALL(mx_connect)(other, nic_id, OWN_INDEX, KEY, 20000, to_ep));
  return other;
}

static mx_request_t pending;
static int depth, first_count, second_count;

/* All that a program might try. What would wait for ever is refused, for until the handler returns nothing ends. */
static mx_unexp_handler_action_t re_enters(void *context, mx_endpoint_addr_t source, uint64_t match, uint32_t len, void *data) {
  mx_endpoint_addr_t address;
  mx_request_t seen;
  mx_status_t status;
  uint32_t result = 7;
  (void)context, (void)data, (void)len;
  CHECK(depth++ == 0);
  if (match == 51) {
    second_count++;
    WELL(CALL(mx_register_unexp_handler)(ep, NULL, NULL));
    depth--;
    return MX_RECV_FINISHED;
  }
  CHECK(match == 50);
  first_count++;
  /* This may ask the handler about itself only after it has returned. */
  WELL(CALL(mx_isend)(ep, NULL, 0, source, 51, NULL, NULL));
  WELL(CALL(mx_progress)(ep));
  WELL(CALL(mx_ipeek)(ep, &seen, &result));
  CHECK(result == 0);
  WELL(CALL(mx_iprobe)(ep, 0, 0, &status, &result));
  CHECK(result == 0);
  WELL(CALL(mx_test)(ep, &pending, &status, &result));
  CHECK(result == 0 && pending != NULL);
  WELL(CALL(mx_wait)(ep, &pending, 5, &status, &result));
  CHECK(result == 0 && pending != NULL);
  RETURNS(MX_CLOSE_IN_HANDLER, CALL(mx_wait)(ep, &pending, MX_INFINITE, &status, &result));
  RETURNS(MX_CLOSE_IN_HANDLER, CALL(mx_wait_any)(ep, MX_INFINITE, 0, 0, &status, &result));
  RETURNS(MX_CLOSE_IN_HANDLER, CALL(mx_peek)(ep, MX_INFINITE, &seen, &result));
  RETURNS(MX_CLOSE_IN_HANDLER, CALL(mx_probe)(ep, MX_INFINITE, 0, 0, &status, &result));
  RETURNS(MX_CLOSE_IN_HANDLER, CALL(mx_close_endpoint)(ep));
  RETURNS(MX_CLOSE_IN_HANDLER, CALL(mx_disable_progression)(ep));
  WELL(CALL(mx_reenable_progression)(ep));
  WELL(CALL(mx_wakeup)(ep));
  WELL(CALL(mx_connect)(ep, nic_id, OWN_INDEX, KEY, MX_INFINITE, &address));
  CHECK(memcmp(&address, &source, sizeof source) == 0);
  WELL(CALL(mx_cancel)(ep, &pending, &result));
  CHECK(result == 1 && pending == NULL);
  depth--;
  return MX_RECV_CONTINUE;
}

static void re_entering(void) {
  WELL(CALL(mx_register_unexp_handler)(ep, re_enters, NULL));
  pending = recv_one(0, 52, ALL, NULL);
  fill(out_bytes, 300, 4);
  WELL(CALL(mx_isend)(ep, &(mx_segment_t){out_bytes, 300}, 1, self, 50, NULL, NULL));
  while (second_count == 0)
    WELL(CALL(mx_progress)(ep));
  CHECK(first_count == 1 && second_count == 1 && depth == 0);
  mx_status_t status = wait_for(recv_one(300, 50, ALL, NULL));
  CHECK(status.xfer_length == 300 && is_filled(in_bytes, 300, 4));
}

static mx_request_t posted_inside;
static int has_disconnected;

static mx_unexp_handler_action_t disconnects(void *context, mx_endpoint_addr_t source, uint64_t match, uint32_t len,
                                             void *data) {
  (void)context, (void)data;
  posted_inside = recv_one(len, match, ALL, NULL);
  WELL(CALL(mx_disconnect)(ep, source));
  has_disconnected++;
  return MX_RECV_CONTINUE;
}

/* The message goes with its sender; the receive that was to take it stays, for another. */
static void disconnecting(void) {
  mx_endpoint_addr_t to_ep;
  mx_endpoint_t other = open_other(&to_ep);
  mx_segment_t segment = {out_bytes, 40000};
  mx_request_t send;
  mx_status_t status;
  uint32_t result;
  WELL(CALL(mx_register_unexp_handler)(ep, disconnects, NULL));
  WELL(CALL(mx_issend)(other, &segment, 1, to_ep, 60, NULL, &send));
  while (!has_disconnected)
    WELL(CALL(mx_progress)(ep));
  WELL(CALL(mx_register_unexp_handler)(ep, NULL, NULL));
  CHECK(has_disconnected == 1);
  WELL(CALL(mx_test)(ep, &posted_inside, &status, &result));
  CHECK(result == 0);
  fill(out_bytes, 100, 8);
  CHECK(wait_for(send_one(100, 60, 0, NULL)).code == MX_STATUS_SUCCESS);
  status = wait_for(posted_inside);
  CHECK(status.code == MX_STATUS_SUCCESS && status.xfer_length == 100 && is_filled(in_bytes, 100, 8));
  CHECK(memcmp(&status.source, &self, sizeof self) == 0);
  WELL(CALL(mx_wait)(other, &send, 20000, &status, &result));
  CHECK(result == 1 && status.code != MX_STATUS_SUCCESS);
  WELL(CALL(mx_close_endpoint)(other));
}

/* What was sent to a peer ends with the connection, and its address and context are void. */
static void after_disconnecting(void) {
  mx_endpoint_addr_t to_ep, again;
  mx_endpoint_t other = open_other(&to_ep);
  mx_segment_t segment = {out_bytes, 100};
  mx_request_t send;
  mx_status_t status;
  uint32_t result;
  void *context = &send;
  /* Who tries a wrong key beside a connection harms nothing. */
  RETURNS(MX_BAD_CONNECTION_KEY, CALL(mx_connect)(other, nic_id, OWN_INDEX, KEY + 1, 20000, &again));
  WELL(CALL(mx_set_endpoint_addr_context)(to_ep, &send));
  WELL(CALL(mx_issend)(other, &segment, 1, to_ep, 61, NULL, &send));
  WELL(CALL(mx_probe)(ep, 20000, 61, ALL, &status, &result));
  CHECK(result == 1);
  WELL(CALL(mx_disconnect)(other, to_ep));
  WELL(CALL(mx_wait)(other, &send, 20000, &status, &result));
  CHECK(result == 1 && status.code == MX_STATUS_ENDPOINT_UNREACHABLE && status.xfer_length == 0);
  RETURNS(MX_BAD_ENDPOINT_ID, CALL(mx_isend)(other, NULL, 0, to_ep, 61, NULL, &send));
  WELL(CALL(mx_connect)(other, nic_id, OWN_INDEX, KEY, 20000, &again));
  WELL(CALL(mx_get_endpoint_addr_context)(again, &context));
  CHECK(context == NULL);
  WELL(CALL(mx_close_endpoint)(other));
  /* The other side is not told: what it has, it has. */
  CHECK(wait_for(recv_one(100, 61, ALL, NULL)).xfer_length == 100);
}

static int asked;

static mx_unexp_handler_action_t counts(void *context, mx_endpoint_addr_t source, uint64_t match, uint32_t len, void *data) {
  (void)context, (void)source, (void)match, (void)len, (void)data;
  asked++;
  return MX_RECV_FINISHED;
}

static int has_waited;

static void *wait_in_thread(void *request) {
  CHECK(wait_for(*(mx_request_t *)request).code == MX_STATUS_SUCCESS);
  set(&has_waited, 1);
  return NULL;
}

/* Nothing is told of and no handler runs until it is switched on again, once, however often it was switched off. */
static void switched_off(void) {
  mx_request_t request = recv_one(8, 70, ALL, NULL), of_thread = recv_one(8, 71, ALL, NULL);
  mx_status_t status;
  uint32_t result;
  pthread_t thread;
  WELL(CALL(mx_disable_progression)(ep));
  WELL(CALL(mx_disable_progression)(ep));
  CHECK(pthread_create(&thread, NULL, wait_in_thread, &of_thread) == 0);
  for (uint64_t match = 70; match < 72; match++)
    WELL(CALL(mx_isend)(ep, &(mx_segment_t){out_bytes, 8}, 1, self, match, NULL, NULL));
  WELL(CALL(mx_register_unexp_handler)(ep, counts, NULL));
  WELL(CALL(mx_isend)(ep, &(mx_segment_t){out_bytes, 8}, 1, self, 72, NULL, NULL));
  for (int times = 0; times < 1000; times++) {
    WELL(CALL(mx_progress)(ep));
    WELL(CALL(mx_test)(ep, &request, &status, &result));
    CHECK(result == 0 && asked == 0);
    WELL(CALL(mx_test_any)(ep, 0, 0, &status, &result));
    CHECK(result == 0);
  }
  WELL(CALL(mx_wait)(ep, &request, 20, &status, &result));
  CHECK(result == 0 && get(&has_waited) == 0);
  WELL(CALL(mx_reenable_progression)(ep));
  CHECK(wait_for(request).code == MX_STATUS_SUCCESS);
  CHECK(pthread_join(thread, NULL) == 0);
  while (asked == 0)
    WELL(CALL(mx_progress)(ep));
  CHECK(asked == 1);
  WELL(CALL(mx_register_unexp_handler)(ep, NULL, NULL));
}

static int is_inside, may_leave, has_left, is_off;

static mx_unexp_handler_action_t stays(void *context, mx_endpoint_addr_t source, uint64_t match, uint32_t len, void *data) {
  (void)context, (void)source, (void)match, (void)len, (void)data;
  set(&is_inside, 1);
  await(&may_leave, 1);
  set(&has_left, 1);
  return MX_RECV_FINISHED;
}

static void *progress_in_thread(void *unused) {
  while (get(&has_left) == 0)
    WELL(CALL(mx_progress)(ep));
  return unused;
}

static void *switch_off_in_thread(void *unused) {
  WELL(CALL(mx_disable_progression)(ep));
  CHECK(get(&has_left) == 1);
  set(&is_off, 1);
  return unused;
}

/* Who switches it off waits for a handler that runs in another thread: programs use that as their lock. */
static void switched_off_beside_the_handler(void) {
  pthread_t threads[2];
  WELL(CALL(mx_register_unexp_handler)(ep, stays, NULL));
  WELL(CALL(mx_isend)(ep, NULL, 0, self, 73, NULL, NULL));
  CHECK(pthread_create(&threads[0], NULL, progress_in_thread, NULL) == 0);
  await(&is_inside, 1);
  CHECK(pthread_create(&threads[1], NULL, switch_off_in_thread, NULL) == 0);
  for (int times = 0; times < 100; times++) {
    CHECK(get(&is_off) == 0);
    usleep(100);
  }
  set(&may_leave, 1);
  await(&is_off, 1);
  for (int index = 0; index < 2; index++)
    CHECK(pthread_join(threads[index], NULL) == 0);
  WELL(CALL(mx_reenable_progression)(ep));
  WELL(CALL(mx_register_unexp_handler)(ep, NULL, NULL));
}

static int has_begun, has_ended;

/* The calls that block, but for mx_wait, which another program has. */
static void *block(void *kind) {
  mx_request_t seen;
  mx_endpoint_addr_t address;
  mx_status_t status;
  uint32_t result = 7;
  set(&has_begun, 1);
  switch (*(int *)kind) {
  case 0: WELL(CALL(mx_wait_any)(ep, MX_INFINITE, 0, 0, &status, &result)); break;
  case 1: WELL(CALL(mx_peek)(ep, MX_INFINITE, &seen, &result)); break;
  case 2: WELL(CALL(mx_probe)(ep, MX_INFINITE, 0, 0, &status, &result)); break;
  case 3: WELL(CALL(mx_buffered)(ep, &pending, MX_INFINITE, &result)); break;
  default:
    result = 0;
    RETURNS(MX_TIMEOUT, CALL(mx_connect)(ep, nic_id, SILENT_INDEX, KEY, MX_INFINITE, &address));
  }
  CHECK(result == 0);
  set(&has_ended, 1);
  return NULL;
}

static uint64_t now_ms(void) {
  struct timespec now;
  CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Has the port of the index where nobody says a word. */
static int listen_in_silence(void) {
  struct sockaddr_in place = {.sin_family = AF_INET, .sin_port = htons(FIRST_PORT + SILENT_INDEX)};
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int silent = socket(AF_INET, SOCK_DGRAM, 0);
  CHECK(bind(silent, (struct sockaddr *)&place, sizeof place) == 0);
  return silent;
}

static void woken(void) {
  mx_endpoint_addr_t address;
  mx_request_t request;
  mx_status_t status;
  uint32_t result;
  pthread_t thread;
  int silent = listen_in_silence();
  pending = send_one(1 << 20, 80, 0, NULL); /* nobody takes it yet */
  for (int kind = 0; kind < 5; kind++) {
    /* A probe must find nothing, so that message waits for it in a receive. */
    if (kind == 2)
      CHECK(wait_for(recv_one(1 << 20, 80, ALL, NULL)).code == MX_STATUS_SUCCESS && wait_for(pending).code == MX_STATUS_SUCCESS);
    if (kind == 3)
      pending = send_one(1 << 20, 80, 0, NULL);
    set(&has_begun, 0);
    set(&has_ended, 0);
    CHECK(pthread_create(&thread, NULL, block, &kind) == 0);
    await(&has_begun, 1);
    while (get(&has_ended) == 0) {
      WELL(CALL(mx_wakeup)(ep));
      usleep(1000);
    }
    CHECK(pthread_join(thread, NULL) == 0);
  }
  CHECK(wait_for(recv_one(1 << 20, 80, ALL, NULL)).code == MX_STATUS_SUCCESS && wait_for(pending).code == MX_STATUS_SUCCESS);
  /* Who comes later is not woken. */
  request = recv_one(0, 81, ALL, NULL);
  WELL(CALL(mx_wakeup)(ep));
  uint64_t began = now_ms();
  WELL(CALL(mx_wait)(ep, &request, 50, &status, &result));
  CHECK(result == 0 && now_ms() - began >= 49);
  WELL(CALL(mx_cancel)(ep, &request, &result));
  RETURNS(MX_TIMEOUT, CALL(mx_connect)(ep, nic_id, SILENT_INDEX, KEY, 50, &address));
  /* A connection that nobody answers can be taken back, and is never told of. */
  WELL(CALL(mx_iconnect)(ep, nic_id, SILENT_INDEX, KEY, 5, NULL, &request));
  WELL(CALL(mx_cancel)(ep, &request, &result));
  CHECK(result == 1 && request == NULL);
  CHECK(close(silent) == 0);
  WELL(CALL(mx_iconnect)(ep, nic_id, SILENT_INDEX, KEY, 6, NULL, &request));
  CHECK(wait_for(request).code == MX_STATUS_ENDPOINT_CLOSED);
  WELL(CALL(mx_test_any)(ep, 0, 0, &status, &result));
  CHECK(result == 0);
}

static void is_over(mx_endpoint_t at, mx_request_t handle) {
  mx_status_t status;
  uint32_t result;
  void *context;
  RETURNS(MX_BAD_REQUEST, CALL(mx_test)(at, &handle, &status, &result));
  RETURNS(MX_BAD_REQUEST, CALL(mx_wait)(at, &handle, 10, &status, &result));
  RETURNS(MX_BAD_REQUEST, CALL(mx_cancel)(at, &handle, &result));
  RETURNS(MX_BAD_REQUEST, CALL(mx_forget)(at, &handle));
  RETURNS(MX_BAD_REQUEST, CALL(mx_ibuffered)(at, &handle, &result));
  RETURNS(MX_BAD_REQUEST, CALL(mx_set_request_timeout)(at, handle, 1000));
  RETURNS(MX_BAD_REQUEST, CALL(mx_context)(&handle, &context));
}

/* Handles that are over, by whichever way; and addresses of an endpoint that is closed, by the one that has its place. */
static void stale(void) {
  mx_endpoint_addr_t to_ep, again;
  mx_status_t status;
  uint32_t result;
  void *context;
  mx_request_t handle = recv_one(0, 90, ALL, NULL), copy = handle;
  WELL(CALL(mx_set_request_timeout)(ep, handle, 1000));
  WELL(CALL(mx_set_request_timeout)(ep, NULL, 1000));
  WELL(CALL(mx_isend)(ep, NULL, 0, self, 90, NULL, NULL));
  WELL(CALL(mx_wait_any)(ep, 20000, 90, ALL, &status, &result));
  CHECK(result == 1);
  is_over(ep, handle);
  copy = handle = recv_one(0, 91, ALL, NULL);
  WELL(CALL(mx_forget)(ep, &copy));
  is_over(ep, handle);
  WELL(CALL(mx_isend)(ep, NULL, 0, self, 91, NULL, NULL)); /* the forgotten receive takes it */
  copy = handle = recv_one(0, 92, ALL, NULL);
  WELL(CALL(mx_cancel)(ep, &copy, &result));
  CHECK(result == 1);
  is_over(ep, handle);
  mx_endpoint_t other = open_other(&to_ep);
  WELL(CALL(mx_irecv)(other, NULL, 0, 93, ALL, NULL, &handle));
  RETURNS(MX_BAD_REQUEST, CALL(mx_test)(ep, &handle, &status, &result)); /* another endpoint's */
  RETURNS(MX_BAD_ENDPOINT_ID, CALL(mx_isend)(other, NULL, 0, self, 1, NULL, NULL));
  WELL(CALL(mx_close_endpoint)(other));
  RETURNS(MX_BAD_REQUEST, CALL(mx_context)(&handle, &context));
  RETURNS(MX_BAD_ENDPOINT_ID, CALL(mx_get_endpoint_addr_context)(to_ep, &context));
  other = open_other(&again);
  is_over(other, handle);
  RETURNS(MX_BAD_ENDPOINT_ID, CALL(mx_isend)(other, NULL, 0, to_ep, 1, NULL, NULL));
  RETURNS(MX_BAD_ENDPOINT_ID, CALL(mx_set_endpoint_addr_context)(to_ep, &again));
  RETURNS(MX_BAD_ENDPOINT_ID, CALL(mx_get_endpoint_addr_context)(to_ep, &context));
  RETURNS(MX_BAD_ENDPOINT_ID, CALL(mx_disconnect)(other, to_ep));
  WELL(CALL(mx_close_endpoint)(other));
}

/* What is sent to an endpoint that was closed does not reach the one that is opened in its place. */
static void earlier_life(void) {
  mx_endpoint_addr_t to_ep, to_other, again;
  mx_endpoint_t other = open_other(&to_ep);
  mx_status_t status;
  mx_request_t request;
  uint32_t result;
  void *context;
  WELL(CALL(mx_connect)(ep, nic_id, OTHER_INDEX, KEY, 20000, &to_other));
  WELL(CALL(mx_isend)(ep, NULL, 0, to_other, 97, NULL, NULL));
  WELL(CALL(mx_irecv)(other, NULL, 0, 97, ALL, NULL, &request));
  WELL(CALL(mx_wait)(other, &request, 20000, &status, &result));
  CHECK(result == 1 && status.code == MX_STATUS_SUCCESS);
  WELL(CALL(mx_close_endpoint)(other));
  other = open_other(&to_ep);
  WELL(CALL(mx_set_endpoint_addr_context)(to_other, &again));
  WELL(CALL(mx_issend)(ep, NULL, 0, to_other, 98, NULL, &request));
  status = wait_for(request);
  CHECK(status.code == MX_STATUS_ENDPOINT_CLOSED);
  WELL(CALL(mx_connect)(ep, nic_id, OTHER_INDEX, KEY, 20000, &again));
  WELL(CALL(mx_isend)(ep, NULL, 0, again, 99, NULL, NULL));
  WELL(CALL(mx_probe)(other, 20000, 0, 0, &status, &result));
  CHECK(result == 1 && status.match_info == 99); /* and nothing else came before it */
  /* After that connection the address from before it is good again, and what the program noted of the peer is still there. */
  WELL(CALL(mx_isend)(ep, NULL, 0, to_other, 100, NULL, NULL));
  WELL(CALL(mx_probe)(other, 20000, 100, ALL, &status, &result));
  CHECK(result == 1);
  WELL(CALL(mx_get_endpoint_addr_context)(again, &context));
  CHECK(context == &again);
  WELL(CALL(mx_disconnect)(ep, to_other));
  WELL(CALL(mx_get_endpoint_addr_context)(again, &context));
  CHECK(context == NULL);
  WELL(CALL(mx_close_endpoint)(other));
}

/* Where MX and Open-MX ended the process, or let nobody but root in, there is an answer. */
static void answers(void) {
  uint32_t result = 7;
  mx_request_t request = send_one(100, 95, 0, NULL);
  WELL(CALL(mx_buffered)(ep, &request, 20000, &result));
  CHECK(result == 1);
  WELL(CALL(mx_forget)(ep, &request));
  CHECK(wait_for(recv_one(100, 95, ALL, NULL)).code == MX_STATUS_SUCCESS);
  request = send_one(1 << 20, 95, 0, NULL);
  WELL(CALL(mx_ibuffered)(ep, &request, &result));
  CHECK(result == 0);
  WELL(CALL(mx_buffered)(ep, &request, 20, &result));
  CHECK(result == 0);
  CHECK(wait_for(recv_one(1 << 20, 95, ALL, NULL)).code == MX_STATUS_SUCCESS);
  WELL(CALL(mx_buffered)(ep, &request, 20000, &result));
  CHECK(result == 1 && wait_for(request).code == MX_STATUS_SUCCESS);
  request = recv_one(0, 96, ALL, NULL);
  RETURNS(MX_BAD_REQUEST, CALL(mx_buffered)(ep, &request, 20, &result));
  WELL(CALL(mx_cancel)(ep, &request, &result));
  mx_segment_t too_long[2] = {{out_bytes, 0xffffffff}, {out_bytes, 1}};
  RETURNS(MX_BAD_SEG_LIST, CALL(mx_isend)(ep, too_long, 2, self, 1, NULL, &request));
  RETURNS(MX_FAILURE, CALL(mx_iget)(ep, NULL, 0, self, 0, NULL, &request));
  RETURNS(MX_BAD_ENDPOINT, CALL(mx_iget)(NULL, NULL, 0, self, 0, NULL, &request));
  CHECK(CALL(mx_raw_handle)(NULL) == -1);
  RETURNS(MX_NO_PERM, CALL(mx_raw_close_endpoint)(NULL));
  RETURNS(MX_NO_PERM, CALL(mx_raw_send)(NULL, 0, NULL, 0, NULL, 0, NULL));
  RETURNS(MX_NO_PERM, CALL(mx_raw_next_event)(NULL, NULL, NULL, NULL, NULL, 0, NULL));
  RETURNS(MX_NO_PERM, CALL(mx_raw_set_peer_name)(NULL, 0, NULL));
  RETURNS(MX_NO_PERM, CALL(mx_raw_remove_peer)(NULL, 0));
}

static int thread_count(void) {
  char line[128];
  int count = -1;
  FILE *status = fopen("/proc/self/status", "r");
  CHECK(status != NULL);
  while (fgets(line, sizeof line, status))
    (void)sscanf(line, "Threads: %d", &count);
  fclose(status);
  return count;
}

#define ASKED 300
#define ASKERS 32

/* However many connections are asked for, few threads ask; those that nobody waits for any more make room, and others are made. */
static void connecting_to_many(void) {
  mx_request_t requests[ASKED], request;
  uint32_t result;
  int before = thread_count();
  int silent = listen_in_silence();
  for (int i = 0; i < ASKED; i++)
    WELL(CALL(mx_iconnect)(ep, nic_id, SILENT_INDEX, KEY, 7, NULL, &requests[i]));
  WELL(CALL(mx_iconnect)(ep, nic_id, OWN_INDEX, KEY, 8, NULL, &request));
  CHECK(thread_count() <= before + ASKERS);
  for (int i = 0; i < ASKED; i++)
    WELL(CALL(mx_cancel)(ep, &requests[i], &result));
  CHECK(wait_for(request).code == MX_STATUS_SUCCESS);
  close(silent);
}

#define MANY 3000
#define KEPT 1024
static int let_be_count;

static mx_unexp_handler_action_t lets_be(void *context, mx_endpoint_addr_t source, uint64_t match, uint32_t len, void *data) {
  (void)context, (void)source, (void)len, (void)data;
  CHECK(match == 1000u + let_be_count);
  let_be_count++;
  return MX_RECV_CONTINUE;
}

/* What the handler lets be is kept here up to a number; the rest stays where it is, unasked. Each receive finds its message, and the handler goes on. */
static void let_many_be(void) {
  WELL(CALL(mx_register_unexp_handler)(ep, lets_be, NULL));
  for (int i = 0; i < MANY; i++) {
    out_bytes[0] = i;
    WELL(CALL(mx_isend)(ep, &(mx_segment_t){out_bytes, 1}, 1, self, 1000 + i, NULL, NULL));
  }
  while (let_be_count < KEPT)
    WELL(CALL(mx_progress)(ep));
  for (int i = 0; i < 200; i++)
    WELL(CALL(mx_progress)(ep));
  CHECK(let_be_count == KEPT);
  for (int i = 0; i < MANY; i++) {
    mx_status_t status = wait_for(recv_one(1, 0, 0, NULL));
    CHECK(status.match_info == 1000u + i && in_bytes[0] == (unsigned char)i);
  }
  CHECK(let_be_count > KEPT);
  WELL(CALL(mx_register_unexp_handler)(ep, NULL, NULL));
}

int main(void) {
  uint32_t index;
  find_functions();
  CALL(mx_set_error_handler)(errors_return);
  WELL(CALL(mx__init_api)(MX_API));
  WELL(CALL(mx_open_endpoint)(0, OWN_INDEX, KEY, NULL, 0, &ep));
  WELL(CALL(mx_get_endpoint_addr)(ep, &self));
  WELL(CALL(mx_decompose_endpoint_addr)(self, &nic_id, &index));
  CHECK(index == OWN_INDEX);
  re_entering();
  disconnecting();
  after_disconnecting();
  switched_off();
  switched_off_beside_the_handler();
  woken();
  stale();
  earlier_life();
  answers();
  let_many_be();
  connecting_to_many();
  WELL(CALL(mx_close_endpoint)(ep));
  WELL(CALL(mx_finalize)());
  printf("all is as MX has it\n");
  return 0;
}
