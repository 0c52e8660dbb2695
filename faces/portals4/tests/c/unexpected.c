/* B.4 to B.6: messages that came before their entry. To oneself. */
#include "rules.h"

static char from[256], block[256], to[256];

/* An overflow entry, and a message in it. */
static ptl_handle_me_t overflow(unsigned options) {
  ptl_me_t me = entry(block, 256, PTL_ME_OP_PUT | options);
  me.min_free = 0;
  return append(&me, PTL_OVERFLOW_LIST, (void *)0xb10c);
}

static void arrive(ptl_handle_md_t md, ptl_size_t length, ptl_match_bits_t bits) {
  put(md, length, PTL_ACK_REQ, bits, 0);
  IS(PTL_OVERFLOW_LIST, acknowledged(PTL_NI_OK).ptl_list);
  ptl_event_t event = next(at_target, PTL_EVENT_PUT);
  CHECK(event.ptl_list == PTL_OVERFLOW_LIST && event.user_ptr == (void *)0xb10c);
}

/* An entry that finds a header is told so and not linked: the caller says what follows. */
static ptl_handle_me_t append_raw(unsigned options, ptl_match_bits_t bits, ptl_match_bits_t ignore, ptl_handle_ct_t ct) {
  ptl_handle_me_t handle;
  ptl_me_t me = entry(to, 256, PTL_ME_OP_PUT | options);
  me.match_bits = bits;
  me.ignore_bits = ignore;
  me.ct_handle = ct;
  WELL(PtlMEAppend(ni, portal, &me, PTL_PRIORITY_LIST, (void *)0xe, &handle));
  return handle;
}

RULE(B4_both_used_once_the_order_of_events) {
  begin(ME_PHYSICAL);
  ptl_handle_md_t md = bind_memory(from, 64, 0, PTL_CT_NONE);
  from[0] = 42;
  overflow(PTL_ME_USE_ONCE);
  arrive(md, 64, 0);
  CHECK(next(at_target, PTL_EVENT_AUTO_UNLINK).user_ptr == (void *)0xb10c);
  nothing(at_target);
  ptl_handle_me_t dead = append_raw(PTL_ME_USE_ONCE, 0, 0, PTL_CT_NONE);
  ptl_event_t event = next(at_target, PTL_EVENT_PUT_OVERFLOW);
  CHECK(event.start == block && event.user_ptr == (void *)0xe && event.mlength == 64 && event.rlength == 64);
  CHECK(event.hdr_data == 0x1234567890 && event.ptl_list == PTL_OVERFLOW_LIST && *(char *)event.start == 42);
  CHECK(next(at_target, PTL_EVENT_AUTO_FREE).user_ptr == (void *)0xb10c);
  CHECK(next(at_target, PTL_EVENT_AUTO_UNLINK).user_ptr == (void *)0xe);
  IS(PTL_ARG_INVALID, PtlMEUnlink(dead));
  nothing(at_target);
}

RULE(B4_a_persistent_entry_takes_all_headers_and_is_linked_then) {
  begin(ME_PHYSICAL);
  ptl_handle_md_t md = bind_memory(from, 64, 0, PTL_CT_NONE);
  overflow(PTL_ME_MANAGE_LOCAL);
  for (int i = 0; i < 3; i++) arrive(md, 8, 0);
  append_raw(0, 0, 0, PTL_CT_NONE);
  for (int i = 0; i < 3; i++) CHECK(next(at_target, PTL_EVENT_PUT_OVERFLOW).start == block + 8 * i);
  next(at_target, PTL_EVENT_LINK);
  put(md, 8, PTL_ACK_REQ, 0, 0);
  IS(PTL_PRIORITY_LIST, acknowledged(PTL_NI_OK).ptl_list);
  next(at_target, PTL_EVENT_PUT);
  nothing(at_target);
}

