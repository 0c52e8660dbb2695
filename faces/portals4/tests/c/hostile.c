/* Bad input: handles that are none, guessed, freed, or of another kind, to every call; freeing what is in flight; strangers. */
#include "rules.h"

#define LONG (1 << 20)

static char buffer[64], more[64];
static ptl_handle_md_t good_md;
static ptl_handle_me_t good_me;
static ptl_handle_ct_t good_ct;

/* Every call that takes an interface, with something else in its place. */
static void refuse_as_interface(ptl_handle_any_t bad) {
  ptl_sr_value_t value;
  ptl_process_t process = self;
  ptl_size_t count;
  ptl_uid_t uid;
  ptl_pt_index_t index;
  ptl_handle_any_t out;
  ptl_md_t md = {buffer, 8, 0, PTL_EQ_NONE, PTL_CT_NONE};
  ptl_le_t le = {buffer, 8, PTL_CT_NONE, PTL_UID_ANY, PUT_GET};
  ptl_me_t me = entry(buffer, 8, PUT_GET);
  IS(PTL_ARG_INVALID, PtlNIFini(bad));
  IS(PTL_ARG_INVALID, PtlNIStatus(bad, PTL_SR_DROP_COUNT, &value));
  IS(PTL_ARG_INVALID, PtlSetMap(bad, 1, &process));
  IS(PTL_ARG_INVALID, PtlGetMap(bad, 1, &process, &count));
  IS(PTL_ARG_INVALID, PtlGetUid(bad, &uid));
  IS(PTL_ARG_INVALID, PtlGetId(bad, &process));
  IS(PTL_ARG_INVALID, PtlGetPhysId(bad, &process));
  IS(PTL_ARG_INVALID, PtlPTAlloc(bad, 0, PTL_EQ_NONE, PTL_PT_ANY, &index));
  IS(PTL_ARG_INVALID, PtlPTFree(bad, portal));
  IS(PTL_ARG_INVALID, PtlPTEnable(bad, portal));
  IS(PTL_ARG_INVALID, PtlPTDisable(bad, portal));
  IS(PTL_ARG_INVALID, PtlMDBind(bad, &md, &out));
  IS(PTL_ARG_INVALID, PtlLEAppend(bad, portal, &le, PTL_PRIORITY_LIST, NULL, &out));
  IS(PTL_ARG_INVALID, PtlMEAppend(bad, portal, &me, PTL_PRIORITY_LIST, NULL, &out));
  IS(PTL_ARG_INVALID, PtlLESearch(bad, portal, &le, PTL_SEARCH_ONLY, NULL));
  IS(PTL_ARG_INVALID, PtlMESearch(bad, portal, &me, PTL_SEARCH_ONLY, NULL));
  IS(PTL_ARG_INVALID, PtlTriggeredMEAppend(bad, portal, &me, PTL_PRIORITY_LIST, NULL, &out, good_ct, 1));
  IS(PTL_ARG_INVALID, PtlCTAlloc(bad, &out));
  IS(PTL_ARG_INVALID, PtlEQAlloc(bad, 8, &out));
  IS(PTL_ARG_INVALID, PtlStartBundle(bad));
  IS(PTL_ARG_INVALID, PtlEndBundle(bad));
}

