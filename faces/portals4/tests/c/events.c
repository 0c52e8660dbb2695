/* B.7 to B.9: events, counters, triggered operations, flow control. To oneself. */
#include "rules.h"

static char from[4096], to[4096];
static int64_t words[4];

static ptl_handle_me_t sink(unsigned options, ptl_handle_ct_t ct) {
  ptl_me_t me = entry(to, sizeof(to), PUT_GET | options);
  me.ct_handle = ct;
  return append(&me, PTL_PRIORITY_LIST, NULL);
}

static int is(ptl_handle_ct_t ct, ptl_size_t success, ptl_size_t failure) {
  ptl_ct_event_t count;
  WELL(PtlCTGet(ct, &count));
  return count.success == success && count.failure == failure;
}

RULE(B7_a_put_without_acknowledgement_is_sent_and_no_more) {
  begin(ME_PHYSICAL);
  sink(0, PTL_CT_NONE);
  ptl_handle_md_t md = bind_memory(from, 8, 0, PTL_CT_NONE);
  put(md, 8, PTL_NO_ACK_REQ, 0, 0);
  next(at_initiator, PTL_EVENT_SEND);
  next(at_target, PTL_EVENT_PUT);
  nothing(at_initiator);
}

RULE(B7_events_of_a_descriptor_may_be_disabled_failures_are_told) {
  begin(ME_PHYSICAL);
  ptl_handle_me_t me = sink(0, PTL_CT_NONE);
  ptl_handle_md_t unsent = bind_memory(from, 8, PTL_MD_EVENT_SEND_DISABLE, PTL_CT_NONE);
  ptl_handle_md_t modest = bind_memory(from, 8, PTL_MD_EVENT_SUCCESS_DISABLE, PTL_CT_NONE);
  put(unsent, 8, PTL_ACK_REQ, 0, 0);
  IS(PTL_NI_OK, next(at_initiator, PTL_EVENT_ACK).ni_fail_type);
  put(modest, 8, PTL_ACK_REQ, 0, 0);
  next(at_target, PTL_EVENT_PUT);
  next(at_target, PTL_EVENT_PUT);
  WELL(PtlMEUnlink(me));
  put(modest, 8, PTL_ACK_REQ, 0, 0);
  IS(PTL_NI_DROPPED, next(at_initiator, PTL_EVENT_ACK).ni_fail_type);
  nothing(at_initiator);
}

RULE(B7_get_atomic_fetch_and_swap_are_told_as_such) {
  int64_t operand = 0;
  begin(ME_PHYSICAL);
  sink(0, PTL_CT_NONE);
  ptl_handle_md_t md = bind_memory(words, 16, 0, PTL_CT_NONE), back = bind_memory(words + 2, 16, 0, PTL_CT_NONE);
  WELL(PtlGet(md, 0, 8, self, portal, 0, 0, (void *)1));
  ptl_event_t event = next(at_initiator, PTL_EVENT_REPLY);
  CHECK(event.user_ptr == (void *)1 && event.mlength == 8);
  IS(0, next(at_target, PTL_EVENT_GET).hdr_data);
  WELL(PtlAtomic(md, 0, 8, PTL_ACK_REQ, self, portal, 0, 0, (void *)0x55, 7, PTL_SUM, PTL_INT64_T));
  acknowledged(PTL_NI_OK);
  event = next(at_target, PTL_EVENT_ATOMIC);
  CHECK(event.atomic_operation == PTL_SUM && event.atomic_type == PTL_INT64_T && event.hdr_data == 7);
  WELL(PtlFetchAtomic(back, 0, md, 0, 8, self, portal, 0, 0, (void *)3, 0, PTL_MAX, PTL_INT64_T));
  next(at_initiator, PTL_EVENT_SEND);
  CHECK(next(at_initiator, PTL_EVENT_REPLY).user_ptr == (void *)3);
  IS(PTL_MAX, next(at_target, PTL_EVENT_FETCH_ATOMIC).atomic_operation);
  WELL(PtlSwap(back, 0, md, 0, 8, self, portal, 0, 0, (void *)4, 0, &operand, PTL_CSWAP, PTL_INT64_T));
  next(at_initiator, PTL_EVENT_SEND);
  next(at_initiator, PTL_EVENT_REPLY);
  IS(PTL_CSWAP, next(at_target, PTL_EVENT_FETCH_ATOMIC).atomic_operation);
}

