/* Double buffering as in the paper on application offload (its Figure 7), against Portals itself.
 *
 * A producer fills one buffer while the other is on its way; a consumer sums up one while the other is filled. The consumer's buffers are match
 * entries that are used once: posted before their message is allowed to come, they need nobody's attention when it does. "Clear to send" is
 * a put of nothing that a counter of the producer counts.
 *
 *   doublebuf produce|consume BYTES SECONDS PRODUCER_RATE CONSUMER_RATE         rates in bytes a second, without communication
 *
 * Each prints "NID PID" and reads that of the other from standard input, so that whoever starts the two joins them (see the test). At the end each prints a line of JSON: what it reached alone, and what it reached while the
 * other's data came and went (the paper's Figures 12 and 13). */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <portals4.h>

enum { DATA_PORTAL = 4, WORD_PORTAL = 5, TABLE_LEN = 1024, GO_COUNT = 20, GO_UNITS = 500000 };
static const uint64_t LAST = UINT64_MAX;

static int is_producer;
static size_t bytes;
static double seconds, wanted_rate, alone_rate;
static ptl_handle_ni_t ni;
static ptl_handle_eq_t events;
static ptl_handle_ct_t words; /* that the other side said */
static ptl_handle_md_t nothing;
static ptl_process_t other;
static ptl_size_t heard;

static void well(int code, const char *what) {
  if (code == PTL_OK) return;
  fprintf(stderr, "doublebuf: %s returned %d\n", what, code);
  exit(1);
}
#define WELL(call) well(call, #call)

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void *room(size_t len) {
  void *memory = calloc(1, len);
  if (!memory) exit(1);
  return memory;
}

/* ---- Work whose length is known: a chain in which each step needs the one before. */

static uint64_t state = 1, table[TABLE_LEN], handling_units;
static double ns_per_unit;
static volatile uint64_t sink;

