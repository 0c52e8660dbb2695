/* B.1 to B.3: which entry takes a message, and where it goes. To oneself. */
#include "rules.h"

static char from[256], to[256], more[256];

static void fill(void) {
  for (int i = 0; i < 256; i++) from[i] = (char)(i ^ 0x5a);
  memset(to, 0, sizeof(to));
  memset(more, 0, sizeof(more));
}

RULE(B1_a_put_lands_and_both_sides_are_told) {
  begin(ME_PHYSICAL);
  fill();
  ptl_me_t me = entry(to, 256, PTL_ME_OP_PUT);
  me.match_bits = 0xfeed;
  append(&me, PTL_PRIORITY_LIST, (void *)0x77);
  ptl_handle_md_t md = bind_memory(from, 256, 0, PTL_CT_NONE);
  put(md, 100, PTL_ACK_REQ, 0xfeed, 8);
  ptl_event_t ack = acknowledged(PTL_NI_OK);
  CHECK(ack.mlength == 100 && ack.remote_offset == 8 && ack.ptl_list == PTL_PRIORITY_LIST);
  ptl_event_t event = next(at_target, PTL_EVENT_PUT);
  CHECK(event.start == to + 8 && event.user_ptr == (void *)0x77 && event.hdr_data == 0x1234567890);
  CHECK(event.match_bits == 0xfeed && event.rlength == 100 && event.mlength == 100 && event.remote_offset == 8);
  CHECK(event.initiator.phys.nid == self.phys.nid && event.initiator.phys.pid == self.phys.pid);
  CHECK(event.pt_index == portal && event.ptl_list == PTL_PRIORITY_LIST && event.ni_fail_type == PTL_NI_OK);
  ptl_uid_t uid;
  WELL(PtlGetUid(ni, &uid));
  IS(uid, event.uid);
  CHECK(memcmp(to + 8, from, 100) == 0 && to[7] == 0 && to[108] == 0);
  nothing(at_target);
}

RULE(B1_what_has_no_portal_or_no_match_is_dropped_and_counted) {
  begin(ME_PHYSICAL);
  ptl_handle_md_t md = bind_memory(from, 8, 0, PTL_CT_NONE);
  put(md, 8, PTL_ACK_REQ, 0, 0);
  acknowledged(PTL_NI_DROPPED);
  IS(1, status_of(PTL_SR_DROP_COUNT));
  portal = 33;
  put(md, 8, PTL_ACK_REQ, 0, 0);
  acknowledged(PTL_NI_DROPPED);
  IS(2, status_of(PTL_SR_DROP_COUNT));
  nothing(at_target);
}

RULE(B1_a_request_is_for_an_interface_of_its_own_kind) {
  begin(ME_PHYSICAL);
  ptl_me_t me = entry(to, 64, PUT_GET);
  append(&me, PTL_PRIORITY_LIST, NULL);
  ptl_handle_ni_t other;
  ptl_handle_md_t md;
  WELL(PtlNIInit(PTL_IFACE_DEFAULT, LE_PHYSICAL, PTL_PID_ANY, NULL, NULL, &other));
  ptl_md_t there = {from, 8, 0, PTL_EQ_NONE, PTL_CT_NONE};
  WELL(PtlCTAlloc(other, &there.ct_handle));
  there.options = PTL_MD_EVENT_CT_ACK;
  WELL(PtlMDBind(other, &there, &md));
  put(md, 8, PTL_CT_ACK_REQ, 0, 0); /* the same index, in a table that has none */
  IS(1, reached(there.ct_handle, 1).failure);
  IS(0, status_of(PTL_SR_DROP_COUNT)); /* counted there, not here */
  nothing(at_target);
}

