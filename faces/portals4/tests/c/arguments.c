/* Section A: what each call refuses. */
#include "rules.h"

static char buffer[64];

RULE(A4_nothing_works_before_init) {
  ptl_handle_ni_t handle;
  ptl_handle_eq_t eq;
  ptl_event_t event;
  ptl_process_t process;
  ptl_uid_t uid;
  IS(PTL_NO_INIT, PtlNIInit(PTL_IFACE_DEFAULT, ME_PHYSICAL, PTL_PID_ANY, NULL, NULL, &handle));
  IS(PTL_NO_INIT, PtlNIFini(0));
  IS(PTL_NO_INIT, PtlGetId(0, &process));
  IS(PTL_NO_INIT, PtlGetUid(0, &uid));
  IS(PTL_NO_INIT, PtlEQAlloc(0, 8, &eq));
  IS(PTL_NO_INIT, PtlEQGet(0, &event));
  IS(PTL_NO_INIT, PtlCTFree(0));
  IS(PTL_NO_INIT, PtlMEUnlink(0));
  IS(PTL_NO_INIT, PtlPut(0, 0, 0, PTL_NO_ACK_REQ, process, 0, 0, 0, NULL, 0));
  IS(PTL_NO_INIT, PtlStartBundle(0));
  CHECK(PtlHandleIsEqual(5, 5) && !PtlHandleIsEqual(5, 6)); /* needs none */
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
  IS(PTL_ARG_INVALID, PtlSetMap(logical, 1, NULL));
  IS(PTL_ARG_INVALID, PtlSetMap(logical, 0, &own));
  IS(PTL_ARG_INVALID, PtlSetMap(logical, 1, &other));
  map[0] = other;
  map[1] = own;
  WELL(PtlSetMap(logical, 2, map));
  WELL(PtlGetId(logical, &self));
  IS(1, self.rank);
  IS(PTL_IGNORED, PtlSetMap(logical, 1, &own));
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
  WELL(PtlLEUnlink(handle));
  IS(PTL_ARG_INVALID, PtlLEUnlink(handle));
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
  IS(PTL_ARG_INVALID, PtlAtomic(md, 0, limits.max_atomic_size + 8, PTL_NO_ACK_REQ, self, portal, 0, 0, NULL, 0, PTL_SUM, PTL_INT64_T));
  nothing(at_initiator);
}
