/* B.11 to B.14: order, abort, memory, limits. To oneself. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rules.h"

static char from[1 << 16], to[1 << 16];

RULE(B11_messages_of_one_process_match_in_the_order_issued) {
  begin(ME_PHYSICAL);
  ptl_handle_md_t md = bind_memory(from, sizeof(from), PTL_MD_EVENT_SEND_DISABLE, PTL_CT_NONE);
  ptl_me_t me = entry(to, sizeof(to), PTL_ME_OP_PUT | PTL_ME_USE_ONCE | PTL_ME_EVENT_LINK_DISABLE | PTL_ME_EVENT_UNLINK_DISABLE);
  for (uintptr_t i = 0; i < 20; i++) append(&me, PTL_PRIORITY_LIST, (void *)i);
  for (uintptr_t i = 0; i < 20; i++)
    WELL(PtlPut(md, 0, i % 3 ? 8 : 40000, PTL_NO_ACK_REQ, self, portal, 0, 0, NULL, i));
  for (int i = 0; i < 20; i++) {
    ptl_event_t event = next(at_target, PTL_EVENT_PUT); /* told as they are complete, but each is where it belongs */
    IS((uintptr_t)event.user_ptr, event.hdr_data);
  }
}

RULE(B11_a_bundle_holds_nothing_back_beyond_its_end) {
  begin(ME_PHYSICAL);
  ptl_me_t me = entry(to, 64, PTL_ME_OP_PUT);
  append(&me, PTL_PRIORITY_LIST, NULL);
  ptl_handle_md_t md = bind_memory(from, 8, 0, PTL_CT_NONE);
  WELL(PtlStartBundle(ni));
  WELL(PtlStartBundle(ni));
  put(md, 8, PTL_ACK_REQ, 0, 0);
  WELL(PtlEndBundle(ni));
  acknowledged(PTL_NI_OK);
  WELL(PtlEndBundle(ni));
  IS(PTL_ARG_INVALID, PtlStartBundle(PTL_INVALID_HANDLE));
  IS(PTL_ARG_INVALID, PtlEndBundle(at_target));
}

RULE(B11_what_need_not_be_ordered_nor_arrive_is_done_all_the_same) {
  begin(ME_PHYSICAL);
  ptl_me_t me = entry(to, 64, PUT_GET | PTL_ME_EVENT_COMM_DISABLE);
  append(&me, PTL_PRIORITY_LIST, NULL);
  ptl_handle_md_t md = bind_memory(from, 8, PTL_MD_UNORDERED | PTL_MD_UNRELIABLE, PTL_CT_NONE);
  from[0] = 77;
  put(md, 8, PTL_NO_ACK_REQ, 0, 0);
  next(at_initiator, PTL_EVENT_SEND);
  WELL(PtlGet(md, 0, 8, self, portal, 0, 0, NULL));
  next(at_initiator, PTL_EVENT_REPLY);
  IS(77, to[0]);
}

static ptl_handle_ct_t awaited;

static void *wait_for_counter(void *unused) {
  ptl_ct_event_t event;
  return (void *)(intptr_t)PtlCTWait(awaited, 1, &event);
}

static void *wait_for_event(void *unused) {
  ptl_event_t event;
  return (void *)(intptr_t)PtlEQWait(at_target, &event);
}

static void *poll_counter(void *unused) {
  ptl_ct_event_t event;
  ptl_size_t test = 1;
  unsigned which;
  return (void *)(intptr_t)PtlCTPoll(&awaited, &test, 1, PTL_TIME_FOREVER, &event, &which);
}

static void *poll_events(void *unused) {
  ptl_event_t event;
  unsigned which;
  ptl_handle_eq_t both[2] = {at_initiator, at_target};
  return (void *)(intptr_t)PtlEQPoll(both, 2, 60000, &event, &which);
}

