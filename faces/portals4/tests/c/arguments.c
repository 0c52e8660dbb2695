/* Section A: what each call refuses. */
#include <sys/wait.h>
#include <unistd.h>

#include "rules.h"

static char buffer[64];

/* Every call but those that need nothing: PtlInit, PtlFini, PtlAbort, PtlHandleIsEqual. */
static void refuse_all_before_init(void) {
  ptl_handle_any_t out;
  ptl_event_t event;
  ptl_ct_event_t count, one = {1, 0};
  ptl_process_t process = {.rank = 0};
  ptl_size_t size = 1;
  ptl_sr_value_t value;
  ptl_pt_index_t index;
  ptl_uid_t uid;
  unsigned which;
  ptl_md_t md = {buffer, 8, 0, PTL_EQ_NONE, PTL_CT_NONE};
  ptl_le_t le = {buffer, 8, PTL_CT_NONE, PTL_UID_ANY, PUT_GET};
  ptl_me_t me = entry(buffer, 8, PUT_GET);
  ptl_handle_any_t none = 0;
#define LATER 0, 1
#define NOT_YET(call) IS(PTL_NO_INIT, call)
  NOT_YET(PtlNIInit(PTL_IFACE_DEFAULT, ME_PHYSICAL, PTL_PID_ANY, NULL, NULL, &out));
  NOT_YET(PtlNIFini(0));
  NOT_YET(PtlNIStatus(0, PTL_SR_DROP_COUNT, &value));
  NOT_YET(PtlNIHandle(0, &out));
  NOT_YET(PtlSetMap(0, 1, &process));
  NOT_YET(PtlGetMap(0, 1, &process, &size));
  NOT_YET(PtlGetUid(0, &uid));
  NOT_YET(PtlGetId(0, &process));
  NOT_YET(PtlGetPhysId(0, &process));
  NOT_YET(PtlPTAlloc(0, 0, PTL_EQ_NONE, PTL_PT_ANY, &index));
  NOT_YET(PtlPTFree(0, 0));
  NOT_YET(PtlPTDisable(0, 0));
  NOT_YET(PtlPTEnable(0, 0));
  NOT_YET(PtlMDBind(0, &md, &out));
  NOT_YET(PtlMDRelease(0));
  NOT_YET(PtlLEAppend(0, 0, &le, PTL_PRIORITY_LIST, NULL, &out));
  NOT_YET(PtlLEUnlink(0));
  NOT_YET(PtlLESearch(0, 0, &le, PTL_SEARCH_ONLY, NULL));
  NOT_YET(PtlMEAppend(0, 0, &me, PTL_PRIORITY_LIST, NULL, &out));
  NOT_YET(PtlMEUnlink(0));
  NOT_YET(PtlMESearch(0, 0, &me, PTL_SEARCH_ONLY, NULL));
  NOT_YET(PtlCTAlloc(0, &out));
  NOT_YET(PtlCTFree(0));
  NOT_YET(PtlCTCancelTriggered(0));
  NOT_YET(PtlCTGet(0, &count));
  NOT_YET(PtlCTWait(0, 0, &count));
  NOT_YET(PtlCTPoll(&none, &size, 1, 0, &count, &which));
  NOT_YET(PtlCTSet(0, one));
  NOT_YET(PtlCTInc(0, one));
  NOT_YET(PtlPut(0, 0, 0, PTL_NO_ACK_REQ, process, 0, 0, 0, NULL, 0));
  NOT_YET(PtlGet(0, 0, 0, process, 0, 0, 0, NULL));
  NOT_YET(PtlAtomic(0, 0, 8, PTL_NO_ACK_REQ, process, 0, 0, 0, NULL, 0, PTL_SUM, PTL_INT64_T));
  NOT_YET(PtlFetchAtomic(0, 0, 0, 0, 8, process, 0, 0, 0, NULL, 0, PTL_SUM, PTL_INT64_T));
  NOT_YET(PtlSwap(0, 0, 0, 0, 8, process, 0, 0, 0, NULL, 0, buffer, PTL_CSWAP, PTL_INT64_T));
  NOT_YET(PtlAtomicSync());
  NOT_YET(PtlTriggeredPut(0, 0, 0, PTL_NO_ACK_REQ, process, 0, 0, 0, NULL, 0, LATER));
  NOT_YET(PtlTriggeredGet(0, 0, 0, process, 0, 0, 0, NULL, LATER));
  NOT_YET(PtlTriggeredAtomic(0, 0, 8, PTL_NO_ACK_REQ, process, 0, 0, 0, NULL, 0, PTL_SUM, PTL_INT64_T, LATER));
  NOT_YET(PtlTriggeredFetchAtomic(0, 0, 0, 0, 8, process, 0, 0, 0, NULL, 0, PTL_SUM, PTL_INT64_T, LATER));
  NOT_YET(PtlTriggeredSwap(0, 0, 0, 0, 8, process, 0, 0, 0, NULL, 0, buffer, PTL_CSWAP, PTL_INT64_T, LATER));
  NOT_YET(PtlTriggeredCTInc(0, one, LATER));
  NOT_YET(PtlTriggeredCTSet(0, one, LATER));
  NOT_YET(PtlTriggeredMEAppend(0, 0, &me, PTL_PRIORITY_LIST, NULL, &out, LATER));
  NOT_YET(PtlTriggeredMEUnlink(0, LATER));
  NOT_YET(PtlEQAlloc(0, 8, &out));
  NOT_YET(PtlEQFree(0));
  NOT_YET(PtlEQGet(0, &event));
  NOT_YET(PtlEQWait(0, &event));
  NOT_YET(PtlEQPoll(&none, 1, 0, &event, &which));
  NOT_YET(PtlStartBundle(0));
  NOT_YET(PtlEndBundle(0));
  CHECK(PtlHandleIsEqual(5, 5) && !PtlHandleIsEqual(5, 6));
}