RULE(B1_a_disabled_portal_says_so_and_an_enabled_one_takes_again) {
  begin(ME_PHYSICAL);
  ptl_me_t me = entry(to, 64, PTL_ME_OP_PUT);
  append(&me, PTL_PRIORITY_LIST, NULL);
  ptl_handle_md_t md = bind_memory(from, 8, 0, PTL_CT_NONE);
  WELL(PtlPTDisable(ni, portal));
  put(md, 8, PTL_ACK_REQ, 0, 0);
  acknowledged(PTL_NI_PT_DISABLED);
  IS(1, status_of(PTL_SR_DROP_COUNT));
  nothing(at_target);
  WELL(PtlPTEnable(ni, portal));
  put(md, 8, PTL_ACK_REQ, 0, 0);
  acknowledged(PTL_NI_OK);
  next(at_target, PTL_EVENT_PUT);
}

RULE(B1_permission_is_asked_of_the_matched_entry_only) {
  begin(ME_PHYSICAL);
  ptl_uid_t uid;
  WELL(PtlGetUid(ni, &uid));
  ptl_me_t me = entry(to, 64, PTL_ME_OP_PUT);
  me.uid = uid + 1;
  append(&me, PTL_PRIORITY_LIST, NULL);
  ptl_me_t open_one = entry(more, 64, PTL_ME_OP_PUT);
  append(&open_one, PTL_PRIORITY_LIST, NULL);
  ptl_handle_md_t md = bind_memory(from, 8, 0, PTL_CT_NONE);
  put(md, 8, PTL_ACK_REQ, 0, 0);
  acknowledged(PTL_NI_PERM_VIOLATION);
  IS(1, status_of(PTL_SR_PERMISSION_VIOLATIONS));
  IS(0, status_of(PTL_SR_DROP_COUNT));
  nothing(at_target);
}

RULE(B1_an_entry_takes_the_operations_it_allows) {
  begin(ME_PHYSICAL);
  static const unsigned allowed[3] = {0, PTL_ME_OP_PUT, PTL_ME_OP_GET};
  ptl_handle_md_t md = bind_memory(from, 8, 0, PTL_CT_NONE), back = bind_memory(more, 8, 0, PTL_CT_NONE);
  int violations = 0;
  for (int i = 0; i < 3; i++) {
    ptl_me_t me = entry(to, 64, allowed[i] | PTL_ME_EVENT_COMM_DISABLE);
    ptl_handle_me_t handle = append(&me, PTL_PRIORITY_LIST, NULL);
    put(md, 8, PTL_ACK_REQ, 0, 0);
    acknowledged(i == 1 ? PTL_NI_OK : PTL_NI_OP_VIOLATION);
    WELL(PtlGet(back, 0, 8, self, portal, 0, 0, NULL));
    IS(i == 2 ? PTL_NI_OK : PTL_NI_OP_VIOLATION, next(at_initiator, PTL_EVENT_REPLY).ni_fail_type);
    WELL(PtlFetchAtomic(back, 0, md, 0, 8, self, portal, 0, 0, NULL, 0, PTL_SUM, PTL_INT64_T));
    next(at_initiator, PTL_EVENT_SEND);
    IS(PTL_NI_OP_VIOLATION, next(at_initiator, PTL_EVENT_REPLY).ni_fail_type);
    violations += (i != 1) + (i != 2) + 1;
    IS(violations, status_of(PTL_SR_OPERATION_VIOLATIONS));
    WELL(PtlMEUnlink(handle));
  }
  IS(0, status_of(PTL_SR_DROP_COUNT));
  nothing(at_target);
}