RULE(B12_abort_ends_all_waiting_and_lasts) {
  static void *(*const waiting[4])(void *) = {wait_for_counter, wait_for_event, poll_counter, poll_events};
  pthread_t threads[4];
  void *code;
  ptl_event_t event;
  ptl_ct_event_t count;
  ptl_size_t test = 1;
  unsigned which;
  begin(ME_PHYSICAL);
  awaited = counter();
  for (int i = 0; i < 4; i++) CHECK(pthread_create(&threads[i], NULL, waiting[i], NULL) == 0);
  usleep(200000); /* some sleep by then */
  PtlAbort();
  for (int i = 0; i < 4; i++) {
    CHECK(pthread_join(threads[i], &code) == 0);
    IS(PTL_ABORTED, (intptr_t)code);
  }
  WELL(PtlCTFree(awaited));
  IS(PTL_ABORTED, PtlCTWait(awaited, 1, &count)); /* before the handle is looked at */
  IS(PTL_ABORTED, PtlCTPoll(&awaited, &test, 1, 0, &count, &which));
  IS(PTL_ABORTED, PtlEQWait(at_target, &event));
  IS(PTL_ABORTED, PtlEQPoll(&at_target, 1, 0, &event, &which));
}

RULE(B13_a_descriptor_may_be_the_whole_address_space) {
  begin(ME_PHYSICAL);
  strcpy(from, "somewhere");
  ptl_me_t me = entry(to, 64, PUT_GET);
  append(&me, PTL_PRIORITY_LIST, NULL);
  ptl_handle_md_t md = bind_memory(NULL, PTL_SIZE_MAX, 0, PTL_CT_NONE);
  WELL(PtlPut(md, (uintptr_t)from, 10, PTL_ACK_REQ, self, portal, 0, 0, (void *)0x55, 0));
  acknowledged(PTL_NI_OK);
  next(at_target, PTL_EVENT_PUT);
  IS(0, strcmp(to, "somewhere"));
  WELL(PtlGet(md, (uintptr_t)(from + 100), 10, self, portal, 0, 0, NULL));
  IS(PTL_NI_OK, next(at_initiator, PTL_EVENT_REPLY).ni_fail_type);
  IS(0, strcmp(from + 100, "somewhere"));
}

RULE(B13_an_entry_may_be_too_and_what_is_not_there_is_told) {
  ptl_ni_limits_t wish;
  open_interface(ME_PHYSICAL, NULL);
  wish = limits;
  WELL(PtlNIFini(ni));
  wish.features = PTL_TARGET_BIND_INACCESSIBLE;
  WELL(PtlNIInit(PTL_IFACE_DEFAULT, ME_PHYSICAL, PTL_PID_ANY, &wish, &limits, &ni));
  IS(PTL_TARGET_BIND_INACCESSIBLE, limits.features & PTL_TARGET_BIND_INACCESSIBLE);
  WELL(PtlGetId(ni, &self));
  WELL(PtlEQAlloc(ni, 64, &at_target));
  WELL(PtlEQAlloc(ni, 64, &at_initiator));
  WELL(PtlPTAlloc(ni, 0, at_target, PTL_PT_ANY, &portal));
  ptl_me_t me = entry(NULL, PTL_SIZE_MAX, PUT_GET);
  append(&me, PTL_PRIORITY_LIST, NULL);
  strcpy(from, "anywhere");
  ptl_handle_md_t md = bind_memory(from, 64, 0, PTL_CT_NONE);
  WELL(PtlPut(md, 0, 9, PTL_ACK_REQ, self, portal, 0, (uintptr_t)to, (void *)0x55, 0));
  acknowledged(PTL_NI_OK);
  IS(0, strcmp(to, "anywhere"));
  char *hole = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(hole != MAP_FAILED);
  WELL(PtlPut(md, 0, 9, PTL_ACK_REQ, self, portal, 0, (uintptr_t)hole, (void *)0x55, 0));
  acknowledged(PTL_NI_SEGV);
  WELL(PtlGet(md, 0, 9, self, portal, 0, 4096, NULL));
  IS(PTL_NI_SEGV, next(at_initiator, PTL_EVENT_REPLY).ni_fail_type);
}