RULE(B7_what_fetches_tells_each_descriptors_own_queue) {
  ptl_handle_eq_t own;
  int64_t operand = 0;
  begin(ME_PHYSICAL);
  sink(PTL_ME_EVENT_COMM_DISABLE, PTL_CT_NONE);
  WELL(PtlEQAlloc(ni, 8, &own));
  ptl_handle_md_t md = bind_memory(words, 8, 0, PTL_CT_NONE), back;
  ptl_md_t description = {words + 1, 8, 0, own, PTL_CT_NONE};
  WELL(PtlMDBind(ni, &description, &back));
  WELL(PtlFetchAtomic(back, 0, md, 0, 8, self, portal, 0, 0, (void *)3, 0, PTL_SUM, PTL_INT64_T));
  CHECK(next(at_initiator, PTL_EVENT_SEND).user_ptr == (void *)3 && next(own, PTL_EVENT_REPLY).user_ptr == (void *)3);
  WELL(PtlSwap(back, 0, md, 0, 8, self, portal, 0, 0, (void *)4, 0, &operand, PTL_CSWAP, PTL_INT64_T));
  CHECK(next(at_initiator, PTL_EVENT_SEND).user_ptr == (void *)4 && next(own, PTL_EVENT_REPLY).user_ptr == (void *)4);
  nothing(at_initiator);
  nothing(own);
}

RULE(B7_a_full_queue_loses_the_oldest_and_says_so_once) {
  ptl_event_t event;
  ptl_handle_eq_t small;
  begin(ME_PHYSICAL);
  WELL(PtlEQAlloc(ni, 4, &small));
  sink(PTL_ME_EVENT_COMM_DISABLE, PTL_CT_NONE);
  ptl_handle_ct_t ct = counter();
  ptl_md_t description = {from, 8, PTL_MD_EVENT_CT_ACK, small, ct};
  ptl_handle_md_t md;
  WELL(PtlMDBind(ni, &description, &md));
  for (int i = 0; i < 20; i++) WELL(PtlPut(md, 0, 8, PTL_ACK_REQ, self, portal, 0, 0, (void *)(uintptr_t)i, 0));
  reached(ct, 20);
  IS(PTL_EQ_DROPPED, PtlEQGet(small, &event));
  int count = 1;
  uintptr_t last = (uintptr_t)event.user_ptr;
  for (int code; (code = PtlEQGet(small, &event)) != PTL_EQ_EMPTY; count++) {
    IS(PTL_OK, code);
    last = (uintptr_t)event.user_ptr;
  }
  CHECK(count >= 4 && count < 20);
  IS(19, last);
}

RULE(B7_a_queue_may_be_freed_before_what_names_it) {
  begin(ME_PHYSICAL);
  sink(0, PTL_CT_NONE);
  ptl_handle_ct_t ct = counter();
  ptl_handle_md_t md = bind_memory(from, 8, PTL_MD_EVENT_CT_ACK, ct);
  WELL(PtlEQFree(at_target));
  WELL(PtlEQFree(at_initiator));
  put(md, 8, PTL_OC_ACK_REQ, 0, 0);
  reached(ct, 1);
  WELL(PtlMDRelease(md));
  WELL(PtlNIFini(ni)); /* with objects left */
  PtlFini();
}

