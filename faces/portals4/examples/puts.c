/* Puts between two processes: one there and one back, or one way as fast as they go. What they cost beside Packhorse's own is `packhorse bench --face portals`.
 *
 *   puts ping|pong|pour|count BYTES SECONDS DEPTH         ping and pong, or pour and count, are a pair; so many puts are on their way at once
 *
 * Each prints "NID PID" and reads that of the other from standard input, so that whoever starts the two joins them. At the end each prints a line of
 * JSON. The target is told of a put by a counter, and so is the initiator of its acknowledgement: only then the same bytes are put again. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <portals4.h>

enum { DATA_PORTAL = 4, WORD_PORTAL = 5, LOOK_EVERY = 32, SAMPLE_COUNT_MAX = 1 << 22 };
enum { GOES_ON = 1, IS_LAST = 2 }; /* the first byte of a ball */

static size_t bytes, depth;
static double seconds;
static ptl_handle_ni_t ni;
static ptl_handle_ct_t arrived, acknowledged, words;
static ptl_handle_md_t md;
static ptl_process_t other;
static char *from, *to;

static void well(int code, const char *what) {
  if (code == PTL_OK) return;
  fprintf(stderr, "puts: %s returned %d\n", what, code);
  exit(1);
}
#define WELL(call) well(call, #call)

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void reached(ptl_handle_ct_t counter, ptl_size_t count) {
  ptl_ct_event_t event;
  WELL(PtlCTWait(counter, count, &event));
  if (event.failure) {
    fprintf(stderr, "puts: one failed\n");
    exit(1);
  }
}

static void expose(ptl_pt_index_t portal, void *start, size_t len, ptl_handle_ct_t counter) {
  ptl_pt_index_t index;
  ptl_handle_me_t entry;
  ptl_me_t me = {start, len, counter, PTL_UID_ANY, PTL_ME_OP_PUT | PTL_ME_EVENT_CT_COMM, {.phys = {PTL_NID_ANY, PTL_PID_ANY}}, 0, 0, 0};
  WELL(PtlPTAlloc(ni, 0, PTL_EQ_NONE, portal, &index));
  WELL(PtlMEAppend(ni, portal, &me, PTL_PRIORITY_LIST, NULL, &entry));
}

static void open_portals(void) {
  ptl_process_t self;
  unsigned nid, pid;
  from = malloc(bytes * depth);
  to = malloc(bytes * depth);
  if (!from || !to) exit(1);
  memset(from, GOES_ON, bytes * depth);
  memset(to, 0, bytes * depth);
  WELL(PtlInit());
  WELL(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_PHYSICAL, PTL_PID_ANY, NULL, NULL, &ni));
  WELL(PtlCTAlloc(ni, &arrived));
  WELL(PtlCTAlloc(ni, &acknowledged));
  WELL(PtlCTAlloc(ni, &words));
  expose(DATA_PORTAL, to, bytes * depth, arrived);
  expose(WORD_PORTAL, NULL, 0, words);
  ptl_md_t description = {from, bytes * depth, PTL_MD_EVENT_CT_ACK, PTL_EQ_NONE, acknowledged};
  WELL(PtlMDBind(ni, &description, &md));
  WELL(PtlGetPhysId(ni, &self));
  printf("%u %u\n", self.phys.nid, self.phys.pid);
  fflush(stdout);
  if (scanf("%u %u", &nid, &pid) != 2) exit(1);
  other.phys.nid = nid;
  other.phys.pid = pid;
}

static void put(size_t slot) {
  WELL(PtlPut(md, slot * bytes, bytes, PTL_CT_ACK_REQ, other, DATA_PORTAL, 0, slot * bytes, NULL, 0));
}