static __attribute__((noinline)) void work(uint64_t count) {
  for (uint64_t i = 0; i < count; i++) state = state * 0x5851f42d4c957f2dULL + (table[(state >> 54) % TABLE_LEN] | 1);
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Fills a buffer or sums it up, and works as long as the rate asks for; how long that took. */
static double handle(uint64_t *buffer) {
  double start = now_ns();
  uint64_t value = 1, sum = 0;
  for (size_t i = 0; i < bytes / 8; i++) {
    if (is_producer)
      buffer[i] = value = value * 0x5851f42d4c957f2dULL + 1;
    else
      sum += buffer[i];
  }
  sink = sum;
  work(handling_units);
  return now_ns() - start;
}

static void calibrate(void) {
  double times[GO_COUNT], start;
  uint64_t *buffers[2] = {room(bytes + 8), room(bytes + 8)};
  long count = 0;
  for (uint64_t i = 0; i < TABLE_LEN; i++) table[i] = i * 0x9e3779b9ULL;
  work(GO_UNITS);
  for (int i = 0; i < GO_COUNT; i++) {
    start = now_ns();
    work(GO_UNITS);
    times[i] = now_ns() - start;
  }
  qsort(times, GO_COUNT, sizeof(*times), by_value);
  ns_per_unit = times[GO_COUNT / 4] / GO_UNITS;
  for (int i = 0; i < 11; i++) times[i] = handle(buffers[i % 2]);
  qsort(times, 11, sizeof(*times), by_value);
  double rest = (double)bytes * 1e9 / wanted_rate - times[5];
  handling_units = rest > 0 ? (uint64_t)(rest / ns_per_unit + 0.5) : 0;
  start = now_ns();
  while (now_ns() - start <= 20e6 || count < 4) handle(buffers[count++ % 2]);
  alone_rate = (double)count * (double)bytes * 1e9 / (now_ns() - start);
  free(buffers[0]);
  free(buffers[1]);
}

/* ---- Words between the two: puts of nothing, which are counted. */

static void say(void) { WELL(PtlPut(nothing, 0, 0, PTL_NO_ACK_REQ, other, WORD_PORTAL, 0, 0, NULL, 0)); }

static void hear(void) {
  ptl_ct_event_t count;
  WELL(PtlCTWait(words, ++heard, &count));
  if (count.failure) exit(1);
}

/* While one side finds out its rate the other sleeps. */
static void calibrate_in_turn(void) {
  ptl_ct_event_t count = {0, 0};
  if (!is_producer)
    for (heard++; count.success < heard; usleep(500)) WELL(PtlCTGet(words, &count));
  calibrate();
  say();
  if (is_producer)
    for (heard++; count.success < heard; usleep(500)) WELL(PtlCTGet(words, &count));
}

static void open_portals(void) {
  ptl_process_t self;
  ptl_pt_index_t index;
  ptl_handle_me_t entry;
  unsigned nid, pid;
  WELL(PtlInit());
  WELL(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_PHYSICAL, PTL_PID_ANY, NULL, NULL, &ni));
  WELL(PtlEQAlloc(ni, 64, &events));
  WELL(PtlCTAlloc(ni, &words));
  WELL(PtlPTAlloc(ni, 0, events, DATA_PORTAL, &index));
  WELL(PtlPTAlloc(ni, 0, PTL_EQ_NONE, WORD_PORTAL, &index));
  WELL(PtlGetPhysId(ni, &self));
  ptl_me_t word = {NULL, 0, words, PTL_UID_ANY, PTL_ME_OP_PUT | PTL_ME_EVENT_CT_COMM, {.phys = {PTL_NID_ANY, PTL_PID_ANY}}, 0, 0, 0};
  WELL(PtlMEAppend(ni, WORD_PORTAL, &word, PTL_PRIORITY_LIST, NULL, &entry));
  ptl_md_t none = {NULL, 0, 0, PTL_EQ_NONE, PTL_CT_NONE};
  WELL(PtlMDBind(ni, &none, &nothing));
  printf("%u %u\n", self.phys.nid, self.phys.pid);
  fflush(stdout);
  if (scanf("%u %u", &nid, &pid) != 2) exit(1);
  other.phys.nid = nid;
  other.phys.pid = pid;
}

static double warm_ns(void) { return 1e9 * (0.1 * seconds < 0.3 ? 0.1 * seconds : 0.3); }

/* The next event of this kind; others are passed over. */
static ptl_event_t next(ptl_event_kind_t kind) {
  ptl_event_t event;
  do {
    WELL(PtlEQWait(events, &event));
    if (event.ni_fail_type != PTL_NI_OK) {
      fprintf(stderr, "doublebuf: event %d failed with %d\n", event.type, event.ni_fail_type);
      exit(1);
    }
  } while (event.type != kind);
  return event;
}

static void produce(void) {
  uint64_t *buffers[2];
  ptl_handle_md_t mds[2];
  for (int i = 0; i < 2; i++) {
    buffers[i] = room(bytes + 8);
    ptl_md_t md = {buffers[i], bytes, 0, events, PTL_CT_NONE};
    WELL(PtlMDBind(ni, &md, &mds[i]));
  }
  int is_away[2] = {0, 0};
  double busy_ns = 0, end = now_ns() + seconds * 1e9 + warm_ns();
  for (uint64_t n = 0;; n++) {
    while (is_away[n % 2]) is_away[(uintptr_t)next(PTL_EVENT_SEND).user_ptr] = 0;
    busy_ns += handle(buffers[n % 2]);
    int is_last = now_ns() >= end;
    buffers[n % 2][0] = is_last ? LAST : n;
    hear(); /* clear to send */
    WELL(PtlPut(mds[n % 2], 0, bytes, PTL_NO_ACK_REQ, other, DATA_PORTAL, n % 2, 0, (void *)(uintptr_t)(n % 2), 0));
    is_away[n % 2] = 1;
    if (is_last) {
      hear(); /* whoever leaves earlier takes what is under way along: first what was cleared for the other buffer, then the end */
      hear();
      printf("{\"messages\":0,\"bytes\":0,\"elapsed_ns\":0,\"figures\":{\"producer_alone_bytes_per_s\":%.0f,\"producer_bytes_per_s\":%.0f}}\n",
             alone_rate, (double)(n + 1) * (double)bytes * 1e9 / busy_ns);
      return;
    }
  }
}