RULE(A4_nothing_works_before_init_nor_after_the_last_fini) {
  refuse_all_before_init();
  PtlFini(); /* undoes nothing */
  begin(ME_PHYSICAL);
  PtlFini();
  refuse_all_before_init();
}

/* The reference cannot do that. */
RULE(A4_after_the_last_fini_all_may_begin_again) {
  for (int round = 0; round < 3; round++) {
    begin(ME_PHYSICAL);
    ptl_me_t me = entry(buffer, 8, PUT_GET);
    append(&me, PTL_PRIORITY_LIST, NULL);
    put(bind_memory(buffer + 32, 8, 0, PTL_CT_NONE), 8, PTL_ACK_REQ, 0, 0);
    acknowledged(PTL_NI_OK);
    PtlFini();
  }
}

RULE(A4_a_pid_is_given_as_asked_or_refused) {
  ptl_handle_ni_t handle, other;
  ptl_process_t process;
  ptl_ni_limits_t first, again, wish;
  ptl_pid_t wanted = 40000 + (ptl_pid_t)getpid() % 5000;
  int ends[2], status;
  CHECK(pipe(ends) == 0);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) { /* another process does not get it */
    IS(sizeof(wanted), read(ends[0], &wanted, sizeof(wanted)));
    WELL(PtlInit());
    IS(PTL_PID_IN_USE, PtlNIInit(PTL_IFACE_DEFAULT, ME_PHYSICAL, wanted, NULL, NULL, &handle));
    WELL(PtlNIInit(PTL_IFACE_DEFAULT, ME_PHYSICAL, PTL_PID_ANY, NULL, NULL, &handle));
    WELL(PtlGetPhysId(handle, &process));
    CHECK(process.phys.pid != wanted && process.phys.pid != 0);
    exit(0);
  }
  WELL(PtlInit());
  IS(PTL_ARG_INVALID, PtlNIInit(PTL_IFACE_DEFAULT, ME_PHYSICAL, 0, NULL, NULL, &handle));
  IS(PTL_ARG_INVALID, PtlNIInit(PTL_IFACE_DEFAULT, ME_PHYSICAL, 65536, NULL, NULL, &handle));
  while ((status = PtlNIInit(PTL_IFACE_DEFAULT, ME_PHYSICAL, wanted, NULL, &first, &handle)) == PTL_PID_IN_USE) wanted++;
  WELL(status);
  WELL(PtlGetPhysId(handle, &process));
  IS(wanted, process.phys.pid);
  IS(PTL_PID_IN_USE, PtlNIInit(PTL_IFACE_DEFAULT, LE_PHYSICAL, wanted + 1, NULL, NULL, &other));
  WELL(PtlNIInit(PTL_IFACE_DEFAULT, LE_PHYSICAL, wanted, NULL, NULL, &other));
  wish = first;
  wish.max_mds = 1;
  WELL(PtlNIInit(PTL_IFACE_DEFAULT, ME_PHYSICAL, wanted + 1, &wish, &again, &other)); /* opened again: neither is looked at */
  CHECK(other == handle && again.max_mds == first.max_mds);
  IS(sizeof(wanted), write(ends[1], &wanted, sizeof(wanted)));
  IS(child, waitpid(child, &status, 0));
  IS(0, status);
}

RULE(A4_init_is_counted) {
  ptl_handle_ni_t handle;
  WELL(PtlInit());
  WELL(PtlInit());
  PtlFini();
  WELL(PtlNIInit(PTL_IFACE_DEFAULT, ME_PHYSICAL, PTL_PID_ANY, NULL, NULL, &handle));
  WELL(PtlNIFini(handle));
  PtlFini();
  IS(PTL_NO_INIT, PtlNIInit(PTL_IFACE_DEFAULT, ME_PHYSICAL, PTL_PID_ANY, NULL, NULL, &handle));
}

RULE(A4_an_interface_has_one_of_each_pair_of_options) {
  ptl_handle_ni_t handle;
  WELL(PtlInit());
  for (unsigned options = 0; options < 0x20; options++) {
    int is_fine = options == ME_PHYSICAL || options == ME_LOGICAL || options == LE_PHYSICAL || options == LE_LOGICAL;
    if (!is_fine) IS(PTL_ARG_INVALID, PtlNIInit(PTL_IFACE_DEFAULT, options, PTL_PID_ANY, NULL, NULL, &handle));
  }
  IS(PTL_ARG_INVALID, PtlNIInit(PTL_IFACE_DEFAULT, ME_PHYSICAL, PTL_PID_ANY, NULL, NULL, NULL));
  IS(PTL_ARG_INVALID, PtlNIInit(12345, ME_PHYSICAL, PTL_PID_ANY, NULL, NULL, &handle));
}

