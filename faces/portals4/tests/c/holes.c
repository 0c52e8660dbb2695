/* B.13 again: descriptors and entries over the whole address space, and memory that is not there. To oneself and between two processes. */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "rules.h"

#define PAGE 4096
#define LONG (1 << 20)

static char *hole, *sealed, *torn;
static char from[LONG], to[LONG];

static ptl_size_t at(const void *place) { return (ptl_size_t)(uintptr_t)place; }

/* A page that nobody may touch, one that may only be read, and much memory of which the last page is gone. */
static void make_pages(void) {
  hole = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  sealed = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  torn = mmap(NULL, LONG, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(hole != MAP_FAILED && sealed != MAP_FAILED && torn != MAP_FAILED);
  memset(sealed, 5, PAGE);
  memset(torn, 6, LONG);
  CHECK(mprotect(sealed, PAGE, PROT_READ) == 0 && munmap(torn + LONG - PAGE, PAGE) == 0);
}

static void put_from(ptl_handle_md_t md, const void *place, ptl_size_t length, ptl_process_t target, ptl_size_t offset) {
  WELL(PtlPut(md, at(place), length, PTL_ACK_REQ, target, portal, 0, offset, (void *)0x55, 0));
}

static void get_to(ptl_handle_md_t md, void *place, ptl_size_t length, ptl_process_t target, ptl_size_t offset) {
  WELL(PtlGet(md, at(place), length, target, portal, 0, offset, (void *)0x55));
}

static void replied(ptl_ni_fail_t fail_type) { IS(fail_type, next(at_initiator, PTL_EVENT_REPLY).ni_fail_type); }

/* SEND and ACK of an operation whose own memory is not there. */
static void not_sent(void) {
  IS(PTL_NI_SEGV, next(at_initiator, PTL_EVENT_SEND).ni_fail_type);
  IS(PTL_NI_SEGV, next(at_initiator, PTL_EVENT_ACK).ni_fail_type);
}

RULE(B13_a_descriptor_over_all_memory_tells_what_is_not_there) {
  begin(ME_PHYSICAL);
  make_pages();
  ptl_me_t me = entry(to, LONG, PUT_GET | PTL_ME_EVENT_COMM_DISABLE);
  append(&me, PTL_PRIORITY_LIST, NULL);
  ptl_handle_ct_t ct = counter();
  ptl_handle_md_t md = bind_memory(NULL, PTL_SIZE_MAX, PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_REPLY, ct);
  static const ptl_size_t lengths[3] = {1, 2000, LONG};
  for (int i = 0; i < 3; i++) {
    put_from(md, hole, lengths[i], self, 0);
    not_sent();
    put_from(md, NULL, lengths[i], self, 0);
    not_sent();
    get_to(md, sealed, lengths[i], self, 0);
    replied(PTL_NI_SEGV);
  }
  put_from(md, torn, LONG, self, 0);
  not_sent();
  ptl_ct_event_t count;
  WELL(PtlCTGet(ct, &count));
  CHECK(count.success == 0 && count.failure == 10); /* none of them left: nothing was moved */
  for (int i = 0; i < LONG; i++) CHECK(to[i] == 0);
  put_from(md, sealed, 8, self, 0);
  acknowledged(PTL_NI_OK);
  put_from(md, hole, 0, self, 0); /* no bytes are nowhere */
  acknowledged(PTL_NI_OK);
  put_from(md, torn, LONG - PAGE, self, 0);
  acknowledged(PTL_NI_OK);
  CHECK(to[0] == 6 && to[LONG - PAGE - 1] == 6 && to[LONG - PAGE] == 0);
}

RULE(B13_what_a_trigger_begins_is_asked_for_when_it_fires) {
  begin(ME_PHYSICAL);
  make_pages();
  ptl_me_t me = entry(to, 64, PUT_GET);
  append(&me, PTL_PRIORITY_LIST, NULL);
  ptl_handle_md_t md = bind_memory(NULL, PTL_SIZE_MAX, 0, PTL_CT_NONE);
  ptl_ct_event_t one = {1, 0};
  ptl_handle_ct_t ct = counter();
  for (ptl_size_t threshold = 1; threshold <= 2; threshold++)
    WELL(PtlTriggeredPut(md, at(hole), 8, PTL_ACK_REQ, self, portal, 0, 0, (void *)0x55, 0, ct, threshold));
  WELL(PtlCTInc(ct, one));
  not_sent();
  CHECK(mprotect(hole, PAGE, PROT_READ) == 0);
  WELL(PtlCTInc(ct, one));
  acknowledged(PTL_NI_OK);
}

RULE(B13_volatile_memory_that_is_not_there_is_told_too) {
  begin(ME_PHYSICAL);
  make_pages();
  ptl_me_t me = entry(to, 64, PUT_GET);
  append(&me, PTL_PRIORITY_LIST, NULL);
  ptl_handle_md_t md = bind_memory(NULL, PTL_SIZE_MAX, PTL_MD_VOLATILE, PTL_CT_NONE);
  put_from(md, hole, 8, self, 0);
  not_sent();
  put_from(md, sealed, 8, self, 0);
  memset(from, 1, 8);
  acknowledged(PTL_NI_OK);
  IS(5, to[0]);
}

RULE(B13_atomic_operations_on_what_is_not_there_are_told) {
  begin(ME_PHYSICAL);
  make_pages();
  ptl_me_t me = entry(NULL, PTL_SIZE_MAX, PUT_GET | PTL_ME_EVENT_COMM_DISABLE);
  append(&me, PTL_PRIORITY_LIST, NULL);
  ptl_handle_md_t md = bind_memory(from, 64, 0, PTL_CT_NONE), back = bind_memory(from + 64, 64, 0, PTL_CT_NONE);
  ptl_handle_md_t all = bind_memory(NULL, PTL_SIZE_MAX, 0, PTL_CT_NONE);
  int64_t operand = 0;
  char *const bad[2] = {hole, sealed}; /* what may only be read cannot be computed with in its place */
  for (int i = 0; i < 2; i++) {
    ptl_size_t there = at(bad[i]);
    WELL(PtlAtomic(md, 0, 8, PTL_ACK_REQ, self, portal, 0, there, (void *)0x55, 0, PTL_SUM, PTL_INT64_T));
    acknowledged(PTL_NI_SEGV);
    WELL(PtlFetchAtomic(back, 0, md, 0, 8, self, portal, 0, there, NULL, 0, PTL_SUM, PTL_INT64_T));
    IS(PTL_NI_OK, next(at_initiator, PTL_EVENT_SEND).ni_fail_type);
    replied(PTL_NI_SEGV);
    WELL(PtlSwap(back, 0, md, 0, 8, self, portal, 0, there, NULL, 0, &operand, PTL_CSWAP, PTL_INT64_T));
    IS(PTL_NI_OK, next(at_initiator, PTL_EVENT_SEND).ni_fail_type);
    replied(PTL_NI_SEGV);
  }
  WELL(PtlFetchAtomic(all, at(hole), md, 0, 8, self, portal, 0, at(to), NULL, 0, PTL_SUM, PTL_INT64_T));
  IS(PTL_NI_SEGV, next(at_initiator, PTL_EVENT_SEND).ni_fail_type);
  replied(PTL_NI_SEGV);
  WELL(PtlAtomic(md, 0, 8, PTL_ACK_REQ, self, portal, 0, at(to), (void *)0x55, 0, PTL_SUM, PTL_INT64_T));
  acknowledged(PTL_NI_OK);
}

RULE(B13_a_list_entry_may_be_all_memory_too) {
  begin(LE_PHYSICAL);
  make_pages();
  append_le(NULL, PTL_SIZE_MAX, PUT_GET | PTL_LE_EVENT_COMM_DISABLE, PTL_PRIORITY_LIST, NULL);
  ptl_handle_md_t md = bind_memory(from, LONG, 0, PTL_CT_NONE);
  from[0] = 9;
  WELL(PtlPut(md, 0, 8, PTL_ACK_REQ, self, portal, 0, at(to + 5), (void *)0x55, 0));
  acknowledged(PTL_NI_OK);
  IS(9, to[5]);
  WELL(PtlPut(md, 0, 8, PTL_ACK_REQ, self, portal, 0, at(hole), (void *)0x55, 0));
  acknowledged(PTL_NI_SEGV);
}

/* Each has an entry over all memory, for which the other was named by a map: it is no stranger. */
static void start_open(void) {
  make_pages();
  start_two(ME_LOGICAL);
  ptl_me_t me = entry(NULL, PTL_SIZE_MAX, PUT_GET | PTL_ME_EVENT_COMM_DISABLE);
  append(&me, PTL_PRIORITY_LIST, NULL);
  meet();
}

/* Both have the same addresses: one is the other's child. Both speak at once; each goes on behind what the other could not have. */
RULE(B13_holes_of_the_other_process_are_told_and_both_live_on) {
  start_open();
  ptl_handle_md_t md = bind_memory(NULL, PTL_SIZE_MAX, 0, PTL_CT_NONE);
  static const ptl_size_t lengths[4] = {8, 900, PAGE, LONG};
  memset(from, 1 + rank, LONG);
  meet();
  for (int i = 0; i < 4; i++) {
    put_from(md, from, lengths[i], peer, at(hole));
    acknowledged(PTL_NI_SEGV);
    put_from(md, from, lengths[i], peer, at(sealed));
    acknowledged(PTL_NI_SEGV);
    get_to(md, to, lengths[i], peer, at(hole));
    replied(PTL_NI_SEGV);
    put_from(md, from, lengths[i], peer, at(torn + LONG - PAGE - 4));
    acknowledged(PTL_NI_SEGV);
    put_from(md, hole, lengths[i], peer, at(to));
    not_sent();
    get_to(md, to, lengths[i], peer, at(from));
    replied(PTL_NI_OK);
    CHECK(to[0] == 2 - rank && to[lengths[i] - 1] == 2 - rank);
  }
  get_to(md, to, PAGE, peer, at(sealed));
  replied(PTL_NI_OK);
  CHECK(to[0] == 5 && to[PAGE - 1] == 5 && sealed[0] == 5);
  finish_two();
}