RULE(B1_what_is_too_long_is_cut_and_an_offset_past_the_end_moves_nothing) {
  begin(ME_PHYSICAL);
  fill();
  ptl_me_t me = entry(to, 64, PUT_GET);
  append(&me, PTL_PRIORITY_LIST, NULL);
  ptl_handle_md_t md = bind_memory(from, 256, 0, PTL_CT_NONE);
  put(md, 100, PTL_ACK_REQ, 0, 4);
  IS(60, acknowledged(PTL_NI_OK).mlength);
  ptl_event_t event = next(at_target, PTL_EVENT_PUT);
  CHECK(event.mlength == 60 && event.rlength == 100 && memcmp(to + 4, from, 60) == 0 && to[64] == 0);
  put(md, 10, PTL_ACK_REQ, 0, 1000);
  IS(0, acknowledged(PTL_NI_OK).mlength);
  IS(0, next(at_target, PTL_EVENT_PUT).mlength);
  WELL(PtlGet(md, 128, 100, self, portal, 0, 60, NULL));
  IS(4, next(at_initiator, PTL_EVENT_REPLY).mlength);
  IS(4, next(at_target, PTL_EVENT_GET).mlength);
}

RULE(B2_bits_are_compared_but_for_those_ignored) {
  begin(ME_PHYSICAL);
  ptl_me_t me = entry(to, 64, PTL_ME_OP_PUT);
  me.match_bits = 0xf0f0f0f0f0f0f0f0;
  me.ignore_bits = 0x00000000ffff0000;
  append(&me, PTL_PRIORITY_LIST, NULL);
  ptl_handle_md_t md = bind_memory(from, 8, 0, PTL_CT_NONE);
  put(md, 8, PTL_ACK_REQ, 0xf0f0f0f01234f0f0, 0);
  acknowledged(PTL_NI_OK);
  put(md, 8, PTL_ACK_REQ, 0xf0f0f0f0f0f0f0f1, 0);
  acknowledged(PTL_NI_DROPPED);
  put(md, 8, PTL_ACK_REQ, 0x70f0f0f0f0f0f0f0, 0);
  acknowledged(PTL_NI_DROPPED);
}

RULE(B2_nid_and_pid_are_wild_each_on_its_own) {
  begin(ME_PHYSICAL);
  ptl_handle_md_t md = bind_memory(from, 8, 0, PTL_CT_NONE);
  for (int wild = 0; wild < 4; wild++)
    for (int wrong = 0; wrong < 4; wrong++) {
      ptl_me_t me = entry(to, 64, PTL_ME_OP_PUT | PTL_ME_EVENT_COMM_DISABLE);
      me.match_id.phys.nid = wild & 1 ? PTL_NID_ANY : wrong & 1 ? self.phys.nid + 1 : self.phys.nid;
      me.match_id.phys.pid = wild & 2 ? PTL_PID_ANY : wrong & 2 ? self.phys.pid + 1 : self.phys.pid;
      ptl_handle_me_t handle = append(&me, PTL_PRIORITY_LIST, NULL);
      put(md, 8, PTL_ACK_REQ, 0, 0);
      acknowledged(wrong & ~wild ? PTL_NI_DROPPED : PTL_NI_OK);
      WELL(PtlMEUnlink(handle));
    }
}

RULE(B2_a_rank_is_compared_on_a_logical_interface) {
  begin(ME_LOGICAL);
  ptl_handle_md_t md = bind_memory(from, 8, 0, PTL_CT_NONE);
  ptl_me_t me = entry(to, 64, PTL_ME_OP_PUT);
  me.match_id.rank = 3;
  ptl_handle_me_t handle = append(&me, PTL_PRIORITY_LIST, NULL);
  put(md, 8, PTL_ACK_REQ, 0, 0);
  acknowledged(PTL_NI_DROPPED);
  WELL(PtlMEUnlink(handle));
  me.match_id.rank = 0;
  append(&me, PTL_PRIORITY_LIST, NULL);
  put(md, 8, PTL_ACK_REQ, 0, 0);
  acknowledged(PTL_NI_OK);
  IS(0, next(at_target, PTL_EVENT_PUT).initiator.rank);
}