RULE(A4_four_interfaces_share_an_address_and_opening_again_counts) {
  unsigned all[4] = {ME_PHYSICAL, ME_LOGICAL, LE_PHYSICAL, LE_LOGICAL};
  ptl_handle_ni_t handles[4], again;
  ptl_process_t first, other;
  ptl_ni_limits_t one, two;
  WELL(PtlInit());
  for (int i = 0; i < 4; i++) WELL(PtlNIInit(PTL_IFACE_DEFAULT, all[i], PTL_PID_ANY, NULL, &one, &handles[i]));
  WELL(PtlGetPhysId(handles[0], &first));
  CHECK(first.phys.pid != 0);
  for (int i = 1; i < 4; i++) {
    WELL(PtlGetPhysId(handles[i], &other));
    CHECK(other.phys.nid == first.phys.nid && other.phys.pid == first.phys.pid && handles[i] != handles[0]);
  }
  WELL(PtlNIInit(PTL_IFACE_DEFAULT, all[3], PTL_PID_ANY, NULL, &two, &again));
  CHECK(again == handles[3] && memcmp(&one, &two, sizeof(one)) == 0);
  WELL(PtlNIFini(again));
  WELL(PtlGetPhysId(handles[3], &other));
  WELL(PtlNIFini(handles[3]));
  IS(PTL_ARG_INVALID, PtlGetPhysId(handles[3], &other));
}

RULE(A4_status_handle_and_identity_want_an_interface_and_a_place) {
  ptl_sr_value_t value;
  ptl_handle_ni_t of;
  ptl_process_t process;
  ptl_uid_t uid;
  begin(ME_PHYSICAL);
  IS(PTL_ARG_INVALID, PtlNIStatus(ni, PTL_SR_LAST, &value));
  IS(PTL_ARG_INVALID, PtlNIStatus(ni, PTL_SR_DROP_COUNT, NULL));
  IS(PTL_ARG_INVALID, PtlNIStatus(at_target, PTL_SR_DROP_COUNT, &value));
  WELL(PtlNIHandle(at_target, &of));
  IS(ni, of);
  WELL(PtlNIHandle(ni, &of));
  IS(ni, of);
  ptl_handle_ct_t ct = counter();
  ptl_handle_md_t md = bind_memory(buffer, 8, 0, PTL_CT_NONE);
  ptl_me_t me = entry(buffer, 8, PUT_GET);
  ptl_handle_any_t all[3] = {ct, md, append(&me, PTL_PRIORITY_LIST, NULL)};
  for (int i = 0; i < 3; i++) {
    of = PTL_INVALID_HANDLE;
    WELL(PtlNIHandle(all[i], &of));
    IS(ni, of);
  }
  IS(PTL_ARG_INVALID, PtlNIHandle(PTL_INVALID_HANDLE, &of));
  IS(PTL_ARG_INVALID, PtlNIHandle(0, &of));
  IS(PTL_ARG_INVALID, PtlNIHandle(at_target, NULL));
  IS(PTL_ARG_INVALID, PtlGetId(ni, NULL));
  IS(PTL_ARG_INVALID, PtlGetPhysId(PTL_INVALID_HANDLE, &process));
  IS(PTL_ARG_INVALID, PtlGetUid(ni, NULL));
  WELL(PtlGetUid(ni, &uid));
  IS(PTL_ARG_INVALID, PtlNIFini(at_target));
}

RULE(A4_a_map_is_for_logical_interfaces_and_has_this_process_in_it) {
  ptl_handle_ni_t physical, logical;
  ptl_process_t own, other, map[4];
  ptl_size_t count = 99;
  WELL(PtlInit());
  WELL(PtlNIInit(PTL_IFACE_DEFAULT, ME_PHYSICAL, PTL_PID_ANY, NULL, NULL, &physical));
  WELL(PtlNIInit(PTL_IFACE_DEFAULT, ME_LOGICAL, PTL_PID_ANY, NULL, NULL, &logical));
  WELL(PtlGetPhysId(logical, &own));
  other = own;
  other.phys.pid = own.phys.pid ^ 1;
  IS(PTL_ARG_INVALID, PtlSetMap(physical, 1, &own));
  IS(PTL_ARG_INVALID, PtlGetMap(physical, 4, map, &count));
  IS(PTL_NO_SPACE, PtlGetMap(logical, 4, map, &count));
  IS(PTL_ARG_INVALID, PtlGetId(logical, &self));
  IS(PTL_ARG_INVALID, PtlSetMap(logical, UINT64_MAX / 4, &own));
  IS(PTL_ARG_INVALID, PtlSetMap(logical, 1, NULL));
  IS(PTL_ARG_INVALID, PtlSetMap(logical, 0, &own));
  IS(PTL_ARG_INVALID, PtlSetMap(logical, 1, &other));
  map[0] = other;
  map[1] = own;
  WELL(PtlSetMap(logical, 2, map));
  WELL(PtlGetId(logical, &self));
  IS(1, self.rank);
  IS(PTL_IGNORED, PtlSetMap(logical, 1, &own));
  WELL(PtlSetMap(logical, 2, map)); /* the same again is no other */
  memset(map, 0, sizeof(map));
  WELL(PtlGetMap(logical, 4, map, &count));
  CHECK(count == 2 && map[1].phys.pid == own.phys.pid && map[1].phys.nid == own.phys.nid);
  memset(map, 0, sizeof(map));
  WELL(PtlGetMap(logical, 1, map, &count));
  CHECK(count == 2 && map[0].phys.pid == other.phys.pid && map[1].phys.pid == 0);
  WELL(PtlGetMap(logical, 0, NULL, &count));
  IS(PTL_ARG_INVALID, PtlGetMap(logical, 4, map, NULL));
}

