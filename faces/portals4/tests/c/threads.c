/* B.7, B.8 and B.10 where several threads of a process wait, move and append at once. To oneself. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "rules.h"

enum { THREADS = 4, EACH = 500 };

static int64_t memory[THREADS + 1];
static ptl_handle_eq_t shared;
static ptl_handle_ct_t count;
static ptl_handle_md_t md;
static atomic_int seen[THREADS * EACH], taken;

static void together(void *(*work)(void *)) {
  pthread_t threads[THREADS];
  for (intptr_t i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
  for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
}

static void *take_events(void *unused) {
  while (atomic_fetch_add(&taken, 1) < THREADS * EACH) {
    ptl_event_t event;
    WELL(PtlEQWait(shared, &event));
    atomic_fetch_add(&seen[event.hdr_data], 1);
  }
  return NULL;
}

static void *put_some(void *unused) {
  usleep(20000); /* the others wait, some of them asleep */
  for (ptl_hdr_data_t i = 0; i < THREADS * EACH; i++) {
    WELL(PtlPut(md, 0, 8, PTL_NO_ACK_REQ, self, portal, 0, 0, NULL, i));
    if (i % 100 == 0) usleep(1000);
  }
  return NULL;
}

RULE(B7_an_event_wakes_one_of_those_who_wait) {
  pthread_t putting;
  begin(ME_PHYSICAL);
  WELL(PtlEQAlloc(ni, THREADS * EACH + 1, &shared));
  WELL(PtlPTAlloc(ni, 0, shared, 5, &portal));
  ptl_me_t me = entry(memory, 8, PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE);
  append(&me, PTL_PRIORITY_LIST, NULL);
  md = bind_memory(memory + 1, 8, PTL_MD_EVENT_SEND_DISABLE, PTL_CT_NONE);
  CHECK(pthread_create(&putting, NULL, put_some, NULL) == 0);
  together(take_events);
  CHECK(pthread_join(putting, NULL) == 0);
  for (int i = 0; i < THREADS * EACH; i++) IS(1, seen[i]);
  nothing(shared);
}

static void *wait_for_all(void *unused) {
  ptl_ct_event_t event;
  WELL(PtlCTWait(count, EACH, &event));
  CHECK(event.success >= EACH);
  return NULL;
}

static void *count_up(void *unused) {
  ptl_ct_event_t one = {1, 0};
  usleep(20000);
  for (int i = 0; i < EACH; i++) WELL(PtlCTInc(count, one));
  return NULL;
}

RULE(B8_a_counter_wakes_all_who_wait_for_it) {
  pthread_t counting;
  begin(ME_PHYSICAL);
  count = counter();
  CHECK(pthread_create(&counting, NULL, count_up, NULL) == 0);
  together(wait_for_all);
  CHECK(pthread_join(counting, NULL) == 0);
}

static void *add_up(void *which) {
  ptl_ct_event_t event;
  ptl_handle_ct_t own = counter();
  ptl_md_t one = {memory + THREADS, 8, PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_SUCCESS_DISABLE, PTL_EQ_NONE, own};
  ptl_handle_md_t source;
  WELL(PtlMDBind(ni, &one, &source));
  for (ptl_size_t i = 1; i <= EACH; i++) {
    WELL(PtlAtomic(source, 0, 8, PTL_CT_ACK_REQ, self, portal, 0, 0, NULL, 0, PTL_SUM, PTL_INT64_T));
    if (i % 10 == 0) WELL(PtlCTWait(own, i, &event));
  }
  WELL(PtlMDRelease(source));
  WELL(PtlCTFree(own));
  return NULL;
}

RULE(B10_threads_do_not_disturb_each_others_atomic_operations) {
  begin(ME_PHYSICAL);
  ptl_me_t me = entry(memory, 8, PUT_GET | PTL_ME_EVENT_COMM_DISABLE);
  append(&me, PTL_PRIORITY_LIST, NULL);
  memory[THREADS] = 1;
  together(add_up);
  WELL(PtlAtomicSync());
  IS(THREADS * EACH, memory[0]);
}

static void *come_and_go(void *which) {
  ptl_me_t me = entry(memory, 8, PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE | PTL_ME_EVENT_COMM_DISABLE);
  me.match_bits = (ptl_match_bits_t)(intptr_t)which;
  for (int i = 0; i < EACH; i++) {
    ptl_handle_me_t handle;
    WELL(PtlMEAppend(ni, portal, &me, PTL_PRIORITY_LIST, NULL, &handle));
    WELL(PtlPut(md, 0, 8, PTL_NO_ACK_REQ, self, portal, me.match_bits, 0, NULL, 0));
    int code;
    while ((code = PtlMEUnlink(handle)) == PTL_IN_USE) continue;
    WELL(code);
    IS(PTL_ARG_INVALID, PtlMEUnlink(handle));
  }
  return NULL;
}

RULE(B5_threads_append_and_unlink_at_once) {
  begin(ME_PHYSICAL);
  md = bind_memory(memory + 1, 8, PTL_MD_EVENT_SEND_DISABLE, PTL_CT_NONE);
  together(come_and_go);
  IS(0, status_of(PTL_SR_DROP_COUNT)); /* a put to oneself is over when its call returns */
  WELL(PtlPTFree(ni, portal));
}