/* Every call that takes a descriptor, each descriptor it takes. */
static void refuse_as_descriptor(ptl_handle_any_t bad) {
  IS(PTL_ARG_INVALID, PtlMDRelease(bad));
  IS(PTL_ARG_INVALID, PtlPut(bad, 0, 8, PTL_NO_ACK_REQ, self, portal, 0, 0, NULL, 0));
  IS(PTL_ARG_INVALID, PtlGet(bad, 0, 8, self, portal, 0, 0, NULL));
  IS(PTL_ARG_INVALID, PtlAtomic(bad, 0, 8, PTL_NO_ACK_REQ, self, portal, 0, 0, NULL, 0, PTL_SUM, PTL_INT64_T));
  IS(PTL_ARG_INVALID, PtlFetchAtomic(bad, 0, good_md, 0, 8, self, portal, 0, 0, NULL, 0, PTL_SUM, PTL_INT64_T));
  IS(PTL_ARG_INVALID, PtlFetchAtomic(good_md, 0, bad, 0, 8, self, portal, 0, 0, NULL, 0, PTL_SUM, PTL_INT64_T));
  IS(PTL_ARG_INVALID, PtlSwap(bad, 0, good_md, 0, 8, self, portal, 0, 0, NULL, 0, more, PTL_CSWAP, PTL_INT64_T));
  IS(PTL_ARG_INVALID, PtlSwap(good_md, 0, bad, 0, 8, self, portal, 0, 0, NULL, 0, more, PTL_CSWAP, PTL_INT64_T));
  IS(PTL_ARG_INVALID, PtlTriggeredPut(bad, 0, 8, PTL_NO_ACK_REQ, self, portal, 0, 0, NULL, 0, good_ct, 1));
  IS(PTL_ARG_INVALID, PtlTriggeredGet(bad, 0, 8, self, portal, 0, 0, NULL, good_ct, 1));
  IS(PTL_ARG_INVALID,
     PtlTriggeredAtomic(bad, 0, 8, PTL_NO_ACK_REQ, self, portal, 0, 0, NULL, 0, PTL_SUM, PTL_INT64_T, good_ct, 1));
  IS(PTL_ARG_INVALID,
     PtlTriggeredFetchAtomic(bad, 0, good_md, 0, 8, self, portal, 0, 0, NULL, 0, PTL_SUM, PTL_INT64_T, good_ct, 1));
  IS(PTL_ARG_INVALID,
     PtlTriggeredFetchAtomic(good_md, 0, bad, 0, 8, self, portal, 0, 0, NULL, 0, PTL_SUM, PTL_INT64_T, good_ct, 1));
  IS(PTL_ARG_INVALID,
     PtlTriggeredSwap(bad, 0, good_md, 0, 8, self, portal, 0, 0, NULL, 0, more, PTL_CSWAP, PTL_INT64_T, good_ct, 1));
  IS(PTL_ARG_INVALID,
     PtlTriggeredSwap(good_md, 0, bad, 0, 8, self, portal, 0, 0, NULL, 0, more, PTL_CSWAP, PTL_INT64_T, good_ct, 1));
}