RULE(A4_portals_are_given_as_asked) {
  ptl_pt_index_t index, other;
  begin(ME_PHYSICAL);
  WELL(PtlPTAlloc(ni, 0, PTL_EQ_NONE, 12, &index));
  IS(12, index);
  IS(PTL_PT_IN_USE, PtlPTAlloc(ni, 0, PTL_EQ_NONE, 12, &index));
  WELL(PtlPTAlloc(ni, 0, PTL_EQ_NONE, (ptl_pt_index_t)limits.max_pt_index, &index));
  IS(PTL_ARG_INVALID, PtlPTAlloc(ni, 0, PTL_EQ_NONE, (ptl_pt_index_t)limits.max_pt_index + 1, &other));
  IS(PTL_PT_EQ_NEEDED, PtlPTAlloc(ni, PTL_PT_FLOWCTRL, PTL_EQ_NONE, 5, &index));
  IS(PTL_ARG_INVALID, PtlPTAlloc(ni, 0x20, PTL_EQ_NONE, 5, &index));
  IS(PTL_ARG_INVALID, PtlPTAlloc(ni, 0, 0x12345, 5, &index));
  IS(PTL_ARG_INVALID, PtlPTAlloc(ni, 0, PTL_EQ_NONE, 5, NULL));
  IS(PTL_ARG_INVALID, PtlPTAlloc(PTL_INVALID_HANDLE, 0, PTL_EQ_NONE, 5, &index));
  for (int i = 0; i < limits.max_pt_index + 1 - 3; i++) WELL(PtlPTAlloc(ni, 0, PTL_EQ_NONE, PTL_PT_ANY, &index));
  IS(PTL_PT_FULL, PtlPTAlloc(ni, 0, PTL_EQ_NONE, PTL_PT_ANY, &index));
  WELL(PtlPTFree(ni, 12));
  IS(PTL_ARG_INVALID, PtlPTFree(ni, 12));
  IS(PTL_ARG_INVALID, PtlPTEnable(ni, 12));
  IS(PTL_ARG_INVALID, PtlPTDisable(ni, 100000));
  ptl_me_t me = entry(buffer, 8, PUT_GET);
  ptl_handle_me_t handle = append(&me, PTL_PRIORITY_LIST, NULL);
  IS(PTL_PT_IN_USE, PtlPTFree(ni, portal));
  WELL(PtlMEUnlink(handle));
  WELL(PtlPTFree(ni, portal));
}

RULE(A4_a_portal_may_begin_disabled_and_hints_bind_nobody) {
  ptl_pt_index_t index;
  begin(ME_PHYSICAL);
  ptl_handle_md_t md = bind_memory(buffer + 32, 8, 0, PTL_CT_NONE);
  unsigned hints = PTL_PT_ONLY_USE_ONCE | PTL_PT_ONLY_TRUNCATE | PTL_PT_MATCH_UNORDERED;
  WELL(PtlPTAlloc(ni, PTL_PT_ALLOC_DISABLED | hints, at_target, 9, &index));
  portal = index;
  ptl_me_t me = entry(buffer, 8, PUT_GET | PTL_ME_NO_TRUNCATE | PTL_ME_IS_ACCESSIBLE | PTL_ME_MAY_ALIGN); /* neither used once nor cut */
  append(&me, PTL_PRIORITY_LIST, NULL);
  put(md, 8, PTL_ACK_REQ, 0, 0);
  acknowledged(PTL_NI_PT_DISABLED);
  WELL(PtlPTEnable(ni, portal));
  for (int i = 0; i < 2; i++) {
    put(md, 8, PTL_ACK_REQ, 0, 0);
    acknowledged(PTL_NI_OK);
    next(at_target, PTL_EVENT_PUT);
  }
}

RULE(A4_things_of_another_interface_are_refused) {
  ptl_handle_ni_t other;
  ptl_handle_eq_t eq;
  ptl_handle_ct_t ct;
  ptl_handle_md_t handle;
  ptl_pt_index_t index;
  begin(ME_PHYSICAL);
  WELL(PtlNIInit(PTL_IFACE_DEFAULT, LE_PHYSICAL, PTL_PID_ANY, NULL, NULL, &other));
  WELL(PtlEQAlloc(other, 8, &eq));
  WELL(PtlCTAlloc(other, &ct));
  IS(PTL_ARG_INVALID, PtlPTAlloc(ni, 0, eq, PTL_PT_ANY, &index));
  ptl_md_t md = {buffer, 8, 0, eq, PTL_CT_NONE};
  IS(PTL_ARG_INVALID, PtlMDBind(ni, &md, &handle));
  md.eq_handle = PTL_EQ_NONE;
  md.ct_handle = ct;
  IS(PTL_ARG_INVALID, PtlMDBind(ni, &md, &handle));
  ptl_me_t me = entry(buffer, 8, PUT_GET);
  me.ct_handle = ct;
  IS(PTL_ARG_INVALID, PtlMEAppend(ni, portal, &me, PTL_PRIORITY_LIST, NULL, &handle));
}