RULE(B13_read_only_memory_can_be_sent) {
  begin(ME_PHYSICAL);
  ptl_me_t me = entry(to, 4096, PTL_ME_OP_PUT);
  append(&me, PTL_PRIORITY_LIST, NULL);
  char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(page != MAP_FAILED);
  memset(page, 3, 4096);
  CHECK(mprotect(page, 4096, PROT_READ) == 0);
  ptl_handle_md_t md = bind_memory(page, 4096, 0, PTL_CT_NONE);
  put(md, 4096, PTL_ACK_REQ, 0, 0);
  acknowledged(PTL_NI_OK);
  CHECK(to[0] == 3 && to[4095] == 3);
}

RULE(B13_volatile_memory_may_change_when_the_call_returns) {
  begin(ME_PHYSICAL);
  CHECK(limits.max_volatile_size >= 32);
  ptl_me_t me = entry(to, 4096, PTL_ME_OP_PUT);
  append(&me, PTL_PRIORITY_LIST, NULL);
  ptl_handle_md_t md = bind_memory(from, 4096, PTL_MD_VOLATILE, PTL_CT_NONE);
  for (int i = 0; i < 100; i++) {
    memset(from, i, 32);
    put(md, 32, PTL_ACK_REQ, 0, 0);
    memset(from, 0xee, 32);
    acknowledged(PTL_NI_OK);
    next(at_target, PTL_EVENT_PUT);
    CHECK(to[0] == (char)i && to[31] == (char)i);
  }
}