/* Every call that takes a counter, each counter it takes. */
static void refuse_as_counter(ptl_handle_any_t bad) {
  ptl_ct_event_t event, one = {1, 0};
  ptl_size_t test = 0;
  unsigned which;
  ptl_handle_any_t out, both[2] = {good_ct, bad};
  ptl_size_t tests[2] = {1, 1};
  ptl_me_t me = entry(buffer, 8, PUT_GET);
  ptl_md_t md = {buffer, 8, 0, PTL_EQ_NONE, bad};
  IS(PTL_ARG_INVALID, PtlCTFree(bad));
  IS(PTL_ARG_INVALID, PtlCTCancelTriggered(bad));
  IS(PTL_ARG_INVALID, PtlCTGet(bad, &event));
  IS(PTL_ARG_INVALID, PtlCTWait(bad, 0, &event));
  IS(PTL_ARG_INVALID, PtlCTPoll(&bad, &test, 1, 0, &event, &which));
  IS(PTL_ARG_INVALID, PtlCTPoll(both, tests, 2, 0, &event, &which));
  IS(PTL_ARG_INVALID, PtlCTSet(bad, one));
  IS(PTL_ARG_INVALID, PtlCTInc(bad, one));
  IS(PTL_ARG_INVALID, PtlTriggeredCTInc(bad, one, good_ct, 1));
  IS(PTL_ARG_INVALID, PtlTriggeredCTInc(good_ct, one, bad, 1));
  IS(PTL_ARG_INVALID, PtlTriggeredCTSet(bad, one, good_ct, 1));
  IS(PTL_ARG_INVALID, PtlTriggeredCTSet(good_ct, one, bad, 1));
  IS(PTL_ARG_INVALID, PtlTriggeredPut(good_md, 0, 8, PTL_NO_ACK_REQ, self, portal, 0, 0, NULL, 0, bad, 1));
  IS(PTL_ARG_INVALID, PtlTriggeredGet(good_md, 0, 8, self, portal, 0, 0, NULL, bad, 1));
  IS(PTL_ARG_INVALID,
     PtlTriggeredAtomic(good_md, 0, 8, PTL_NO_ACK_REQ, self, portal, 0, 0, NULL, 0, PTL_SUM, PTL_INT64_T, bad, 1));
  IS(PTL_ARG_INVALID,
     PtlTriggeredFetchAtomic(good_md, 0, good_md, 0, 8, self, portal, 0, 0, NULL, 0, PTL_SUM, PTL_INT64_T, bad, 1));
  IS(PTL_ARG_INVALID,
     PtlTriggeredSwap(good_md, 0, good_md, 0, 8, self, portal, 0, 0, NULL, 0, more, PTL_CSWAP, PTL_INT64_T, bad, 1));
  IS(PTL_ARG_INVALID, PtlTriggeredMEAppend(ni, portal, &me, PTL_PRIORITY_LIST, NULL, &out, bad, 1));
  IS(PTL_ARG_INVALID, PtlTriggeredMEUnlink(good_me, bad, 1));
  if (bad == PTL_CT_NONE) return; /* there, none is none */
  IS(PTL_ARG_INVALID, PtlMDBind(ni, &md, &out));
  me.ct_handle = bad;
  me.options |= PTL_ME_EVENT_CT_COMM;
  IS(PTL_ARG_INVALID, PtlMEAppend(ni, portal, &me, PTL_PRIORITY_LIST, NULL, &out));
  IS(PTL_ARG_INVALID, PtlMESearch(ni, portal, &me, PTL_SEARCH_ONLY, NULL));
}

static void refuse_as_entry(ptl_handle_any_t bad) {
  IS(PTL_ARG_INVALID, PtlMEUnlink(bad));
  IS(PTL_ARG_INVALID, PtlLEUnlink(bad));
  IS(PTL_ARG_INVALID, PtlTriggeredMEUnlink(bad, good_ct, 1));
}

static void refuse_as_queue(ptl_handle_any_t bad) {
  ptl_event_t event;
  unsigned which;
  ptl_pt_index_t index;
  ptl_handle_any_t out, both[2] = {at_target, bad};
  ptl_md_t md = {buffer, 8, 0, bad, PTL_CT_NONE};
  IS(PTL_ARG_INVALID, PtlEQFree(bad));
  IS(PTL_ARG_INVALID, PtlEQGet(bad, &event));
  IS(PTL_ARG_INVALID, PtlEQWait(bad, &event));
  IS(PTL_ARG_INVALID, PtlEQPoll(&bad, 1, 0, &event, &which));
  IS(PTL_ARG_INVALID, PtlEQPoll(both, 2, 0, &event, &which));
  if (bad == PTL_EQ_NONE) return; /* there, none is none */
  IS(PTL_ARG_INVALID, PtlMDBind(ni, &md, &out));
  IS(PTL_ARG_INVALID, PtlPTAlloc(ni, 0, bad, PTL_PT_ANY, &index));
}

static void start_alone(void) {
  begin(ME_PHYSICAL);
  good_md = bind_memory(buffer, 64, 0, PTL_CT_NONE);
  good_ct = counter();
  ptl_me_t me = entry(more, 64, PUT_GET | PTL_ME_EVENT_LINK_DISABLE);
  good_me = append(&me, PTL_PRIORITY_LIST, NULL);
}

/* Nothing of that has done anything. */
static void nothing_happened(void) {
  ptl_ct_event_t event;
  WELL(PtlCTGet(good_ct, &event));
  CHECK(event.success == 0 && event.failure == 0);
  nothing(at_target);
  nothing(at_initiator);
  for (int i = 0; i < 64; i++) CHECK(buffer[i] == 0 && more[i] == 0);
}