RULE(B4_headers_are_found_oldest_first_by_the_rules_of_matching) {
  begin(ME_PHYSICAL);
  ptl_handle_md_t md = bind_memory(from, 64, 0, PTL_CT_NONE);
  ptl_me_t me = entry(block, 256, PTL_ME_OP_PUT | PTL_ME_MANAGE_LOCAL);
  me.ignore_bits = UINT64_MAX;
  me.min_free = 0;
  append(&me, PTL_OVERFLOW_LIST, (void *)0xb10c);
  arrive(md, 8, 5);
  arrive(md, 8, 6);
  arrive(md, 8, 5);
  append_raw(PTL_ME_USE_ONCE | PTL_ME_EVENT_UNLINK_DISABLE, 6, 0, PTL_CT_NONE);
  CHECK(next(at_target, PTL_EVENT_PUT_OVERFLOW).start == block + 8);
  append_raw(PTL_ME_USE_ONCE | PTL_ME_EVENT_UNLINK_DISABLE, 5, 0, PTL_CT_NONE);
  CHECK(next(at_target, PTL_EVENT_PUT_OVERFLOW).start == block);
  append_raw(PTL_ME_USE_ONCE | PTL_ME_EVENT_UNLINK_DISABLE, 7, 0, PTL_CT_NONE);
  next(at_target, PTL_EVENT_LINK);
  nothing(at_target);
}

RULE(B4_an_overflow_entry_without_headers_keeps_none) {
  begin(ME_PHYSICAL);
  ptl_handle_md_t md = bind_memory(from, 64, 0, PTL_CT_NONE);
  overflow(PTL_ME_UNEXPECTED_HDR_DISABLE);
  arrive(md, 8, 0);
  append_raw(PTL_ME_USE_ONCE, 0, 0, PTL_CT_NONE);
  next(at_target, PTL_EVENT_LINK);
  nothing(at_target);
}

RULE(B4_overflow_events_may_be_disabled_and_are_counted_all_the_same) {
  begin(ME_PHYSICAL);
  ptl_handle_md_t md = bind_memory(from, 64, 0, PTL_CT_NONE);
  overflow(PTL_ME_MANAGE_LOCAL);
  arrive(md, 8, 0);
  arrive(md, 8, 0);
  ptl_handle_ct_t ct = counter();
  append_raw(PTL_ME_EVENT_OVER_DISABLE | PTL_ME_EVENT_CT_OVERFLOW, 0, 0, ct);
  next(at_target, PTL_EVENT_LINK);
  IS(2, reached(ct, 2).success);
  nothing(at_target);
}

RULE(B4_headers_use_up_an_entry_that_counts_their_lengths) {
  begin(ME_PHYSICAL);
  ptl_handle_md_t md = bind_memory(from, 64, 0, PTL_CT_NONE);
  overflow(PTL_ME_MANAGE_LOCAL);
  for (int i = 0; i < 3; i++) arrive(md, 32, 0);
  ptl_handle_me_t handle;
  ptl_me_t me = entry(to, 100, PTL_ME_OP_PUT | PTL_ME_MANAGE_LOCAL | PTL_ME_LOCAL_INC_UH_RLENGTH);
  me.min_free = 50;
  WELL(PtlMEAppend(ni, portal, &me, PTL_PRIORITY_LIST, (void *)0xe, &handle));
  next(at_target, PTL_EVENT_PUT_OVERFLOW);
  next(at_target, PTL_EVENT_PUT_OVERFLOW); /* 36 left, and 50 wanted */
  next(at_target, PTL_EVENT_AUTO_UNLINK);
  nothing(at_target);
}