RULE(B8_descriptors_count_what_they_are_asked_to) {
  begin(ME_PHYSICAL);
  ptl_handle_me_t me = sink(0, PTL_CT_NONE);
  ptl_handle_ct_t sent = counter(), acked = counter(), replied = counter(), bytes = counter();
  ptl_handle_md_t md = bind_memory(from, 64, PTL_MD_EVENT_CT_SEND, sent);
  put(md, 8, PTL_ACK_REQ, 0, 0);
  acknowledged(PTL_NI_OK);
  CHECK(is(sent, 1, 0));
  md = bind_memory(from, 64, PTL_MD_EVENT_CT_ACK, acked);
  put(md, 8, PTL_ACK_REQ, 0, 0);
  put(md, 8, PTL_CT_ACK_REQ, 0, 0);
  put(md, 8, PTL_OC_ACK_REQ, 0, 0);
  reached(acked, 3);
  md = bind_memory(from, 64, PTL_MD_EVENT_CT_REPLY, replied);
  WELL(PtlGet(md, 0, 8, self, portal, 0, 0, NULL));
  reached(replied, 1);
  md = bind_memory(from, 64, PTL_MD_EVENT_CT_SEND | PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_BYTES, bytes);
  put(md, 60, PTL_CT_ACK_REQ, 0, sizeof(to) - 20); /* 60 are sent, 20 land */
  IS(80, reached(bytes, 80).success);
  WELL(PtlMEUnlink(me));
  md = bind_memory(from, 64, PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_BYTES, acked);
  put(md, 60, PTL_CT_ACK_REQ, 0, 0);
  IS(1, reached(acked, 100).failure); /* a failure is one, never bytes */
}

RULE(B8_that_it_is_over_is_a_success_and_one_whatever_became_of_it) {
  begin(ME_PHYSICAL);
  ptl_handle_ct_t over = counter(), uncounted = counter();
  ptl_handle_md_t md = bind_memory(from, 64, PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_BYTES, over);
  put(md, 60, PTL_OC_ACK_REQ, 0, 0); /* nobody takes it */
  CHECK(reached(over, 1).success == 1 && is(over, 1, 0));
  md = bind_memory(from, 64, 0, uncounted); /* counts nothing where it was not asked to */
  sink(0, PTL_CT_NONE);
  put(md, 8, PTL_CT_ACK_REQ, 0, 0);
  put(md, 8, PTL_OC_ACK_REQ, 0, 0);
  put(md, 8, PTL_ACK_REQ, 0, 0);
  for (int i = 0; i < 3; i++) next(at_initiator, PTL_EVENT_SEND); /* of the four */
  next(at_initiator, PTL_EVENT_SEND);
  IS(PTL_NI_OK, next(at_initiator, PTL_EVENT_ACK).ni_fail_type);
  nothing(at_initiator);
  CHECK(is(uncounted, 0, 0));
}

RULE(B8_a_counter_may_be_freed_before_what_names_it) {
  begin(ME_PHYSICAL);
  ptl_handle_ct_t ct = counter(), other = counter();
  ptl_handle_md_t md = bind_memory(from, 8, PTL_MD_EVENT_CT_SEND | PTL_MD_EVENT_CT_ACK, ct);
  ptl_handle_me_t me = sink(PTL_ME_EVENT_CT_COMM, ct);
  WELL(PtlCTFree(ct));
  ptl_handle_ct_t reused = counter(); /* in the same place, and not meant */
  put(md, 8, PTL_ACK_REQ, 0, 0);
  acknowledged(PTL_NI_OK);
  next(at_target, PTL_EVENT_PUT);
  CHECK(is(reused, 0, 0) && is(other, 0, 0));
  WELL(PtlMEUnlink(me));
  WELL(PtlMDRelease(md));
}

RULE(B8_entries_count_what_they_are_asked_to) {
  begin(ME_PHYSICAL);
  ptl_handle_ct_t operations = counter(), bytes = counter();
  ptl_handle_md_t md = bind_memory(from, 64, 0, PTL_CT_NONE);
  ptl_handle_me_t me = sink(PTL_ME_EVENT_CT_COMM | PTL_ME_EVENT_COMM_DISABLE, operations);
  put(md, 60, PTL_ACK_REQ, 0, 0);
  acknowledged(PTL_NI_OK);
  reached(operations, 1);
  WELL(PtlMEUnlink(me));
  sink(PTL_ME_EVENT_CT_COMM | PTL_ME_EVENT_CT_BYTES | PTL_ME_EVENT_COMM_DISABLE, bytes);
  put(md, 60, PTL_ACK_REQ, 0, sizeof(to) - 20);
  acknowledged(PTL_NI_OK);
  reached(bytes, 20);
  CHECK(is(operations, 1, 0) && is(bytes, 20, 0));
  nothing(at_target);
}