RULE(A4_every_call_refuses_a_handle_that_is_none_or_of_another_kind) {
  start_alone();
  ptl_handle_any_t none[] = {0, 1, 0x7fffffff, PTL_INVALID_HANDLE, PTL_EQ_NONE, PTL_CT_NONE};
  for (int i = 0; i < 6; i++) {
    ptl_handle_ni_t of;
    IS(PTL_ARG_INVALID, PtlNIHandle(none[i], &of));
    refuse_as_interface(none[i]);
    refuse_as_descriptor(none[i]);
    refuse_as_counter(none[i]);
    refuse_as_entry(none[i]);
    refuse_as_queue(none[i]);
  }
  ptl_handle_any_t all[] = {ni, good_md, good_ct, good_me, at_target};
  for (int i = 0; i < 5; i++) {
    if (i != 0) refuse_as_interface(all[i]);
    if (i != 1) refuse_as_descriptor(all[i]);
    if (i != 2) refuse_as_counter(all[i]);
    if (i != 3) refuse_as_entry(all[i]);
    if (i != 4) refuse_as_queue(all[i]);
  }
  nothing_happened();
}

RULE(A4_every_call_refuses_a_handle_that_was_freed) {
  start_alone();
  for (int round = 0; round < 20; round++) { /* places are used again, and their handles are others */
    ptl_handle_md_t md = bind_memory(buffer, 64, 0, PTL_CT_NONE);
    ptl_handle_ct_t ct = counter();
    ptl_handle_eq_t eq;
    ptl_me_t me = entry(more, 64, PUT_GET | PTL_ME_EVENT_LINK_DISABLE);
    ptl_handle_me_t handle = append(&me, PTL_PRIORITY_LIST, NULL);
    WELL(PtlEQAlloc(ni, 8, &eq));
    WELL(PtlMDRelease(md));
    WELL(PtlCTFree(ct));
    WELL(PtlMEUnlink(handle));
    WELL(PtlEQFree(eq));
    refuse_as_descriptor(md);
    refuse_as_counter(ct);
    refuse_as_entry(handle);
    refuse_as_queue(eq);
  }
  ptl_handle_ni_t other;
  WELL(PtlNIInit(PTL_IFACE_DEFAULT, LE_PHYSICAL, PTL_PID_ANY, NULL, NULL, &other));
  WELL(PtlNIFini(other));
  refuse_as_interface(other);
  nothing_happened();
}

RULE(A4_guessed_handles_are_refused) {
  start_alone();
  uint32_t guess = 12345;
  for (int i = 0; i < 3000; i++) {
    guess = guess * 1664525u + 1013904223u;
    if (guess == ni || guess == good_md || guess == good_ct || guess == good_me) continue;
    if (guess == at_target || guess == at_initiator) continue;
    refuse_as_interface(guess);
    refuse_as_descriptor(guess);
    refuse_as_counter(guess);
    refuse_as_entry(guess);
    refuse_as_queue(guess);
  }
  nothing_happened();
}

/* A handle of the right kind, and of another interface. */
RULE(A4_things_of_another_interface_do_not_work_together) {
  ptl_handle_ni_t other;
  ptl_handle_ct_t ct;
  ptl_handle_md_t md;
  ptl_ct_event_t one = {1, 0};
  start_alone();
  WELL(PtlNIInit(PTL_IFACE_DEFAULT, ME_LOGICAL, PTL_PID_ANY, NULL, NULL, &other));
  WELL(PtlCTAlloc(other, &ct));
  ptl_md_t there = {buffer, 64, 0, PTL_EQ_NONE, PTL_CT_NONE};
  WELL(PtlMDBind(other, &there, &md));
  IS(PTL_ARG_INVALID, PtlTriggeredCTInc(ct, one, good_ct, 1));
  IS(PTL_ARG_INVALID, PtlTriggeredCTSet(good_ct, one, ct, 1));
  IS(PTL_ARG_INVALID, PtlTriggeredPut(good_md, 0, 8, PTL_NO_ACK_REQ, self, portal, 0, 0, NULL, 0, ct, 1));
  IS(PTL_ARG_INVALID, PtlTriggeredMEUnlink(good_me, ct, 1));
  IS(PTL_ARG_INVALID, PtlFetchAtomic(md, 0, good_md, 0, 8, self, portal, 0, 0, NULL, 0, PTL_SUM, PTL_INT64_T));
  IS(PTL_ARG_INVALID, PtlFetchAtomic(good_md, 0, md, 0, 8, self, portal, 0, 0, NULL, 0, PTL_SUM, PTL_INT64_T));
  nothing_happened();
}