RULE(A4_descriptors_want_known_options_and_live_handles) {
  ptl_handle_md_t handle;
  begin(ME_PHYSICAL);
  ptl_md_t md = {buffer, 8, 0, at_initiator, PTL_CT_NONE};
  WELL(PtlMDBind(ni, &md, &handle));
  WELL(PtlMDRelease(handle));
  IS(PTL_ARG_INVALID, PtlMDRelease(handle));
  IS(PTL_ARG_INVALID, PtlMDRelease(ni));
  IS(PTL_ARG_INVALID, PtlPut(handle, 0, 1, PTL_NO_ACK_REQ, self, portal, 0, 0, NULL, 0));
  IS(PTL_ARG_INVALID, PtlMDBind(ni, NULL, &handle));
  IS(PTL_ARG_INVALID, PtlMDBind(ni, &md, NULL));
  IS(PTL_ARG_INVALID, PtlMDBind(0, &md, &handle));
  md.options = 0x8000;
  IS(PTL_ARG_INVALID, PtlMDBind(ni, &md, &handle));
  md.options = 0;
  md.eq_handle = 77;
  IS(PTL_ARG_INVALID, PtlMDBind(ni, &md, &handle));
  md.eq_handle = PTL_EQ_NONE;
  md.ct_handle = 77;
  IS(PTL_ARG_INVALID, PtlMDBind(ni, &md, &handle));
}

RULE(A4_entries_are_for_their_kind_of_interface) {
  ptl_handle_ni_t other;
  ptl_handle_le_t handle;
  ptl_pt_index_t index;
  begin(ME_PHYSICAL);
  WELL(PtlNIInit(PTL_IFACE_DEFAULT, LE_PHYSICAL, PTL_PID_ANY, NULL, NULL, &other));
  WELL(PtlPTAlloc(other, 0, PTL_EQ_NONE, PTL_PT_ANY, &index));
  ptl_le_t le = {buffer, 8, PTL_CT_NONE, PTL_UID_ANY, PUT_GET};
  ptl_me_t me = entry(buffer, 8, PUT_GET);
  IS(PTL_ARG_INVALID, PtlLEAppend(ni, portal, &le, PTL_PRIORITY_LIST, NULL, &handle));
  IS(PTL_ARG_INVALID, PtlMEAppend(other, index, &me, PTL_PRIORITY_LIST, NULL, &handle));
  IS(PTL_ARG_INVALID, PtlLESearch(ni, portal, &le, PTL_SEARCH_ONLY, NULL));
  IS(PTL_ARG_INVALID, PtlMESearch(other, index, &me, PTL_SEARCH_ONLY, NULL));
  WELL(PtlLEAppend(other, index, &le, PTL_PRIORITY_LIST, NULL, &handle));
  IS(PTL_ARG_INVALID, PtlMEUnlink(handle));
  WELL(PtlLEUnlink(handle));
  IS(PTL_ARG_INVALID, PtlLEUnlink(handle));
  IS(PTL_ARG_INVALID, PtlLEAppend(other, index + 1, &le, PTL_PRIORITY_LIST, NULL, &handle));
  IS(PTL_ARG_INVALID, PtlLEAppend(other, index, &le, 2, NULL, &handle));
  IS(PTL_ARG_INVALID, PtlLEAppend(other, index, NULL, PTL_PRIORITY_LIST, NULL, &handle));
  IS(PTL_ARG_INVALID, PtlLEAppend(other, index, &le, PTL_PRIORITY_LIST, NULL, NULL));
  IS(PTL_ARG_INVALID, PtlLESearch(other, index, &le, 2, NULL));
  IS(PTL_ARG_INVALID, PtlLESearch(other, index, NULL, PTL_SEARCH_ONLY, NULL));
  IS(PTL_ARG_INVALID, PtlLESearch(other, index + 1, &le, PTL_SEARCH_ONLY, NULL));
  le.options |= PTL_ME_MANAGE_LOCAL; /* match entries alone have that */
  IS(PTL_ARG_INVALID, PtlLEAppend(other, index, &le, PTL_PRIORITY_LIST, NULL, &handle));
  IS(PTL_ARG_INVALID, PtlLESearch(other, index, &le, PTL_SEARCH_ONLY, NULL));
}