RULE(B4_each_operation_that_came_first_is_told_by_its_own_name) {
  int64_t operand = 0;
  begin(ME_PHYSICAL);
  ptl_me_t me = entry(block, 64, PUT_GET | PTL_ME_EVENT_COMM_DISABLE);
  me.ignore_bits = UINT64_MAX;
  append(&me, PTL_OVERFLOW_LIST, (void *)0xb10c);
  ptl_handle_md_t md = bind_memory(from, 64, 0, PTL_CT_NONE);
  put(md, 8, PTL_NO_ACK_REQ, 1, 0);
  WELL(PtlGet(md, 0, 8, self, portal, 1, 0, NULL));
  WELL(PtlAtomic(md, 0, 8, PTL_NO_ACK_REQ, self, portal, 1, 0, NULL, 0, PTL_SUM, PTL_INT64_T));
  WELL(PtlFetchAtomic(md, 8, md, 0, 8, self, portal, 1, 0, NULL, 0, PTL_MAX, PTL_INT64_T));
  WELL(PtlSwap(md, 8, md, 0, 8, self, portal, 1, 0, NULL, 0, &operand, PTL_CSWAP, PTL_INT64_T));
  for (int replies = 0; replies < 3;) {
    ptl_event_t event;
    unsigned which;
    WELL(PtlEQPoll(&at_initiator, 1, 10000, &event, &which));
    IS(PTL_NI_OK, event.ni_fail_type);
    replies += event.type == PTL_EVENT_REPLY;
  }
  ptl_handle_ct_t ct = counter();
  append_raw(PTL_ME_EVENT_CT_OVERFLOW | PTL_ME_EVENT_CT_BYTES, 1, 0, ct);
  static const ptl_event_kind_t kinds[5] = {PTL_EVENT_PUT_OVERFLOW, PTL_EVENT_GET_OVERFLOW, PTL_EVENT_ATOMIC_OVERFLOW,
                                            PTL_EVENT_FETCH_ATOMIC_OVERFLOW, PTL_EVENT_FETCH_ATOMIC_OVERFLOW};
  for (int i = 0; i < 5; i++) {
    ptl_event_t event = next(at_target, kinds[i]);
    CHECK(event.start == block && event.user_ptr == (void *)0xe && event.mlength == 8 && event.match_bits == 1);
    if (i >= 2) IS(i == 2 ? PTL_SUM : i == 3 ? PTL_MAX : PTL_CSWAP, event.atomic_operation);
  }
  next(at_target, PTL_EVENT_LINK);
  IS(40, reached(ct, 40).success);
}

RULE(B4_what_came_first_is_found_whoever_may_use_the_entry) {
  ptl_uid_t uid;
  begin(ME_PHYSICAL);
  ptl_handle_md_t md = bind_memory(from, 64, 0, PTL_CT_NONE);
  overflow(PTL_ME_MANAGE_LOCAL);
  arrive(md, 8, 0);
  WELL(PtlGetUid(ni, &uid));
  ptl_me_t me = entry(to, 256, PTL_ME_OP_GET | PTL_ME_USE_ONCE | PTL_ME_EVENT_UNLINK_DISABLE); /* not for puts, nor for this user */
  me.uid = uid + 1;
  ptl_handle_me_t handle;
  WELL(PtlMEAppend(ni, portal, &me, PTL_PRIORITY_LIST, (void *)0xe, &handle));
  next(at_target, PTL_EVENT_PUT_OVERFLOW);
  IS(0, status_of(PTL_SR_PERMISSION_VIOLATIONS));
  IS(0, status_of(PTL_SR_OPERATION_VIOLATIONS));
}

RULE(B4_that_entries_end_may_be_kept_silent) {
  begin(ME_PHYSICAL);
  ptl_handle_md_t md = bind_memory(from, 64, 0, PTL_CT_NONE);
  overflow(PTL_ME_USE_ONCE | PTL_ME_EVENT_UNLINK_DISABLE);
  arrive(md, 8, 0);
  append_raw(PTL_ME_USE_ONCE | PTL_ME_EVENT_UNLINK_DISABLE, 0, 0, PTL_CT_NONE);
  next(at_target, PTL_EVENT_PUT_OVERFLOW);
  nothing(at_target); /* neither AUTO_UNLINK nor AUTO_FREE */
}

RULE(B4_what_came_first_is_counted_where_there_is_no_queue) {
  begin(ME_PHYSICAL);
  ptl_pt_index_t silent;
  WELL(PtlPTAlloc(ni, 0, PTL_EQ_NONE, 9, &silent));
  portal = silent;
  ptl_me_t me = entry(block, 256, PTL_ME_OP_PUT | PTL_ME_MANAGE_LOCAL | PTL_ME_EVENT_LINK_DISABLE);
  me.min_free = 0;
  append(&me, PTL_OVERFLOW_LIST, NULL);
  ptl_handle_md_t md = bind_memory(from, 64, 0, PTL_CT_NONE);
  put(md, 8, PTL_ACK_REQ, 0, 0);
  acknowledged(PTL_NI_OK);
  ptl_handle_ct_t ct = counter();
  append_raw(PTL_ME_EVENT_CT_OVERFLOW | PTL_ME_USE_ONCE, 0, 0, ct);
  IS(1, reached(ct, 1).success);
}

