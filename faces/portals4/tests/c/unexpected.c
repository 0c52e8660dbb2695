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