RULE(A4_entries_want_a_portal_a_list_and_known_options) {
  ptl_handle_me_t handle;
  begin(ME_PHYSICAL);
  ptl_me_t me = entry(buffer, 8, PUT_GET);
  IS(PTL_ARG_INVALID, PtlMEAppend(ni, 9, &me, PTL_PRIORITY_LIST, NULL, &handle));
  IS(PTL_ARG_INVALID, PtlMEAppend(ni, 100000, &me, PTL_PRIORITY_LIST, NULL, &handle));
  IS(PTL_ARG_INVALID, PtlMEAppend(ni, portal, &me, 2, NULL, &handle));
  IS(PTL_ARG_INVALID, PtlMEAppend(ni, portal, NULL, PTL_PRIORITY_LIST, NULL, &handle));
  IS(PTL_ARG_INVALID, PtlMEAppend(ni, portal, &me, PTL_PRIORITY_LIST, NULL, NULL));
  IS(PTL_ARG_INVALID, PtlMESearch(ni, portal, &me, 2, NULL));
  IS(PTL_ARG_INVALID, PtlMESearch(ni, portal, NULL, PTL_SEARCH_ONLY, NULL));
  IS(PTL_ARG_INVALID, PtlMESearch(ni, 9, &me, PTL_SEARCH_ONLY, NULL));
  me.options = 0x80000;
  IS(PTL_ARG_INVALID, PtlMEAppend(ni, portal, &me, PTL_PRIORITY_LIST, NULL, &handle));
  me.options = PUT_GET;
  me.ct_handle = 99;
  IS(PTL_ARG_INVALID, PtlMEAppend(ni, portal, &me, PTL_PRIORITY_LIST, NULL, &handle));
  me.options |= PTL_ME_EVENT_CT_COMM;
  me.ct_handle = PTL_INVALID_HANDLE;
  IS(PTL_ARG_INVALID, PtlMEAppend(ni, portal, &me, PTL_PRIORITY_LIST, NULL, &handle));
  IS(PTL_ARG_INVALID, PtlMEUnlink(PTL_INVALID_HANDLE));
  IS(PTL_ARG_INVALID, PtlMEUnlink(ni));
}

RULE(A4_counters_want_live_handles_and_one_part_at_a_time) {
  ptl_ct_event_t event, both = {1, 1}, one = {1, 0};
  ptl_size_t test = 1;
  unsigned which;
  begin(ME_PHYSICAL);
  ptl_handle_ct_t ct = counter();
  IS(PTL_ARG_INVALID, PtlCTInc(ct, both));
  WELL(PtlCTInc(ct, one));
  WELL(PtlCTSet(ct, both));
  WELL(PtlCTGet(ct, &event));
  CHECK(event.success == 1 && event.failure == 1);
  IS(PTL_ARG_INVALID, PtlCTGet(ct, NULL));
  IS(PTL_ARG_INVALID, PtlCTWait(ct, 1, NULL));
  IS(PTL_ARG_INVALID, PtlCTPoll(NULL, &test, 1, 0, &event, &which));
  IS(PTL_ARG_INVALID, PtlCTPoll(&ct, NULL, 1, 0, &event, &which));
  IS(PTL_ARG_INVALID, PtlCTPoll(&ct, &test, 0, 0, &event, &which));
  IS(PTL_ARG_INVALID, PtlCTPoll(&ct, &test, 1, 0, NULL, &which));
  IS(PTL_ARG_INVALID, PtlCTPoll(&ct, &test, 1, 0, &event, NULL));
  IS(PTL_ARG_INVALID, PtlCTGet(PTL_CT_NONE, &event));
  IS(PTL_ARG_INVALID, PtlCTAlloc(ni, NULL));
  IS(PTL_ARG_INVALID, PtlCTAlloc(0, &ct));
  WELL(PtlCTFree(ct));
  IS(PTL_ARG_INVALID, PtlCTFree(ct));
  IS(PTL_ARG_INVALID, PtlCTGet(ct, &event));
  IS(PTL_ARG_INVALID, PtlCTSet(ct, one));
  IS(PTL_ARG_INVALID, PtlCTCancelTriggered(ct));
}

RULE(A4_queues_want_live_handles_and_a_place) {
  ptl_event_t event;
  ptl_handle_eq_t eq = at_target;
  unsigned which;
  begin(ME_PHYSICAL);
  eq = at_target;
  IS(PTL_EQ_EMPTY, PtlEQGet(eq, &event));
  IS(PTL_EQ_EMPTY, PtlEQPoll(&eq, 1, 0, &event, &which));
  IS(PTL_EQ_EMPTY, PtlEQPoll(&eq, 1, 20, &event, &which));
  IS(PTL_ARG_INVALID, PtlEQGet(eq, NULL));
  IS(PTL_ARG_INVALID, PtlEQGet(PTL_EQ_NONE, &event));
  IS(PTL_ARG_INVALID, PtlEQPoll(NULL, 1, 0, &event, &which));
  IS(PTL_ARG_INVALID, PtlEQPoll(&eq, 0, 0, &event, &which));
  IS(PTL_ARG_INVALID, PtlEQPoll(&eq, 1, 0, NULL, &which));
  IS(PTL_ARG_INVALID, PtlEQPoll(&eq, 1, 0, &event, NULL));
  IS(PTL_ARG_INVALID, PtlEQAlloc(ni, 8, NULL));
  IS(PTL_ARG_INVALID, PtlEQAlloc(99, 8, &eq));
  WELL(PtlEQFree(at_initiator));
  IS(PTL_ARG_INVALID, PtlEQFree(at_initiator));
  IS(PTL_ARG_INVALID, PtlEQGet(at_initiator, &event));
}