/* What the forms that begin at once refuse, those that wait for a counter refuse when they are called. */
RULE(B8_triggered_movers_refuse_what_makes_no_sense) {
  start_alone();
  ptl_md_t bare = {buffer, 16, 0, PTL_EQ_NONE, PTL_CT_NONE};
  ptl_handle_md_t silent;
  WELL(PtlMDBind(ni, &bare, &silent));
#define LATER good_ct, 1
  IS(PTL_ARG_INVALID, PtlTriggeredPut(silent, 0, 8, PTL_ACK_REQ, self, portal, 0, 0, NULL, 0, LATER));
  IS(PTL_ARG_INVALID, PtlTriggeredPut(silent, 0, 8, PTL_CT_ACK_REQ, self, portal, 0, 0, NULL, 0, LATER));
  IS(PTL_ARG_INVALID, PtlTriggeredPut(silent, 0, 8, 4, self, portal, 0, 0, NULL, 0, LATER));
  IS(PTL_ARG_INVALID, PtlTriggeredPut(silent, 9, 8, PTL_NO_ACK_REQ, self, portal, 0, 0, NULL, 0, LATER));
  IS(PTL_ARG_INVALID, PtlTriggeredPut(silent, UINT64_MAX, 8, PTL_NO_ACK_REQ, self, portal, 0, 0, NULL, 0, LATER));
  IS(PTL_ARG_INVALID, PtlTriggeredGet(silent, 0, 17, self, portal, 0, 0, NULL, LATER));
  IS(PTL_ARG_INVALID, PtlTriggeredGet(silent, 8, UINT64_MAX, self, portal, 0, 0, NULL, LATER));
  IS(PTL_ARG_INVALID, PtlTriggeredAtomic(silent, 0, 8, PTL_NO_ACK_REQ, self, portal, 0, 0, NULL, 0, PTL_SWAP, PTL_INT64_T, LATER));
  IS(PTL_ARG_INVALID, PtlTriggeredAtomic(silent, 0, 8, 4, self, portal, 0, 0, NULL, 0, PTL_SUM, PTL_INT64_T, LATER));
  IS(PTL_ARG_INVALID, PtlTriggeredFetchAtomic(silent, 0, silent, 0, 17, self, portal, 0, 0, NULL, 0, PTL_SUM, PTL_INT64_T, LATER));
  IS(PTL_ARG_INVALID, PtlTriggeredSwap(silent, 0, silent, 0, 8, self, portal, 0, 0, NULL, 0, NULL, PTL_CSWAP, PTL_INT64_T, LATER));
  IS(PTL_ARG_INVALID, PtlTriggeredSwap(silent, 0, silent, 0, 16, self, portal, 0, 0, NULL, 0, more, PTL_MSWAP, PTL_INT64_T, LATER));
  ptl_ct_event_t both = {1, 1};
  IS(PTL_ARG_INVALID, PtlTriggeredCTInc(good_ct, both, LATER));
  ptl_me_t me = entry(buffer, 8, 0x80000);
  ptl_handle_me_t out;
  IS(PTL_ARG_INVALID, PtlTriggeredMEAppend(ni, portal, &me, PTL_PRIORITY_LIST, NULL, &out, LATER));
  me.options = PUT_GET;
  IS(PTL_ARG_INVALID, PtlTriggeredMEAppend(ni, portal, &me, 2, NULL, &out, LATER));
  IS(PTL_ARG_INVALID, PtlTriggeredMEAppend(ni, 9, &me, PTL_PRIORITY_LIST, NULL, &out, LATER));
  IS(PTL_ARG_INVALID, PtlTriggeredMEAppend(ni, portal, NULL, PTL_PRIORITY_LIST, NULL, &out, LATER));
  IS(PTL_ARG_INVALID, PtlTriggeredMEAppend(ni, portal, &me, PTL_PRIORITY_LIST, NULL, NULL, LATER));
  nothing_happened();
}

