/* A chain of triggered puts around processes that do not call anything while it runs.
 *
 *   chain PROCESSES HOPS compute|sleep         hops are a multiple of processes, so that the last one ends where the first began
 *
 * Each hop is a put that was posted beforehand and waits for a counter: the put before it, arriving, sets it off. So what passes a message on is the network's own
 * matching and counting, and the programs compute meanwhile, or sleep. A process knows that its part is over by its memory alone: each hop writes its number.
 * Prints a line of JSON: hops, and nanoseconds from the first put until whoever began sees the last one in its memory. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <portals4.h>

enum { PORTAL = 4, PROCESS_COUNT_MAX = 64, HOP_COUNT_MAX = 100000 };

static unsigned process_count, rank, hop_count;
static int computes, wires[PROCESS_COUNT_MAX][2];
static volatile uint64_t sink;

static void fail(const char *what, int code) {
  fprintf(stderr, "chain: process %u: %s: %d\n", rank, what, code);
  exit(1);
}
#define WELL(call) \
  do { \
    int code_ = (call); \
    if (code_ != PTL_OK) fail(#call, code_); \
  } while (0)

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Words by a socket to the first process, which passes them on: no part of Portals. */
static void give(int wire, const void *word, size_t len) {
  if (write(wire, word, len) != (ssize_t)len) fail("write", errno);
}

static void take(int wire, void *word, size_t len) {
  if (recv(wire, word, len, MSG_WAITALL) != (ssize_t)len) fail("read", errno);
}

/* Everybody's word, to everybody. */
static void exchange(const void *mine, void *all, size_t len) {
  if (rank != 0) {
    give(wires[rank][1], mine, len);
    take(wires[rank][1], all, len * process_count);
    return;
  }
  memcpy(all, mine, len);
  for (unsigned i = 1; i < process_count; i++) take(wires[i][0], (char *)all + i * len, len);
  for (unsigned i = 1; i < process_count; i++) give(wires[i][0], all, len * process_count);
}

static void meet(void) {
  char mine = 1, all[PROCESS_COUNT_MAX];
  exchange(&mine, all, 1);
}

/* Until the memory says so, without a call of Portals. */
static void await(const volatile uint64_t *word, uint64_t value) {
  struct timespec nap = {0, 20000};
  while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != value) {
    if (computes)
      for (int i = 0; i < 1000; i++) sink = sink * 0x5851f42d4c957f2dULL + 1;
    else
      nanosleep(&nap, NULL);
  }
}

static double chain(void) {
  ptl_handle_ni_t ni;
  ptl_handle_ct_t count;
  ptl_handle_me_t entry;
  ptl_handle_md_t md;
  ptl_pt_index_t index;
  ptl_process_t self, all[PROCESS_COUNT_MAX];
  uint64_t *from = calloc(hop_count, 8), *to = calloc(hop_count, 8);
  if (!from || !to) fail("no memory", ENOMEM);
  for (unsigned hop = 0; hop < hop_count; hop++) from[hop] = hop + 1;
  ptl_ni_limits_t limits = {.max_entries = 16, .max_unexpected_headers = 16, .max_mds = 16, .max_eqs = 16, .max_cts = 16, .max_pt_index = 16, .max_iovecs = 16,
                            .max_list_size = 16, .max_triggered_ops = (int)hop_count, .max_msg_size = 1 << 20, .max_atomic_size = 8, .max_fetch_atomic_size = 8,
                            .max_waw_ordered_size = 8, .max_war_ordered_size = 8, .max_volatile_size = 8};
  WELL(PtlInit());
  WELL(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_PHYSICAL, PTL_PID_ANY, &limits, NULL, &ni));
  WELL(PtlCTAlloc(ni, &count));
  WELL(PtlPTAlloc(ni, 0, PTL_EQ_NONE, PORTAL, &index));
  ptl_me_t me = {to, hop_count * 8, count, PTL_UID_ANY, PTL_ME_OP_PUT | PTL_ME_EVENT_CT_COMM, {.phys = {PTL_NID_ANY, PTL_PID_ANY}}, 0, 0, 0};
  WELL(PtlMEAppend(ni, PORTAL, &me, PTL_PRIORITY_LIST, NULL, &entry));
  ptl_md_t description = {from, hop_count * 8, 0, PTL_EQ_NONE, PTL_CT_NONE};
  WELL(PtlMDBind(ni, &description, &md));
  WELL(PtlGetPhysId(ni, &self));
  exchange(&self, all, sizeof self);
  ptl_process_t next = all[(rank + 1) % process_count];
  /* The first hop waits for nothing; each later one for the arrival of the hop before it, which is this process's nth. */
  for (unsigned hop = rank, nth = rank == 0 ? 0 : 1; hop < hop_count; hop += process_count, nth++)
    if (hop > 0) WELL(PtlTriggeredPut(md, hop * 8, 8, PTL_NO_ACK_REQ, next, PORTAL, 0, hop * 8, NULL, 0, count, nth));
  meet();
  double begin = now_ns();
  if (rank == 0) WELL(PtlPut(md, 0, 8, PTL_NO_ACK_REQ, next, PORTAL, 0, 0, NULL, 0));
  /* Hop h goes from process h to process h + 1, around. */
  unsigned first = (rank + process_count - 1) % process_count, last = first + hop_count - process_count;
  await(&to[last], last + 1);
  double elapsed = now_ns() - begin;
  for (unsigned hop = first; hop <= last; hop += process_count)
    if (to[hop] != hop + 1) fail("a hop is missing", (int)hop);
  meet(); /* whoever leaves earlier takes what is under way along */
  WELL(PtlNIFini(ni));
  PtlFini();
  return elapsed;
}

int main(int count, char **arguments) {
  pid_t children[PROCESS_COUNT_MAX];
  int is_bad = count != 4;
  if (!is_bad) {
    process_count = (unsigned)strtoul(arguments[1], NULL, 10);
    hop_count = (unsigned)strtoul(arguments[2], NULL, 10);
    computes = strcmp(arguments[3], "compute") == 0;
    is_bad = process_count < 2 || process_count > PROCESS_COUNT_MAX || hop_count < 1 || hop_count > HOP_COUNT_MAX || hop_count % process_count != 0 || (!computes && strcmp(arguments[3], "sleep"));
  }
  if (is_bad) {
    fprintf(stderr, "usage: chain PROCESSES HOPS compute|sleep\n");
    return 2;
  }
  pid_t parent = getpid();
  for (unsigned i = 1; i < process_count; i++) {
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, wires[i]) != 0) fail("socketpair", errno);
    children[i] = fork();
    if (children[i] < 0) fail("fork", errno);
    if (children[i] == 0) {
      rank = i;
      prctl(PR_SET_PDEATHSIG, SIGKILL); /* nobody is left behind by a first process that fails */
      if (getppid() != parent) return 1;
      chain();
      return 0;
    }
  }
  double elapsed = chain();
  for (unsigned i = 1; i < process_count; i++) {
    int status;
    if (waitpid(children[i], &status, 0) != children[i] || status != 0) fail("another process failed", status);
  }
  printf("{\"hops\":%u,\"elapsed_ns\":%.0f,\"ns_per_hop\":%.0f}\n", hop_count, elapsed, elapsed / hop_count);
  return 0;
}