RULE(B8_waiting_ends_with_enough_or_with_a_failure) {
  ptl_ct_event_t event, one_failure = {0, 1}, three = {3, 0};
  ptl_size_t tests[2] = {9, 3};
  unsigned which = 7;
  begin(ME_PHYSICAL);
  ptl_handle_ct_t cts[2] = {counter(), counter()};
  IS(PTL_CT_NONE_REACHED, PtlCTPoll(cts, tests, 2, 0, &event, &which));
  IS(PTL_CT_NONE_REACHED, PtlCTPoll(cts, tests, 2, 20, &event, &which));
  WELL(PtlCTInc(cts[1], three));
  WELL(PtlCTPoll(cts, tests, 2, PTL_TIME_FOREVER, &event, &which));
  CHECK(which == 1 && event.success == 3);
  WELL(PtlCTWait(cts[1], 2, &event));
  WELL(PtlCTInc(cts[0], one_failure));
  WELL(PtlCTWait(cts[0], 1000, &event));
  CHECK(event.success == 0 && event.failure == 1);
}

RULE(B8_triggers_fire_in_the_order_of_thresholds_and_of_issue) {
  ptl_ct_event_t one = {1, 0};
  begin(ME_PHYSICAL);
  sink(0, PTL_CT_NONE);
  ptl_handle_ct_t ct = counter();
  ptl_handle_md_t md = bind_memory(from, 8, PTL_MD_EVENT_SEND_DISABLE, PTL_CT_NONE);
  static const ptl_size_t thresholds[4] = {3, 1, 2, 1};
  static const uintptr_t order[4] = {1, 3, 2, 0};
  for (uintptr_t i = 0; i < 4; i++)
    WELL(PtlTriggeredPut(md, 0, 8, PTL_NO_ACK_REQ, self, portal, 0, 0, NULL, i, ct, thresholds[i]));
  nothing(at_target);
  for (int i = 0; i < 3; i++) WELL(PtlCTInc(ct, one));
  for (int i = 0; i < 4; i++) IS(order[i], next(at_target, PTL_EVENT_PUT).hdr_data);
  WELL(PtlTriggeredPut(md, 0, 8, PTL_NO_ACK_REQ, self, portal, 0, 0, NULL, 9, ct, 2)); /* reached already: at once */
  IS(9, next(at_target, PTL_EVENT_PUT).hdr_data);
}

RULE(B8_a_failure_counts_for_a_trigger_too) {
  ptl_ct_event_t failed = {0, 1};
  begin(ME_PHYSICAL);
  ptl_handle_ct_t ct = counter(), other = counter();
  ptl_ct_event_t seven = {7, 0};
  WELL(PtlTriggeredCTInc(other, seven, ct, 1));
  WELL(PtlCTInc(ct, failed));
  CHECK(is(other, 7, 0));
}

RULE(B8_a_chain_of_counters_needs_no_stack) {
  ptl_ct_event_t one = {1, 0}, set = {5, 0};
  begin(ME_PHYSICAL);
  ptl_handle_ct_t ct = counter(), other = counter();
  for (ptl_size_t i = 1; i <= 1000; i++) WELL(PtlTriggeredCTInc(ct, one, ct, i)); /* on itself */
  WELL(PtlTriggeredCTSet(other, set, ct, 1001));
  WELL(PtlCTInc(ct, one));
  CHECK(is(ct, 1001, 0) && is(other, 5, 0));
}

