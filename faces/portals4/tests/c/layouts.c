/* Numbers and layouts of the reference implementation, on the side of C. */
#include <stddef.h>

#include "rules.h"

#define SAME(what, number) _Static_assert((what) == (number), #what)

#if UINTPTR_MAX == UINT64_MAX
SAME(sizeof(ptl_process_t), 8);
SAME(_Alignof(ptl_process_t), 4);
SAME(offsetof(ptl_process_t, phys.pid), 4);
SAME(sizeof(ptl_iovec_t), 16);
SAME(sizeof(ptl_md_t), 32);
SAME(offsetof(ptl_md_t, options), 16);
SAME(offsetof(ptl_md_t, eq_handle), 20);
SAME(offsetof(ptl_md_t, ct_handle), 24);
SAME(sizeof(ptl_le_t), 32);
SAME(offsetof(ptl_le_t, ct_handle), 16);
SAME(offsetof(ptl_le_t, uid), 20);
SAME(offsetof(ptl_le_t, options), 24);
SAME(sizeof(ptl_me_t), 64);
SAME(offsetof(ptl_me_t, match_id), 28);
SAME(offsetof(ptl_me_t, match_bits), 40);
SAME(offsetof(ptl_me_t, ignore_bits), 48);
SAME(offsetof(ptl_me_t, min_free), 56);
SAME(sizeof(ptl_ct_event_t), 16);
SAME(offsetof(ptl_ct_event_t, failure), 8);
SAME(sizeof(ptl_event_t), 80);
SAME(offsetof(ptl_event_t, user_ptr), 8);
SAME(offsetof(ptl_event_t, hdr_data), 16);
SAME(offsetof(ptl_event_t, match_bits), 24);
SAME(offsetof(ptl_event_t, rlength), 32);
SAME(offsetof(ptl_event_t, mlength), 40);
SAME(offsetof(ptl_event_t, remote_offset), 48);
SAME(offsetof(ptl_event_t, initiator), 56);
SAME(offsetof(ptl_event_t, uid), 64);
SAME(offsetof(ptl_event_t, pt_index), 68);
SAME(offsetof(ptl_event_t, type), 72);
SAME(offsetof(ptl_event_t, ptl_list), 73);
SAME(offsetof(ptl_event_t, ni_fail_type), 74);
SAME(offsetof(ptl_event_t, atomic_operation), 75);
SAME(offsetof(ptl_event_t, atomic_type), 76);
SAME(sizeof(ptl_ni_limits_t), 96);
SAME(offsetof(ptl_ni_limits_t, max_pt_index), 20);
SAME(offsetof(ptl_ni_limits_t, max_triggered_ops), 32);
SAME(offsetof(ptl_ni_limits_t, max_msg_size), 40);
SAME(offsetof(ptl_ni_limits_t, max_volatile_size), 80);
SAME(offsetof(ptl_ni_limits_t, features), 88);
#endif

SAME(PTL_EQ_NONE, 0x3fffffff);
SAME(PTL_CT_NONE, 0x5fffffff);
SAME(PTL_INVALID_HANDLE, 0xffffffff);
SAME(PTL_IOVEC, 1);
SAME(PTL_PID_MAX, 1024);
SAME(PTL_ABORTED, 15);
SAME(PTL_STATUS_LAST, 15);
SAME(PTL_PT_IN_USE, 14);
SAME(PTL_NI_SEGV, 7);
SAME(PTL_MD_OPTIONS_MASK, PTL_IOVEC | PTL_MD_EVENT_CT_SEND | PTL_MD_EVENT_CT_REPLY | PTL_MD_EVENT_CT_ACK | PTL_MD_UNORDERED |
                              PTL_MD_EVENT_SUCCESS_DISABLE | PTL_MD_VOLATILE | PTL_MD_EVENT_SEND_DISABLE | PTL_MD_UNRELIABLE |
                              PTL_MD_EVENT_CT_BYTES);
SAME(PTL_LE_APPEND_OPTIONS_MASK, 0x7fff);
SAME(PTL_ME_APPEND_OPTIONS_MASK, 0x7ffff);
SAME(PTL_ME_ACK_DISABLE & ~PTL_ME_APPEND_OPTIONS_MASK, 0);
SAME(PTL_ME_LOCAL_INC_UH_RLENGTH, 0x40000);
SAME(PTL_PT_ALLOC_DISABLED, 0x10);
SAME(PTL_OC_ACK_REQ, 3);
SAME(PTL_MSWAP, 17);
SAME(PTL_OP_LAST, 18);
SAME(PTL_LONG_DOUBLE_COMPLEX, 13);
SAME(PTL_EVENT_SEARCH, 15);
SAME(PTL_EVENT_LINK, 12);
SAME(PTL_SR_LAST, 3);

RULE(A1_handles_and_codes_are_what_sources_depend_on) {
  static ptl_handle_any_t handles[2] = {PTL_INVALID_HANDLE, PTL_CT_NONE}; /* constant expressions */
  ptl_ct_event_t positional = {1, 2};
  CHECK(positional.success == 1 && positional.failure == 2);
  CHECK(PtlHandleIsEqual(handles[0], PTL_INVALID_HANDLE) && !PtlHandleIsEqual(handles[0], handles[1]));
  switch (PTL_OK) {
    case PTL_OK: case PTL_ARG_INVALID: case PTL_CT_NONE_REACHED: case PTL_EQ_DROPPED: case PTL_EQ_EMPTY: case PTL_FAIL:
    case PTL_IGNORED: case PTL_IN_USE: case PTL_LIST_TOO_LONG: case PTL_NO_INIT: case PTL_NO_SPACE: case PTL_PID_IN_USE:
    case PTL_PT_FULL: case PTL_PT_EQ_NEEDED: case PTL_PT_IN_USE: case PTL_ABORTED: case PTL_INTERRUPTED: break;
  }
}