RULE(B4_without_truncation_headers_that_are_too_long_are_passed_over) {
  begin(ME_PHYSICAL);
  ptl_handle_md_t md = bind_memory(from, 64, 0, PTL_CT_NONE);
  overflow(PTL_ME_MANAGE_LOCAL);
  arrive(md, 64, 0);
  arrive(md, 8, 0);
  ptl_me_t me = entry(to, 16, PTL_ME_OP_PUT | PTL_ME_NO_TRUNCATE | PTL_ME_USE_ONCE | PTL_ME_EVENT_UNLINK_DISABLE);
  ptl_handle_me_t handle;
  WELL(PtlMEAppend(ni, portal, &me, PTL_PRIORITY_LIST, NULL, &handle));
  IS(8, next(at_target, PTL_EVENT_PUT_OVERFLOW).rlength);
  WELL(PtlMESearch(ni, portal, &me, PTL_SEARCH_ONLY, NULL));
  IS(PTL_NI_NO_MATCH, next(at_target, PTL_EVENT_SEARCH).ni_fail_type);
}

RULE(B5_an_entry_is_unlinked_or_in_use_or_gone) {
  begin(ME_PHYSICAL);
  ptl_handle_md_t md = bind_memory(from, 64, 0, PTL_CT_NONE);
  ptl_handle_me_t handle = overflow(PTL_ME_MANAGE_LOCAL);
  arrive(md, 8, 0);
  IS(PTL_IN_USE, PtlMEUnlink(handle)); /* a header refers to it */
  append_raw(PTL_ME_USE_ONCE | PTL_ME_EVENT_UNLINK_DISABLE, 0, 0, PTL_CT_NONE);
  next(at_target, PTL_EVENT_PUT_OVERFLOW);
  WELL(PtlMEUnlink(handle));
  IS(PTL_ARG_INVALID, PtlMEUnlink(handle));
  nothing(at_target); /* neither AUTO_UNLINK nor AUTO_FREE after an explicit one */
}

RULE(B6_a_search_only_looks) {
  begin(ME_PHYSICAL);
  ptl_handle_md_t md = bind_memory(from, 64, 0, PTL_CT_NONE);
  ptl_me_t me = entry(NULL, 0, PTL_ME_OP_PUT | PTL_ME_USE_ONCE);
  WELL(PtlMESearch(ni, portal, &me, PTL_SEARCH_ONLY, (void *)0x5));
  ptl_event_t event = next(at_target, PTL_EVENT_SEARCH);
  CHECK(event.ni_fail_type == PTL_NI_NO_MATCH && event.user_ptr == (void *)0x5);
  overflow(PTL_ME_MANAGE_LOCAL);
  arrive(md, 16, 0);
  arrive(md, 16, 0);
  for (int i = 0; i < 2; i++) {
    WELL(PtlMESearch(ni, portal, &me, PTL_SEARCH_ONLY, (void *)0x5));
    event = next(at_target, PTL_EVENT_SEARCH);
    CHECK(event.ni_fail_type == PTL_NI_OK && event.start == block && event.mlength == 16 && event.rlength == 16);
    CHECK(event.user_ptr == (void *)0x5 && event.hdr_data == 0x1234567890);
  }
  me.options = PTL_ME_OP_PUT; /* persistent: one for each, and none to close */
  WELL(PtlMESearch(ni, portal, &me, PTL_SEARCH_ONLY, (void *)0x6));
  next(at_target, PTL_EVENT_SEARCH);
  next(at_target, PTL_EVENT_SEARCH);
  nothing(at_target);
  IS(0, status_of(PTL_SR_DROP_COUNT));
}