RULE(B8_all_movers_are_triggered) {
  ptl_ct_event_t one = {1, 0};
  int64_t operand = 0;
  begin(ME_PHYSICAL);
  sink(PTL_ME_EVENT_COMM_DISABLE, PTL_CT_NONE);
  ptl_handle_ct_t ct = counter(), done = counter();
  words[0] = 5;
  ptl_handle_md_t md = bind_memory(words, 8, PTL_MD_EVENT_SEND_DISABLE, PTL_CT_NONE);
  ptl_handle_md_t back = bind_memory(words + 1, 8, PTL_MD_EVENT_CT_REPLY, done);
  WELL(PtlTriggeredAtomic(md, 0, 8, PTL_NO_ACK_REQ, self, portal, 0, 0, NULL, 0, PTL_SUM, PTL_INT64_T, ct, 1));
  WELL(PtlTriggeredFetchAtomic(back, 0, md, 0, 8, self, portal, 0, 0, NULL, 0, PTL_SUM, PTL_INT64_T, ct, 2));
  WELL(PtlTriggeredGet(back, 0, 8, self, portal, 0, 0, NULL, ct, 3));
  operand = 10;
  WELL(PtlTriggeredSwap(back, 0, md, 0, 8, self, portal, 0, 0, NULL, 0, &operand, PTL_CSWAP, PTL_INT64_T, ct, 4));
  operand = 99; /* read with the call */
  static const int64_t fetched[5] = {0, 0, 5, 10, 10};
  for (int i = 1; i <= 4; i++) {
    WELL(PtlCTInc(ct, one));
    if (i > 1) {
      reached(done, (ptl_size_t)i - 1);
      IS(fetched[i], words[1]);
    }
  }
  IS(5, *(int64_t *)to);
}

RULE(B8_the_buffer_counts_when_the_trigger_fires) {
  ptl_ct_event_t one = {1, 0};
  begin(ME_PHYSICAL);
  sink(0, PTL_CT_NONE);
  ptl_handle_ct_t ct = counter();
  ptl_handle_md_t md = bind_memory(from, 8, PTL_MD_EVENT_SEND_DISABLE, PTL_CT_NONE);
  from[0] = 1;
  WELL(PtlTriggeredPut(md, 0, 8, PTL_NO_ACK_REQ, self, portal, 0, 0, NULL, 0, ct, 1));
  from[0] = 2;
  WELL(PtlCTInc(ct, one));
  next(at_target, PTL_EVENT_PUT);
  IS(2, to[0]);
}

RULE(B8_cancelled_and_freed_triggers_do_not_fire) {
  ptl_ct_event_t one = {1, 0};
  begin(ME_PHYSICAL);
  sink(0, PTL_CT_NONE);
  ptl_handle_ct_t ct = counter(), other = counter();
  ptl_handle_md_t md = bind_memory(from, 8, 0, PTL_CT_NONE);
  WELL(PtlTriggeredPut(md, 0, 8, PTL_NO_ACK_REQ, self, portal, 0, 0, NULL, 0, ct, 1));
  WELL(PtlTriggeredCTInc(other, one, ct, 1));
  WELL(PtlCTCancelTriggered(ct));
  WELL(PtlCTInc(ct, one));
  CHECK(is(other, 0, 0));
  WELL(PtlTriggeredCTInc(other, one, ct, 5));
  WELL(PtlCTFree(ct));
  CHECK(is(other, 0, 0));
  nothing(at_initiator);
  IS(PTL_ARG_INVALID, PtlTriggeredCTInc(other, one, ct, 1));
  IS(PTL_ARG_INVALID, PtlTriggeredPut(md, 0, 8, PTL_NO_ACK_REQ, self, portal, 0, 0, NULL, 0, ct, 1));
}