static int by_value(const void *a, const void *b) {
  float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

static void ping(void) {
  float *samples = malloc(SAMPLE_COUNT_MAX * sizeof *samples);
  double begin = 0, last = 0, sum = 0;
  size_t count = 0;
  if (!samples) exit(1);
  for (ptl_size_t round = 1;; round++) {
    put(0);
    if (round == 1) reached(acknowledged, round); /* or it cannot be delivered, and nothing comes back */
    reached(arrived, round);
    reached(acknowledged, round);
    double now = now_ns();
    if (round == 1) begin = now; /* the first makes the two known to each other */
    if (now >= begin + 0.1e9 * seconds && round > 1 && count < SAMPLE_COUNT_MAX) {
      samples[count] = (float)((now - last) / 2);
      sum += samples[count++];
    }
    last = now;
    if (count > 0 && now >= begin + seconds * 1e9) {
      from[0] = IS_LAST;
      put(0);
      reached(acknowledged, round + 1);
      break;
    }
  }
  qsort(samples, count, sizeof *samples, by_value);
  printf("{\"messages\":%zu,\"bytes\":%zu,\"elapsed_ns\":%.0f,\"half_rtt_ns\":{\"p50\":%.0f,\"p99\":%.0f,\"mean\":%.0f}}\n", count, count * bytes, sum * 2,
         samples[count / 2], samples[count * 99 / 100], sum / (double)count);
}

static void pong(void) {
  for (ptl_size_t round = 1;; round++) {
    reached(arrived, round);
    if (to[0] == IS_LAST) break;
    put(0);
    reached(acknowledged, round);
  }
  printf("{\"messages\":0,\"bytes\":0,\"elapsed_ns\":0}\n");
}

/* Puts until told to stop, each into a place of its own; and then until all have arrived. */
static void pour(void) {
  ptl_ct_event_t told = {0, 0};
  ptl_size_t count = 0;
  while (told.success == 0) {
    if (count >= depth) reached(acknowledged, count - depth + 1);
    put(count % depth);
    count++;
    if (count % LOOK_EVERY == 0) WELL(PtlCTGet(words, &told));
  }
  reached(acknowledged, count);
  WELL(PtlPut(md, 0, 0, PTL_CT_ACK_REQ, other, WORD_PORTAL, 0, 0, NULL, 0));
  reached(acknowledged, count + 1);
  printf("{\"messages\":0,\"bytes\":0,\"elapsed_ns\":0}\n");
}

static void count_them(void) {
  double begin = 0, start = 0, now = 0;
  ptl_size_t count = 0, counted = 0;
  while (start == 0 || now < begin + seconds * 1e9 || count == counted) {
    reached(arrived, ++count);
    now = now_ns();
    if (count == 1) begin = now;
    if (start == 0 && now >= begin + 0.1e9 * seconds) {
      start = now;
      counted = count;
    }
  }
  WELL(PtlPut(md, 0, 0, PTL_CT_ACK_REQ, other, WORD_PORTAL, 0, 0, NULL, 0));
  reached(acknowledged, 1);
  reached(words, 1); /* all that was under way has come */
  printf("{\"messages\":%llu,\"bytes\":%llu,\"elapsed_ns\":%.0f}\n", (unsigned long long)(count - counted),
         (unsigned long long)(count - counted) * (unsigned long long)bytes, now - start);
}

int main(int count, char **arguments) {
  static const struct {
    const char *name;
    void (*play)(void);
  } roles[] = {{"ping", ping}, {"pong", pong}, {"pour", pour}, {"count", count_them}};
  if (count == 5) {
    bytes = strtoul(arguments[2], NULL, 10);
    seconds = strtod(arguments[3], NULL);
    depth = strtoul(arguments[4], NULL, 10);
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
      if (strcmp(arguments[1], roles[i].name) != 0 || bytes < 1 || !(seconds > 0) || depth < 1) continue;
      open_portals();
      roles[i].play();
      fflush(stdout);
      WELL(PtlNIFini(ni));
      PtlFini();
      return 0;
    }
  }
  fprintf(stderr, "usage: puts ping|pong|pour|count BYTES SECONDS DEPTH\n");
  return 2;
}