RULE(B2_the_first_entry_that_matches_takes_it_priority_before_overflow) {
  begin(ME_PHYSICAL);
  ptl_handle_md_t md = bind_memory(from, 8, 0, PTL_CT_NONE);
  ptl_me_t me = entry(to, 64, PTL_ME_OP_PUT | PTL_ME_USE_ONCE | PTL_ME_EVENT_UNLINK_DISABLE);
  append(&me, PTL_OVERFLOW_LIST, (void *)3);
  append(&me, PTL_PRIORITY_LIST, (void *)1);
  append(&me, PTL_PRIORITY_LIST, (void *)2);
  for (uintptr_t i = 1; i <= 3; i++) {
    put(md, 8, PTL_ACK_REQ, 0, 0);
    IS(i == 3 ? PTL_OVERFLOW_LIST : PTL_PRIORITY_LIST, acknowledged(PTL_NI_OK).ptl_list);
    IS(i, (uintptr_t)next(at_target, PTL_EVENT_PUT).user_ptr);
  }
}

RULE(B2_a_list_entry_takes_whatever_comes) {
  begin(LE_PHYSICAL);
  fill();
  append_le(to, 64, PTL_LE_OP_PUT, PTL_PRIORITY_LIST, (void *)9);
  ptl_handle_md_t md = bind_memory(from, 8, 0, PTL_CT_NONE);
  put(md, 8, PTL_ACK_REQ, 0xabcdef, 0);
  acknowledged(PTL_NI_OK);
  ptl_event_t event = next(at_target, PTL_EVENT_PUT);
  CHECK(event.user_ptr == (void *)9 && event.match_bits == 0xabcdef && memcmp(to, from, 8) == 0); /* the bits as they were sent */
}

RULE(B2_without_truncation_too_long_is_no_match_and_the_search_goes_on) {
  begin(ME_PHYSICAL);
  ptl_handle_md_t md = bind_memory(from, 64, 0, PTL_CT_NONE);
  ptl_me_t me = entry(to, 16, PTL_ME_OP_PUT | PTL_ME_NO_TRUNCATE);
  append(&me, PTL_PRIORITY_LIST, (void *)1);
  me.length = 32;
  append(&me, PTL_PRIORITY_LIST, (void *)2);
  put(md, 16, PTL_ACK_REQ, 0, 0);
  acknowledged(PTL_NI_OK);
  IS(1, (uintptr_t)next(at_target, PTL_EVENT_PUT).user_ptr);
  put(md, 16, PTL_ACK_REQ, 0, 1);
  acknowledged(PTL_NI_OK);
  IS(2, (uintptr_t)next(at_target, PTL_EVENT_PUT).user_ptr);
  put(md, 33, PTL_ACK_REQ, 0, 0);
  acknowledged(PTL_NI_DROPPED);
}

RULE(B3_an_entry_used_once_is_gone_before_its_event) {
  begin(ME_PHYSICAL);
  ptl_handle_md_t md = bind_memory(from, 8, 0, PTL_CT_NONE);
  ptl_me_t me = entry(to, 64, PTL_ME_OP_PUT | PTL_ME_USE_ONCE);
  ptl_handle_me_t handle = append(&me, PTL_PRIORITY_LIST, (void *)1);
  put(md, 8, PTL_ACK_REQ, 0, 0);
  acknowledged(PTL_NI_OK);
  next(at_target, PTL_EVENT_PUT);
  IS(1, (uintptr_t)next(at_target, PTL_EVENT_AUTO_UNLINK).user_ptr);
  IS(PTL_ARG_INVALID, PtlMEUnlink(handle));
  put(md, 8, PTL_ACK_REQ, 0, 0);
  acknowledged(PTL_NI_DROPPED);
  nothing(at_target);
}