RULE(B7_atomic_operations_want_what_their_acknowledgements_need) {
  begin(ME_PHYSICAL);
  ptl_md_t bare = {buffer, 16, 0, PTL_EQ_NONE, PTL_CT_NONE};
  ptl_handle_md_t silent, lossy = bind_memory(buffer, 16, PTL_MD_UNRELIABLE | PTL_MD_UNORDERED, PTL_CT_NONE);
  WELL(PtlMDBind(ni, &bare, &silent));
#define SUMS(md, ack) PtlAtomic(md, 0, 8, ack, self, portal, 0, 0, NULL, 0, PTL_SUM, PTL_INT64_T)
  IS(PTL_ARG_INVALID, SUMS(silent, PTL_ACK_REQ));
  IS(PTL_ARG_INVALID, SUMS(silent, PTL_CT_ACK_REQ));
  IS(PTL_ARG_INVALID, SUMS(silent, 4));
  IS(PTL_ARG_INVALID, SUMS(lossy, PTL_ACK_REQ));
  WELL(SUMS(silent, PTL_OC_ACK_REQ)); /* needs neither */
  WELL(SUMS(lossy, PTL_NO_ACK_REQ));
  next(at_initiator, PTL_EVENT_SEND);
  nothing(at_initiator);
}

RULE(B8_a_rank_that_nobody_has_is_refused) {
  begin(ME_LOGICAL);
  ptl_handle_md_t md = bind_memory(buffer, 16, 0, PTL_CT_NONE);
  ptl_process_t nobody = {.rank = 1};
  IS(PTL_ARG_INVALID, PtlPut(md, 0, 8, PTL_NO_ACK_REQ, nobody, portal, 0, 0, NULL, 0));
  nobody.rank = PTL_RANK_ANY;
  IS(PTL_ARG_INVALID, PtlGet(md, 0, 8, nobody, portal, 0, 0, NULL));
  ptl_handle_ct_t ct = counter();
  IS(PTL_ARG_INVALID, PtlTriggeredGet(md, 0, 8, nobody, portal, 0, 0, NULL, ct, 1));
}

RULE(B8_movers_refuse_what_makes_no_sense) {
  begin(ME_PHYSICAL);
  ptl_md_t bare = {buffer, 16, 0, PTL_EQ_NONE, PTL_CT_NONE};
  ptl_handle_md_t silent, md = bind_memory(buffer, 16, 0, PTL_CT_NONE), lossy;
  WELL(PtlMDBind(ni, &bare, &silent));
  lossy = bind_memory(buffer, 16, PTL_MD_UNRELIABLE, PTL_CT_NONE);
  IS(PTL_ARG_INVALID, PtlPut(silent, 0, 8, PTL_ACK_REQ, self, portal, 0, 0, NULL, 0));
  IS(PTL_ARG_INVALID, PtlPut(md, 0, 8, PTL_CT_ACK_REQ, self, portal, 0, 0, NULL, 0));
  IS(PTL_ARG_INVALID, PtlPut(md, 0, 8, 4, self, portal, 0, 0, NULL, 0));
  IS(PTL_ARG_INVALID, PtlPut(lossy, 0, 8, PTL_ACK_REQ, self, portal, 0, 0, NULL, 0));
  IS(PTL_ARG_INVALID, PtlPut(md, 0, 17, PTL_NO_ACK_REQ, self, portal, 0, 0, NULL, 0));
  IS(PTL_ARG_INVALID, PtlPut(md, 10, 7, PTL_NO_ACK_REQ, self, portal, 0, 0, NULL, 0));
  IS(PTL_ARG_INVALID, PtlPut(md, UINT64_MAX, 8, PTL_NO_ACK_REQ, self, portal, 0, 0, NULL, 0));
  IS(PTL_ARG_INVALID, PtlGet(md, 0, 17, self, portal, 0, 0, NULL));
  IS(PTL_ARG_INVALID, PtlGet(PTL_INVALID_HANDLE, 0, 1, self, portal, 0, 0, NULL));
  IS(PTL_ARG_INVALID, PtlPut(at_initiator, 0, 1, PTL_NO_ACK_REQ, self, portal, 0, 0, NULL, 0));
  nothing(at_initiator);
}

/* The table of B.10: 'n' numbers that are whole, 'r' real ones, 'c' complex ones. */
static int is_a_pair(int op, int type) {
  static const char *of_types = "nnnnnnrnnrccrc"; /* from PTL_INT8_T on */
  static const char *allowed[] = {[PTL_MIN] = "nr", [PTL_MAX] = "nr", [PTL_SUM] = "nrc", [PTL_PROD] = "nrc",
    [PTL_LOR] = "n", [PTL_LAND] = "n", [PTL_BOR] = "n", [PTL_BAND] = "n", [PTL_LXOR] = "n", [PTL_BXOR] = "n",
    [PTL_SWAP] = "nrc", [PTL_CSWAP] = "nrc", [PTL_CSWAP_NE] = "nrc", [PTL_CSWAP_LE] = "nr", [PTL_CSWAP_LT] = "nr",
    [PTL_CSWAP_GE] = "nr", [PTL_CSWAP_GT] = "nr", [PTL_MSWAP] = "n"};
  return strchr(allowed[op], of_types[type]) != NULL;
}