/* Vectors: more pieces than there may be, none where there should be some, lengths that add up to more than there is. */
RULE(B13_vectors_that_make_no_sense_are_refused) {
  begin(ME_PHYSICAL);
  ptl_iovec_t pieces[2] = {{buffer, 8}, {more, UINT64_MAX}};
  ptl_handle_any_t out;
  ptl_md_t md = {pieces, (ptl_size_t)limits.max_iovecs + 1, PTL_IOVEC, PTL_EQ_NONE, PTL_CT_NONE};
  IS(PTL_ARG_INVALID, PtlMDBind(ni, &md, &out));
  md.length = UINT64_MAX;
  IS(PTL_ARG_INVALID, PtlMDBind(ni, &md, &out));
  md.start = NULL;
  md.length = 2;
  IS(PTL_ARG_INVALID, PtlMDBind(ni, &md, &out));
  md.start = pieces;
  IS(PTL_ARG_INVALID, PtlMDBind(ni, &md, &out)); /* 8 and 2^64 - 1 bytes */
  ptl_me_t me = entry(pieces, 2, PUT_GET | PTL_IOVEC);
  IS(PTL_ARG_INVALID, PtlMEAppend(ni, portal, &me, PTL_PRIORITY_LIST, NULL, &out));
  me.start = NULL;
  IS(PTL_ARG_INVALID, PtlMEAppend(ni, portal, &me, PTL_PRIORITY_LIST, NULL, &out));
  me.length = (ptl_size_t)limits.max_iovecs + 1;
  me.start = pieces;
  IS(PTL_ARG_INVALID, PtlMEAppend(ni, portal, &me, PTL_PRIORITY_LIST, NULL, &out));
}

static char *from, *to;

static void start(void) {
  from = malloc(LONG);
  to = calloc(LONG, 1);
  CHECK(from && to);
  memset(from, 7, LONG);
  start_two(ME_PHYSICAL);
}

RULE(B5_descriptors_counters_and_queues_may_be_freed_while_they_are_in_use) {
  start();
  if (rank == 1) {
    ptl_me_t me = entry(to, LONG, PUT_GET);
    append(&me, PTL_PRIORITY_LIST, NULL);
    say('r');
    for (int i = 0; i < 20; i++) IS(LONG, next(at_target, PTL_EVENT_PUT).mlength);
    for (int i = 0; i < LONG; i++) CHECK(to[i] == 7);
  } else {
    hear('r');
    for (int i = 0; i < 20; i++) {
      ptl_handle_eq_t eq;
      ptl_handle_ct_t ct = counter();
      WELL(PtlEQAlloc(ni, 8, &eq));
      ptl_md_t md = {from, LONG, PTL_MD_EVENT_CT_SEND | PTL_MD_EVENT_CT_ACK, eq, ct};
      ptl_handle_md_t handle;
      WELL(PtlMDBind(ni, &md, &handle));
      WELL(PtlPut(handle, 0, LONG, PTL_ACK_REQ, peer, portal, 0, 0, NULL, 0));
      WELL(PtlMDRelease(handle));
      WELL(PtlCTFree(ct));
      WELL(PtlEQFree(eq));
    }
  }
  finish_two();
}