RULE(B8_match_entries_are_appended_and_unlinked_by_triggers) {
  ptl_ct_event_t one = {1, 0};
  ptl_handle_me_t handle;
  begin(ME_PHYSICAL);
  ptl_handle_ct_t ct = counter();
  ptl_handle_md_t md = bind_memory(from, 8, 0, PTL_CT_NONE);
  ptl_me_t me = entry(to, 64, PTL_ME_OP_PUT);
  WELL(PtlTriggeredMEAppend(ni, portal, &me, PTL_PRIORITY_LIST, (void *)3, &handle, ct, 1));
  put(md, 8, PTL_ACK_REQ, 0, 0);
  acknowledged(PTL_NI_DROPPED);
  WELL(PtlCTInc(ct, one));
  IS(3, (uintptr_t)next(at_target, PTL_EVENT_LINK).user_ptr);
  put(md, 8, PTL_ACK_REQ, 0, 0);
  acknowledged(PTL_NI_OK);
  next(at_target, PTL_EVENT_PUT);
  WELL(PtlTriggeredMEUnlink(handle, ct, 2));
  WELL(PtlCTInc(ct, one));
  put(md, 8, PTL_ACK_REQ, 0, 0);
  acknowledged(PTL_NI_DROPPED);
}

RULE(B9_without_a_match_flow_control_disables_once_and_nothing_slips_in) {
  begin_with(ME_PHYSICAL, PTL_PT_FLOWCTRL);
  ptl_handle_md_t md = bind_memory(from, 8, 0, PTL_CT_NONE);
  put(md, 8, PTL_ACK_REQ, 0, 0);
  acknowledged(PTL_NI_PT_DISABLED);
  ptl_event_t event = next(at_target, PTL_EVENT_PT_DISABLED);
  CHECK(event.ni_fail_type == PTL_NI_PT_DISABLED && event.pt_index == portal);
  sink(0, PTL_CT_NONE);
  put(md, 8, PTL_ACK_REQ, 0, 0);
  acknowledged(PTL_NI_PT_DISABLED);
  nothing(at_target);
  WELL(PtlPTEnable(ni, portal));
  put(md, 8, PTL_ACK_REQ, 0, 0);
  acknowledged(PTL_NI_OK);
  next(at_target, PTL_EVENT_PUT);
}

RULE(B9_without_a_header_left_flow_control_disables) {
  ptl_ni_limits_t wish;
  open_interface(ME_PHYSICAL, NULL);
  wish = limits;
  WELL(PtlNIFini(ni));
  wish.max_unexpected_headers = 1;
  WELL(PtlNIInit(PTL_IFACE_DEFAULT, ME_PHYSICAL, PTL_PID_ANY, &wish, &limits, &ni));
  IS(1, limits.max_unexpected_headers);
  WELL(PtlGetId(ni, &self));
  WELL(PtlEQAlloc(ni, 64, &at_target));
  WELL(PtlEQAlloc(ni, 64, &at_initiator));
  WELL(PtlPTAlloc(ni, PTL_PT_FLOWCTRL, at_target, PTL_PT_ANY, &portal));
  ptl_me_t me = entry(to, sizeof(to), PTL_ME_OP_PUT);
  append(&me, PTL_OVERFLOW_LIST, NULL);
  ptl_handle_md_t md = bind_memory(from, 8, 0, PTL_CT_NONE);
  put(md, 8, PTL_ACK_REQ, 0, 0);
  acknowledged(PTL_NI_OK);
  next(at_target, PTL_EVENT_PUT);
  put(md, 8, PTL_ACK_REQ, 0, 0);
  acknowledged(PTL_NI_PT_DISABLED);
  next(at_target, PTL_EVENT_PT_DISABLED);
  nothing(at_target);
}

RULE(B9_an_entry_may_keep_the_word_that_its_portal_was_disabled_to_itself) {
  ptl_ni_limits_t wish;
  open_interface(ME_PHYSICAL, NULL);
  wish = limits;
  WELL(PtlNIFini(ni));
  wish.max_unexpected_headers = 1;
  WELL(PtlNIInit(PTL_IFACE_DEFAULT, ME_PHYSICAL, PTL_PID_ANY, &wish, &limits, &ni));
  WELL(PtlGetId(ni, &self));
  WELL(PtlEQAlloc(ni, 64, &at_target));
  WELL(PtlEQAlloc(ni, 64, &at_initiator));
  WELL(PtlPTAlloc(ni, PTL_PT_FLOWCTRL, at_target, PTL_PT_ANY, &portal));
  ptl_me_t me = entry(to, sizeof(to), PTL_ME_OP_PUT | PTL_ME_EVENT_FLOWCTRL_DISABLE | PTL_ME_EVENT_COMM_DISABLE);
  append(&me, PTL_OVERFLOW_LIST, NULL);
  ptl_handle_md_t md = bind_memory(from, 8, 0, PTL_CT_NONE);
  for (int i = 0; i < 3; i++) {
    put(md, 8, PTL_ACK_REQ, 0, 0);
    acknowledged(i == 0 ? PTL_NI_OK : PTL_NI_PT_DISABLED);
  }
  nothing(at_target);
}