RULE(B6_a_search_that_deletes_takes_the_header_out) {
  begin(ME_PHYSICAL);
  ptl_handle_md_t md = bind_memory(from, 64, 0, PTL_CT_NONE);
  overflow(PTL_ME_USE_ONCE);
  arrive(md, 16, 0);
  next(at_target, PTL_EVENT_AUTO_UNLINK);
  ptl_me_t me = entry(NULL, 0, PTL_ME_OP_PUT | PTL_ME_USE_ONCE);
  WELL(PtlMESearch(ni, portal, &me, PTL_SEARCH_DELETE, (void *)0x5));
  CHECK(next(at_target, PTL_EVENT_PUT_OVERFLOW).user_ptr == (void *)0x5);
  CHECK(next(at_target, PTL_EVENT_AUTO_FREE).user_ptr == (void *)0xb10c);
  WELL(PtlMESearch(ni, portal, &me, PTL_SEARCH_DELETE, (void *)0x5));
  IS(PTL_NI_NO_MATCH, next(at_target, PTL_EVENT_SEARCH).ni_fail_type);
}

RULE(B6_a_persistent_search_that_deletes_takes_all_that_fit) {
  begin(ME_PHYSICAL);
  ptl_handle_md_t md = bind_memory(from, 64, 0, PTL_CT_NONE);
  ptl_me_t me = entry(block, 256, PTL_ME_OP_PUT | PTL_ME_MANAGE_LOCAL);
  me.ignore_bits = UINT64_MAX;
  me.min_free = 0;
  append(&me, PTL_OVERFLOW_LIST, (void *)0xb10c);
  for (ptl_match_bits_t i = 0; i < 4; i++) arrive(md, 16, i % 2);
  me = entry(NULL, 0, PTL_ME_OP_PUT);
  WELL(PtlMESearch(ni, portal, &me, PTL_SEARCH_DELETE, NULL));
  for (int i = 0; i < 2; i++) CHECK(next(at_target, PTL_EVENT_PUT_OVERFLOW).start == block + 32 * i);
  nothing(at_target);
  me.match_bits = 1; /* the others are there still */
  WELL(PtlMESearch(ni, portal, &me, PTL_SEARCH_ONLY, NULL));
  for (int i = 0; i < 2; i++) CHECK(next(at_target, PTL_EVENT_SEARCH).start == block + 16 + 32 * i);
  nothing(at_target);
}

RULE(B6_counters_of_a_search_are_right_when_it_returns) {
  begin(ME_PHYSICAL);
  ptl_handle_md_t md = bind_memory(from, 64, 0, PTL_CT_NONE);
  ptl_ct_event_t count;
  overflow(PTL_ME_MANAGE_LOCAL);
  arrive(md, 16, 0);
  arrive(md, 16, 0);
  ptl_me_t me = entry(NULL, 0, PTL_ME_OP_PUT | PTL_ME_EVENT_CT_OVERFLOW);
  me.ct_handle = counter();
  WELL(PtlMESearch(ni, portal, &me, PTL_SEARCH_ONLY, NULL));
  WELL(PtlCTGet(me.ct_handle, &count));
  CHECK(count.success == 2 && count.failure == 1); /* a persistent one ends with a failure */
  me.options |= PTL_ME_USE_ONCE;
  WELL(PtlMESearch(ni, portal, &me, PTL_SEARCH_ONLY, NULL));
  WELL(PtlCTGet(me.ct_handle, &count));
  CHECK(count.success == 3 && count.failure == 1);
  me.match_bits = 77;
  WELL(PtlMESearch(ni, portal, &me, PTL_SEARCH_ONLY, NULL));
  WELL(PtlCTGet(me.ct_handle, &count));
  CHECK(count.success == 3 && count.failure == 2);
}

RULE(B6_list_entries_are_searched_likewise) {
  begin(LE_PHYSICAL);
  ptl_handle_md_t md = bind_memory(from, 64, 0, PTL_CT_NONE);
  append_le(block, 256, PTL_LE_OP_PUT, PTL_OVERFLOW_LIST, (void *)0xb10c);
  arrive(md, 16, 0x99);
  ptl_le_t le = {NULL, 0, PTL_CT_NONE, PTL_UID_ANY, PTL_LE_OP_PUT | PTL_LE_USE_ONCE};
  WELL(PtlLESearch(ni, portal, &le, PTL_SEARCH_DELETE, (void *)0x5));
  CHECK(next(at_target, PTL_EVENT_PUT_OVERFLOW).user_ptr == (void *)0x5);
  WELL(PtlLESearch(ni, portal, &le, PTL_SEARCH_ONLY, NULL));
  IS(PTL_NI_NO_MATCH, next(at_target, PTL_EVENT_SEARCH).ni_fail_type);
}