static void post(uint64_t *buffer, uint64_t which) {
  ptl_handle_me_t entry;
  ptl_me_t me = {buffer, bytes, PTL_CT_NONE, PTL_UID_ANY,
                 PTL_ME_OP_PUT | PTL_ME_USE_ONCE | PTL_ME_EVENT_LINK_DISABLE | PTL_ME_EVENT_UNLINK_DISABLE, other, which, 0, 0};
  WELL(PtlMEAppend(ni, DATA_PORTAL, &me, PTL_PRIORITY_LIST, (void *)(uintptr_t)which, &entry));
  say();
}

static void consume(void) {
  uint64_t *buffers[2] = {room(bytes + 8), room(bytes + 8)};
  int is_full[2] = {0, 0};
  unsigned long messages = 0;
  double begin = now_ns(), start = 0, elapsed_ns = 0, busy_ns = 0;
  for (uint64_t i = 0; i < 2; i++) post(buffers[i], i);
  for (uint64_t n = 0;; n++) {
    while (!is_full[n % 2]) { /* of two long puts the second may be complete first: only their matching is in order */
      ptl_event_t event = next(PTL_EVENT_PUT);
      if (event.mlength != bytes) {
        fprintf(stderr, "doublebuf: a put of %llu bytes came\n", (unsigned long long)event.mlength);
        exit(1);
      }
      is_full[(uintptr_t)event.user_ptr] = 1;
    }
    is_full[n % 2] = 0;
    if (buffers[n % 2][0] == LAST) break;
    if (buffers[n % 2][0] != n) {
      fprintf(stderr, "doublebuf: buffer %llu came where %llu was due\n", (unsigned long long)buffers[n % 2][0], (unsigned long long)n);
      exit(1);
    }
    double ns = handle(buffers[n % 2]), now = now_ns();
    post(buffers[n % 2], n % 2);
    if (start == 0) {
      if (now - begin >= warm_ns()) start = now;
    } else if (elapsed_ns == 0) {
      messages++;
      busy_ns += ns;
      if (now - begin >= seconds * 1e9) elapsed_ns = now - start;
    }
  }
  if (elapsed_ns == 0) elapsed_ns = now_ns() - start;
  say();
  printf("{\"messages\":%lu,\"bytes\":%.0f,\"elapsed_ns\":%.0f,\"figures\":{\"consumer_alone_bytes_per_s\":%.0f,\"consumer_bytes_per_s\":%.0f}}\n",
         messages, (double)messages * (double)bytes, elapsed_ns, alone_rate, busy_ns > 0 ? (double)messages * (double)bytes * 1e9 / busy_ns : 0);
}

int main(int count, char **arguments) {
  if (count != 6 || (strcmp(arguments[1], "produce") && strcmp(arguments[1], "consume"))) {
    fprintf(stderr, "usage: doublebuf produce|consume BYTES SECONDS PRODUCER_RATE CONSUMER_RATE\n");
    return 2;
  }
  is_producer = strcmp(arguments[1], "produce") == 0;
  bytes = strtoul(arguments[2], NULL, 10) & ~(size_t)7;
  seconds = strtod(arguments[3], NULL);
  wanted_rate = strtod(arguments[is_producer ? 4 : 5], NULL);
  if (bytes < 16 || seconds <= 0 || wanted_rate <= 0) {
    fprintf(stderr, "doublebuf: buffers of 16 bytes at least, more than no time, rates above nothing\n");
    return 2;
  }
  open_portals();
  calibrate_in_turn();
  is_producer ? produce() : consume();
  fflush(stdout);
  WELL(PtlNIFini(ni));
  PtlFini();
  return 0;
}