RULE(B9_a_full_queue_disables_all_portals_that_tell_it) {
  ptl_handle_eq_t small;
  ptl_pt_index_t index;
  begin(ME_PHYSICAL);
  WELL(PtlEQAlloc(ni, 4, &small));
  ptl_me_t me = entry(to, sizeof(to), PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE);
  static const ptl_handle_eq_t none = PTL_EQ_NONE;
  const ptl_handle_eq_t *const queues[4] = {&small, &small, &at_target, &none}; /* the last two tell it nothing */
  for (ptl_pt_index_t i = 0; i < 4; i++) {
    WELL(PtlPTAlloc(ni, *queues[i] == PTL_EQ_NONE ? 0 : PTL_PT_FLOWCTRL, *queues[i], 10 + i, &index));
    portal = index;
    append(&me, PTL_PRIORITY_LIST, NULL);
  }
  ptl_handle_md_t md = bind_memory(from, 8, 0, PTL_CT_NONE);
  portal = 10;
  for (int i = 0; i < 8; i++) put(md, 8, PTL_NO_ACK_REQ, 0, 0);
  for (int i = 0; i < 8; i++) next(at_initiator, PTL_EVENT_SEND);
  for (portal = 10; portal < 14; portal++) {
    put(md, 8, PTL_ACK_REQ, 0, 0);
    acknowledged(portal < 12 ? PTL_NI_PT_DISABLED : PTL_NI_OK);
  }
  ptl_event_t event;
  int disabled = 0;
  for (int code; (code = PtlEQGet(small, &event)) != PTL_EQ_EMPTY;) {
    IS(PTL_OK, code); /* none is lost */
    if (event.type == PTL_EVENT_PT_DISABLED) disabled |= 1 << (event.pt_index - 10);
  }
  IS(3, disabled);
}

RULE(B9_a_full_queue_disables_and_loses_nothing) {
  ptl_event_t event;
  ptl_handle_eq_t small;
  begin(ME_PHYSICAL);
  WELL(PtlEQAlloc(ni, 8, &small));
  WELL(PtlPTAlloc(ni, PTL_PT_FLOWCTRL, small, 7, &portal));
  ptl_me_t me = entry(to, sizeof(to), PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE);
  append(&me, PTL_PRIORITY_LIST, NULL);
  ptl_handle_md_t md = bind_memory(from, 8, PTL_MD_EVENT_SEND_DISABLE, PTL_CT_NONE);
  int taken = 0, refused = 0, told = 0, disabled = 0;
  for (int i = 0; i < 40; i++) {
    put(md, 8, PTL_ACK_REQ, 0, 0);
    event = next(at_initiator, PTL_EVENT_ACK);
    if (event.ni_fail_type == PTL_NI_OK) {
      CHECK(refused == 0); /* none after one that was refused */
      taken++;
    } else {
      IS(PTL_NI_PT_DISABLED, event.ni_fail_type);
      refused++;
    }
  }
  CHECK(taken >= 8 && refused > 0);
  for (int code; (code = PtlEQGet(small, &event)) != PTL_EQ_EMPTY;) {
    IS(PTL_OK, code);
    told += event.type == PTL_EVENT_PUT;
    disabled += event.type == PTL_EVENT_PT_DISABLED;
  }
  CHECK(told == taken && disabled == 1);
}