RULE(B10_all_pairs_of_operation_and_type_are_taken_or_refused_by_the_table) {
  static const ptl_size_t widths[PTL_DATATYPE_LAST] = {1, 1, 2, 2, 4, 4, 4, 8, 8, 8, 8, 16, 16, 32};
  static char zeros[32];
  begin(ME_PHYSICAL);
  ptl_handle_ct_t ct = counter();
  ptl_md_t description = {buffer, 64, PTL_MD_EVENT_CT_SEND, PTL_EQ_NONE, ct};
  ptl_handle_md_t md;
  WELL(PtlMDBind(ni, &description, &md));
  ptl_size_t taken = 0;
  for (ptl_op_t op = 0; op < PTL_OP_LAST; op++)
    for (ptl_datatype_t type = 0; type < PTL_DATATYPE_LAST; type++) {
      int computes = is_a_pair(op, type) && op < PTL_SWAP ? PTL_OK : PTL_ARG_INVALID;
      int swaps = is_a_pair(op, type) && op >= PTL_SWAP ? PTL_OK : PTL_ARG_INVALID;
      IS(computes, PtlAtomic(md, 0, widths[type], PTL_NO_ACK_REQ, self, portal, 0, 0, NULL, 0, op, type));
      IS(computes, PtlFetchAtomic(md, 32, md, 0, widths[type], self, portal, 0, 0, NULL, 0, op, type));
      IS(swaps, PtlSwap(md, 32, md, 0, widths[type], self, portal, 0, 0, NULL, 0, zeros, op, type));
      taken += (computes == PTL_OK ? 2 : 0) + (swaps == PTL_OK);
    }
  IS(taken, reached(ct, taken).success);
}

RULE(B10_pairs_of_operation_and_type_that_make_no_sense_are_refused) {
  static const unsigned char of_complex[] = {PTL_FLOAT_COMPLEX, PTL_DOUBLE_COMPLEX, PTL_LONG_DOUBLE_COMPLEX};
  static const unsigned char of_float[] = {PTL_FLOAT, PTL_DOUBLE, PTL_LONG_DOUBLE};
  begin(ME_PHYSICAL);
  ptl_handle_md_t md = bind_memory(buffer, 64, 0, PTL_CT_NONE), to = bind_memory(buffer, 64, 0, PTL_CT_NONE);
#define REFUSED(op, type, len)                                                                                              \
  IS(PTL_ARG_INVALID, PtlAtomic(md, 0, len, PTL_NO_ACK_REQ, self, portal, 0, 0, NULL, 0, op, type));                        \
  IS(PTL_ARG_INVALID, PtlFetchAtomic(to, 0, md, 0, len, self, portal, 0, 0, NULL, 0, op, type))
#define NO_SWAP(op, type, len) IS(PTL_ARG_INVALID, PtlSwap(to, 0, md, 0, len, self, portal, 0, 0, NULL, 0, buffer, op, type))
  for (int i = 0; i < 3; i++) {
    REFUSED(PTL_MIN, of_complex[i], 32);
    REFUSED(PTL_MAX, of_complex[i], 32);
    for (int op = PTL_LOR; op <= PTL_BXOR; op++) {
      REFUSED(op, of_complex[i], 32);
      REFUSED(op, of_float[i], 16);
    }
    for (int op = PTL_CSWAP_LE; op <= PTL_CSWAP_GT; op++) NO_SWAP(op, of_complex[i], 32);
    NO_SWAP(PTL_MSWAP, of_complex[i], 32);
    NO_SWAP(PTL_MSWAP, of_float[i], 16);
  }
  for (int op = PTL_SWAP; op <= PTL_OP_LAST; op++) { REFUSED(op, PTL_INT32_T, 4); }
  for (int op = PTL_MIN; op <= PTL_BXOR; op++) NO_SWAP(op, PTL_INT32_T, 4);
  NO_SWAP(PTL_OP_LAST, PTL_INT32_T, 4);
  REFUSED(PTL_SUM, PTL_DATATYPE_LAST, 4);
  NO_SWAP(PTL_CSWAP, PTL_DATATYPE_LAST, 4);
  NO_SWAP(PTL_CSWAP, PTL_INT32_T, 8); /* one item only */
  IS(PTL_ARG_INVALID, PtlSwap(to, 0, md, 0, 4, self, portal, 0, 0, NULL, 0, NULL, PTL_CSWAP, PTL_INT32_T));
  static char much[8192];
  md = bind_memory(much, sizeof(much), 0, PTL_CT_NONE);
  to = bind_memory(much, sizeof(much), PTL_MD_VOLATILE, PTL_CT_NONE);
  ptl_size_t len = limits.max_atomic_size + 8;
  IS(PTL_ARG_INVALID, PtlAtomic(md, 0, len, PTL_NO_ACK_REQ, self, portal, 0, 0, NULL, 0, PTL_SUM, PTL_INT64_T));
  IS(PTL_ARG_INVALID, PtlFetchAtomic(md, 0, md, 0, len, self, portal, 0, 0, NULL, 0, PTL_SUM, PTL_INT64_T));
  IS(PTL_ARG_INVALID, PtlSwap(md, 0, md, 0, len, self, portal, 0, 0, NULL, 0, NULL, PTL_SWAP, PTL_INT64_T));
  IS(PTL_ARG_INVALID, PtlPut(to, 0, limits.max_volatile_size + 1, PTL_NO_ACK_REQ, self, portal, 0, 0, NULL, 0));
  nothing(at_initiator);
}