RULE(B3_local_offsets_lay_messages_one_behind_another_until_min_free) {
  begin(ME_PHYSICAL);
  fill();
  ptl_handle_md_t md = bind_memory(from, 64, 0, PTL_CT_NONE);
  ptl_me_t me = entry(to, 64, PTL_ME_OP_PUT | PTL_ME_MANAGE_LOCAL);
  me.min_free = 20;
  append(&me, PTL_PRIORITY_LIST, (void *)1);
  for (int i = 0; i < 3; i++) {
    put(md, 16, PTL_ACK_REQ, 0, 999);
    ptl_event_t ack = acknowledged(PTL_NI_OK);
    CHECK(ack.remote_offset == 16u * (unsigned)i && ack.mlength == 16);
    ptl_event_t event = next(at_target, PTL_EVENT_PUT);
    CHECK(event.start == to + 16 * i && event.remote_offset == 999 && memcmp(event.start, from, 16) == 0);
  }
  next(at_target, PTL_EVENT_AUTO_UNLINK); /* 16 left, and 20 wanted */
  put(md, 16, PTL_ACK_REQ, 0, 0);
  acknowledged(PTL_NI_DROPPED);
}

RULE(B3_pieces_on_both_sides_may_be_cut_differently) {
  begin(ME_PHYSICAL);
  fill();
  ptl_iovec_t out[4], in[3] = {{to, 10}, {more, 50}, {to + 100, 60}};
  for (int i = 0; i < 4; i++) out[i] = (ptl_iovec_t){from + 64 * i, 30};
  ptl_me_t me = entry(in, 3, PUT_GET | PTL_IOVEC);
  append(&me, PTL_PRIORITY_LIST, NULL);
  ptl_handle_md_t md = bind_memory(out, 4, PTL_IOVEC, PTL_CT_NONE);
  WELL(PtlPut(md, 5, 110, PTL_ACK_REQ, self, portal, 0, 3, (void *)0x55, 0));
  IS(110, acknowledged(PTL_NI_OK).mlength);
  next(at_target, PTL_EVENT_PUT);
  for (int i = 0; i < 110; i++) {
    int source = 5 + i, place = 3 + i;
    char sent = from[64 * (source / 30) + source % 30];
    char got = place < 10 ? to[place] : place < 60 ? more[place - 10] : to[100 + place - 60];
    IS(sent, got);
  }
  memset(from, 0, sizeof(from));
  WELL(PtlGet(md, 0, 120, self, portal, 0, 0, NULL));
  IS(120, next(at_initiator, PTL_EVENT_REPLY).mlength);
  for (int i = 0; i < 120; i++) {
    char got = from[64 * (i / 30) + i % 30];
    IS(i < 10 ? to[i] : i < 60 ? more[i - 10] : to[100 + i - 60], got);
  }
}

RULE(B3_nothing_at_all_is_a_message_too) {
  begin(ME_PHYSICAL);
  ptl_me_t me = entry(NULL, 0, PTL_ME_OP_PUT);
  append(&me, PTL_PRIORITY_LIST, NULL);
  ptl_handle_md_t md = bind_memory(NULL, 0, 0, PTL_CT_NONE);
  put(md, 0, PTL_ACK_REQ, 0, 0);
  IS(0, acknowledged(PTL_NI_OK).mlength);
  IS(0, next(at_target, PTL_EVENT_PUT).rlength);
}

RULE(B3_events_are_told_unless_they_are_disabled) {
  begin(ME_PHYSICAL);
  ptl_handle_md_t md = bind_memory(from, 8, 0, PTL_CT_NONE);
  static const unsigned without[2] = {PTL_ME_EVENT_COMM_DISABLE, PTL_ME_EVENT_SUCCESS_DISABLE};
  for (int i = 0; i < 2; i++) {
    unsigned silent = without[i] | PTL_ME_EVENT_LINK_DISABLE | PTL_ME_EVENT_UNLINK_DISABLE | PTL_ME_USE_ONCE;
    ptl_me_t me = entry(to, 64, PTL_ME_OP_PUT | silent);
    append(&me, PTL_PRIORITY_LIST, NULL);
    put(md, 8, PTL_ACK_REQ, 0, 0);
    acknowledged(PTL_NI_OK);
    nothing(at_target);
  }
}