/* An entry that bytes are coming to is in use until they are there, and its memory is not touched once it is unlinked. */
RULE(B5_an_entry_is_not_taken_away_under_a_message) {
  start();
  if (rank == 1) {
    ptl_me_t me = entry(to, LONG, PUT_GET | PTL_ME_EVENT_LINK_DISABLE);
    ptl_handle_me_t handle = append(&me, PTL_PRIORITY_LIST, NULL);
    say('r');
    int unlinked;
    while ((unlinked = PtlMEUnlink(handle)) == PTL_IN_USE) continue;
    WELL(unlinked);
    char *copy = malloc(LONG);
    CHECK(copy);
    memcpy(copy, to, LONG);
    hear('e');
    IS(0, memcmp(copy, to, LONG));
  } else {
    hear('r');
    ptl_handle_md_t md = bind_memory(from, LONG, PTL_MD_EVENT_SEND_DISABLE, PTL_CT_NONE);
    for (int i = 0; i < 10; i++) WELL(PtlPut(md, 0, LONG, PTL_ACK_REQ, peer, portal, 0, 0, NULL, 0));
    for (int i = 0; i < 10; i++) {
      ptl_event_t event = next(at_initiator, PTL_EVENT_ACK);
      CHECK(event.ni_fail_type == PTL_NI_OK || event.ni_fail_type == PTL_NI_DROPPED);
    }
    say('e');
  }
  finish_two();
}

RULE(B5_an_interface_may_close_while_all_kinds_of_operations_are_under_way) {
  start();
  if (rank == 1) {
    ptl_me_t me = entry(to, LONG, PUT_GET);
    append(&me, PTL_PRIORITY_LIST, NULL);
    say('r');
    hear('c');
    WELL(PtlNIFini(ni));
  } else {
    hear('r');
    ptl_handle_md_t md = bind_memory(from, LONG, 0, PTL_CT_NONE);
    for (int i = 0; i < 10; i++) {
      WELL(PtlPut(md, 0, LONG, PTL_ACK_REQ, peer, portal, 0, 0, NULL, 0));
      WELL(PtlGet(md, 0, LONG, peer, portal, 0, 0, NULL));
      WELL(PtlAtomic(md, 0, 8, PTL_NO_ACK_REQ, peer, portal, 0, 0, NULL, 0, PTL_SUM, PTL_INT64_T));
    }
    say('c');
    WELL(PtlNIFini(ni));
    ptl_event_t event;
    IS(PTL_ARG_INVALID, PtlEQGet(at_initiator, &event));
  }
  finish_two();
}

/* An entry over all memory is for whom its owner has spoken to: a process that only found its number is refused. */
RULE(B13_an_entry_over_all_memory_is_not_for_strangers) {
  start();
  if (rank == 1) {
    ptl_me_t me = entry(NULL, PTL_SIZE_MAX, PUT_GET | PTL_ME_EVENT_LINK_DISABLE);
    append(&me, PTL_PRIORITY_LIST, NULL);
    void *where = more;
    tell(&where, sizeof(where));
    hear('1');
    IS(1, status_of(PTL_SR_PERMISSION_VIOLATIONS));
    for (int i = 0; i < 64; i++) CHECK(more[i] == 0);
    nothing(at_target);
    ptl_handle_md_t md = bind_memory(buffer, 8, 0, PTL_CT_NONE);
    WELL(PtlPut(md, 0, 8, PTL_ACK_REQ, peer, portal, 0, 0, (void *)0x55, 0));
    acknowledged(PTL_NI_DROPPED);
    say('2');
    IS(8, next(at_target, PTL_EVENT_PUT).mlength);
    IS(7, more[0]);
  } else {
    void *where;
    listen_to(&where, sizeof(where));
    ptl_handle_md_t md = bind_memory(from, 8, 0, PTL_CT_NONE);
    WELL(PtlPut(md, 0, 8, PTL_ACK_REQ, peer, portal, 0, (ptl_size_t)(uintptr_t)where, (void *)0x55, 0));
    acknowledged(PTL_NI_PERM_VIOLATION);
    say('1');
    hear('2');
    WELL(PtlPut(md, 0, 8, PTL_ACK_REQ, peer, portal, 0, (ptl_size_t)(uintptr_t)where, (void *)0x55, 0));
    acknowledged(PTL_NI_OK);
  }
  finish_two();
}