RULE(B14_limits_are_granted_as_asked) {
  ptl_ni_limits_t wish;
  WELL(PtlInit());
  WELL(PtlNIInit(PTL_IFACE_DEFAULT, ME_PHYSICAL, PTL_PID_ANY, NULL, &limits, &ni));
  CHECK(limits.max_entries >= 1024 && limits.max_pt_index >= 63 && limits.max_waw_ordered_size >= 64);
  CHECK(limits.max_war_ordered_size >= 8 && limits.max_atomic_size >= 32 && limits.max_fetch_atomic_size >= 32);
  WELL(PtlNIFini(ni));
  wish = limits;
  wish.max_entries = 4;
  wish.max_unexpected_headers = 1;
  wish.max_mds = 3;
  wish.max_cts = 2;
  wish.max_eqs = 2;
  wish.max_pt_index = 3;
  wish.max_iovecs = 2;
  wish.max_list_size = 2;
  wish.max_triggered_ops = 2;
  wish.max_msg_size = 32768;
  wish.features = 0;
  wish.max_atomic_size = 48;
  wish.max_fetch_atomic_size = 40;
  wish.max_waw_ordered_size = 64;
  wish.max_war_ordered_size = 8;
  wish.max_volatile_size = 24;
  WELL(PtlNIInit(PTL_IFACE_DEFAULT, ME_PHYSICAL, PTL_PID_ANY, &wish, &limits, &ni));
  IS(4, limits.max_entries);
  IS(1, limits.max_unexpected_headers);
  IS(3, limits.max_mds);
  IS(2, limits.max_cts);
  IS(2, limits.max_eqs);
  IS(3, limits.max_pt_index);
  IS(2, limits.max_iovecs);
  IS(2, limits.max_list_size);
  IS(2, limits.max_triggered_ops);
  IS(32768, limits.max_msg_size);
  IS(0, limits.features);
  IS(48, limits.max_atomic_size);
  IS(40, limits.max_fetch_atomic_size);
  IS(64, limits.max_waw_ordered_size);
  IS(8, limits.max_war_ordered_size);
  IS(24, limits.max_volatile_size);
  WELL(PtlGetId(ni, &self));
  everybody.phys.nid = PTL_NID_ANY;
  everybody.phys.pid = PTL_PID_ANY;
  ptl_handle_eq_t eq;
  WELL(PtlEQAlloc(ni, 64, &at_target));
  WELL(PtlEQAlloc(ni, 64, &at_initiator));
  IS(PTL_NO_SPACE, PtlEQAlloc(ni, 64, &eq));
  ptl_handle_ct_t ct = counter(), other = counter();
  IS(PTL_NO_SPACE, PtlCTAlloc(ni, &other));
  ptl_handle_md_t md = bind_memory(from, sizeof(from), 0, PTL_CT_NONE);
  ptl_md_t description = {from, 8, 0, PTL_EQ_NONE, PTL_CT_NONE};
  bind_memory(from, 8, 0, PTL_CT_NONE);
  bind_memory(from, 8, 0, PTL_CT_NONE);
  ptl_handle_md_t none;
  IS(PTL_NO_SPACE, PtlMDBind(ni, &description, &none));
  IS(PTL_ARG_INVALID, PtlPut(md, 0, 32769, PTL_NO_ACK_REQ, self, 0, 0, 0, NULL, 0));
  for (int i = 0; i < 2; i++) WELL(PtlTriggeredPut(md, 0, 8, PTL_NO_ACK_REQ, self, 0, 0, 0, NULL, 0, ct, 100));
  IS(PTL_NO_SPACE, PtlTriggeredPut(md, 0, 8, PTL_NO_ACK_REQ, self, 0, 0, 0, NULL, 0, ct, 100));
  WELL(PtlPTAlloc(ni, 0, at_target, 3, &portal));
  ptl_handle_me_t handle;
  ptl_me_t me = entry(to, 8, PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE);
  append(&me, PTL_PRIORITY_LIST, NULL);
  append(&me, PTL_PRIORITY_LIST, NULL);
  IS(PTL_NO_SPACE, PtlMEAppend(ni, portal, &me, PTL_PRIORITY_LIST, NULL, &handle));
  WELL(PtlPTAlloc(ni, 0, at_target, 2, &portal)); /* of entries in all there may be two more, by lists of two */
  append(&me, PTL_PRIORITY_LIST, NULL);
  append(&me, PTL_OVERFLOW_LIST, NULL);
  IS(PTL_NO_SPACE, PtlMEAppend(ni, portal, &me, PTL_PRIORITY_LIST, NULL, &handle));
  ptl_iovec_t pieces[3] = {{to, 8}, {to, 8}, {to, 8}};
  me = entry(pieces, 3, PTL_ME_OP_PUT | PTL_IOVEC);
  IS(PTL_ARG_INVALID, PtlMEAppend(ni, portal, &me, PTL_OVERFLOW_LIST, NULL, &handle));
}

RULE(B14_boundless_wishes_are_cut_and_not_refused) {
  ptl_ni_limits_t wish;
  memset(&wish, 0x7f, sizeof(wish));
  wish.features = 7;
  open_interface(LE_LOGICAL, &wish);
  CHECK(limits.max_entries > 0 && limits.max_mds > 0 && limits.max_pt_index >= 63 && limits.max_msg_size > 0);
}

RULE(B14_what_is_left_at_the_end_is_freed) {
  begin(ME_PHYSICAL);
  ptl_me_t me = entry(to, 64, PTL_ME_OP_PUT);
  append(&me, PTL_PRIORITY_LIST, NULL);
  ptl_handle_md_t md = bind_memory(from, sizeof(from), 0, PTL_CT_NONE);
  ptl_handle_ct_t ct = counter();
  WELL(PtlTriggeredPut(md, 0, 8, PTL_NO_ACK_REQ, self, portal, 0, 0, NULL, 0, ct, 1));
  put(md, sizeof(from), PTL_ACK_REQ, 0, 0); /* under way while all is closed */
  WELL(PtlNIFini(ni));
  IS(PTL_ARG_INVALID, PtlMDRelease(md));
  PtlFini();
}
