/* Portals 4.3, as Packhorse has it. Numbers and layouts are those of the reference implementation, but for PTL_NID_ANY and PTL_PID_ANY, which are
   0xffff there: a number that a process may have. Beside them stand two names that the reference no longer has and Open MPI still uses:
   PTL_INTERRUPTED, which no call returns, and PTL_ME_ACK_DISABLE, which asks for nothing. */
#ifndef PORTALS4_H
#define PORTALS4_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Numbers. */

typedef uint64_t ptl_size_t;
typedef uint64_t ptl_match_bits_t;
typedef uint64_t ptl_hdr_data_t;
typedef uint32_t ptl_pt_index_t;
typedef uint32_t ptl_nid_t;
typedef uint32_t ptl_pid_t;
typedef uint32_t ptl_rank_t;
typedef uint32_t ptl_uid_t;
typedef unsigned int ptl_time_t; /* milliseconds */
typedef unsigned int ptl_interface_t;
typedef int ptl_sr_value_t;
typedef unsigned char ptl_ni_fail_t;
typedef unsigned char ptl_list_t;
typedef unsigned char ptl_search_op_t;
typedef unsigned char ptl_ack_req_t;
typedef unsigned char ptl_op_t;
typedef unsigned char ptl_datatype_t;
typedef unsigned char ptl_event_kind_t;

/* Handles are numbers. 0 is never one. */
typedef uint32_t ptl_handle_any_t;
typedef ptl_handle_any_t ptl_handle_ni_t;
typedef ptl_handle_any_t ptl_handle_eq_t;
typedef ptl_handle_any_t ptl_handle_ct_t;
typedef ptl_handle_any_t ptl_handle_md_t;
typedef ptl_handle_any_t ptl_handle_le_t;
typedef ptl_handle_any_t ptl_handle_me_t;

#define PTL_EQ_NONE ((ptl_handle_eq_t)0x3fffffff)
#define PTL_CT_NONE ((ptl_handle_ct_t)0x5fffffff)
#define PTL_INVALID_HANDLE ((ptl_handle_any_t)0xffffffff)

#define PTL_IFACE_DEFAULT ((ptl_interface_t)0xffffffff)
#define PTL_PID_ANY ((ptl_pid_t)0xffffffff)
#define PTL_NID_ANY ((ptl_nid_t)0xffffffff)
#define PTL_RANK_ANY ((ptl_rank_t)0xffffffff)
#define PTL_UID_ANY ((ptl_uid_t)0xffffffff)
#define PTL_PT_ANY ((ptl_pt_index_t)0xffffffff)
#define PTL_PID_MAX ((ptl_pid_t)1024)
#define PTL_TIME_FOREVER ((ptl_time_t)0xffffffff)
#define PTL_SIZE_MAX ((ptl_size_t)0xffffffffffffffff)

/* What a call returns. */
enum ptl_retvals {
  PTL_OK = 0,
  PTL_ARG_INVALID = 1,
  PTL_CT_NONE_REACHED = 2,
  PTL_EQ_DROPPED = 3,
  PTL_EQ_EMPTY = 4,
  PTL_FAIL = 5,
  PTL_IGNORED = 6,
  PTL_IN_USE = 7,
  PTL_LIST_TOO_LONG = 8,
  PTL_NO_INIT = 9,
  PTL_NO_SPACE = 10,
  PTL_PID_IN_USE = 11,
  PTL_PT_FULL = 12,
  PTL_PT_EQ_NEEDED = 13,
  PTL_PT_IN_USE = 14,
  PTL_ABORTED = 15,
  PTL_INTERRUPTED = 16
};
#define PTL_STATUS_LAST (PTL_PT_IN_USE + 1)

/* Interfaces: one of each pair. */
#define PTL_NI_MATCHING 0x1u
#define PTL_NI_NO_MATCHING 0x2u
#define PTL_NI_LOGICAL 0x4u
#define PTL_NI_PHYSICAL 0x8u
#define PTL_NI_INIT_OPTIONS_MASK 0xfu

/* What became of an operation. */
enum ptl_ni_fails {
  PTL_NI_OK = 0,
  PTL_NI_UNDELIVERABLE = 1,
  PTL_NI_DROPPED = 2,
  PTL_NI_PT_DISABLED = 3,
  PTL_NI_PERM_VIOLATION = 4,
  PTL_NI_OP_VIOLATION = 5,
  PTL_NI_NO_MATCH = 6,
  PTL_NI_SEGV = 7
};

/* What an interface can do, in ptl_ni_limits_t. */
#define PTL_TARGET_BIND_INACCESSIBLE 0x1u
#define PTL_TOTAL_DATA_ORDERING 0x2u
#define PTL_COHERENT_ATOMICS 0x4u

/* Counters of an interface. */
typedef enum {
  PTL_SR_DROP_COUNT = 0,
  PTL_SR_PERMISSION_VIOLATIONS = 1,
  PTL_SR_OPERATION_VIOLATIONS = 2,
  PTL_SR_LAST = 3
} ptl_sr_index_t;

typedef enum { PTL_CT_OPERATION = 0, PTL_CT_BYTE = 1 } ptl_ct_type_t;

/* Options of portal table entries. */
#define PTL_PT_ONLY_USE_ONCE 0x1u
#define PTL_PT_FLOWCTRL 0x2u
#define PTL_PT_ONLY_TRUNCATE 0x4u
#define PTL_PT_MATCH_UNORDERED 0x8u
#define PTL_PT_ALLOC_DISABLED 0x10u
#define PTL_PT_ALLOC_OPTIONS_MASK 0x1fu

/* Memory in pieces, of descriptors and of entries: `start` is a list of `length` ptl_iovec_t. */
#define PTL_IOVEC 0x1u

/* Options of memory descriptors. */
#define PTL_MD_EVENT_CT_SEND 0x2u
#define PTL_MD_EVENT_CT_REPLY 0x4u
#define PTL_MD_EVENT_CT_ACK 0x8u
#define PTL_MD_UNORDERED 0x10u
#define PTL_MD_EVENT_SUCCESS_DISABLE 0x20u
#define PTL_MD_VOLATILE 0x40u
#define PTL_MD_EVENT_SEND_DISABLE 0x80u
#define PTL_MD_UNRELIABLE 0x100u
#define PTL_MD_EVENT_CT_BYTES 0x4000u
#define PTL_MD_OPTIONS_MASK 0x41ffu

/* Options of match entries. */
#define PTL_ME_OP_PUT 0x2u
#define PTL_ME_OP_GET 0x4u
#define PTL_ME_USE_ONCE 0x8u
#define PTL_ME_UNEXPECTED_HDR_DISABLE 0x10u
#define PTL_ME_IS_ACCESSIBLE 0x20u
#define PTL_ME_EVENT_LINK_DISABLE 0x40u
#define PTL_ME_EVENT_COMM_DISABLE 0x80u
#define PTL_ME_EVENT_FLOWCTRL_DISABLE 0x100u
#define PTL_ME_EVENT_SUCCESS_DISABLE 0x200u
#define PTL_ME_EVENT_OVER_DISABLE 0x400u
#define PTL_ME_EVENT_UNLINK_DISABLE 0x800u
#define PTL_ME_EVENT_CT_COMM 0x1000u
#define PTL_ME_EVENT_CT_OVERFLOW 0x2000u
#define PTL_ME_EVENT_CT_BYTES 0x4000u
#define PTL_ME_MANAGE_LOCAL 0x8000u
#define PTL_ME_NO_TRUNCATE 0x10000u
#define PTL_ME_MAY_ALIGN 0x20000u
#define PTL_ME_LOCAL_INC_UH_RLENGTH 0x40000u
#define PTL_ME_ACK_DISABLE 0x0u
#define PTL_ME_APPEND_OPTIONS_MASK 0x7ffffu

/* Options of list entries: the same bits. */
#define PTL_LE_OP_PUT PTL_ME_OP_PUT
#define PTL_LE_OP_GET PTL_ME_OP_GET
#define PTL_LE_USE_ONCE PTL_ME_USE_ONCE
#define PTL_LE_UNEXPECTED_HDR_DISABLE PTL_ME_UNEXPECTED_HDR_DISABLE
#define PTL_LE_IS_ACCESSIBLE PTL_ME_IS_ACCESSIBLE
#define PTL_LE_EVENT_LINK_DISABLE PTL_ME_EVENT_LINK_DISABLE
#define PTL_LE_EVENT_COMM_DISABLE PTL_ME_EVENT_COMM_DISABLE
#define PTL_LE_EVENT_FLOWCTRL_DISABLE PTL_ME_EVENT_FLOWCTRL_DISABLE
#define PTL_LE_EVENT_SUCCESS_DISABLE PTL_ME_EVENT_SUCCESS_DISABLE
#define PTL_LE_EVENT_OVER_DISABLE PTL_ME_EVENT_OVER_DISABLE
#define PTL_LE_EVENT_UNLINK_DISABLE PTL_ME_EVENT_UNLINK_DISABLE
#define PTL_LE_EVENT_CT_COMM PTL_ME_EVENT_CT_COMM
#define PTL_LE_EVENT_CT_OVERFLOW PTL_ME_EVENT_CT_OVERFLOW
#define PTL_LE_EVENT_CT_BYTES PTL_ME_EVENT_CT_BYTES
#define PTL_LE_ACK_DISABLE PTL_ME_ACK_DISABLE
#define PTL_LE_APPEND_OPTIONS_MASK 0x7fffu

/* Lists, and what a search does with what it finds. */
#define PTL_PRIORITY_LIST 0
#define PTL_OVERFLOW_LIST 1
#define PTL_SEARCH_ONLY 0
#define PTL_SEARCH_DELETE 1

/* Acknowledgements. */
#define PTL_NO_ACK_REQ 0
#define PTL_ACK_REQ 1
#define PTL_CT_ACK_REQ 2
#define PTL_OC_ACK_REQ 3

/* Atomic operations. */
enum ptl_ops {
  PTL_MIN = 0,
  PTL_MAX = 1,
  PTL_SUM = 2,
  PTL_PROD = 3,
  PTL_LOR = 4,
  PTL_LAND = 5,
  PTL_BOR = 6,
  PTL_BAND = 7,
  PTL_LXOR = 8,
  PTL_BXOR = 9,
  PTL_SWAP = 10,
  PTL_CSWAP = 11,
  PTL_CSWAP_NE = 12,
  PTL_CSWAP_LE = 13,
  PTL_CSWAP_LT = 14,
  PTL_CSWAP_GE = 15,
  PTL_CSWAP_GT = 16,
  PTL_MSWAP = 17,
  PTL_OP_LAST = 18
};

/* What they work on. */
enum ptl_datatypes {
  PTL_INT8_T = 0,
  PTL_UINT8_T = 1,
  PTL_INT16_T = 2,
  PTL_UINT16_T = 3,
  PTL_INT32_T = 4,
  PTL_UINT32_T = 5,
  PTL_FLOAT = 6,
  PTL_INT64_T = 7,
  PTL_UINT64_T = 8,
  PTL_DOUBLE = 9,
  PTL_FLOAT_COMPLEX = 10,
  PTL_DOUBLE_COMPLEX = 11,
  PTL_LONG_DOUBLE = 12,
  PTL_LONG_DOUBLE_COMPLEX = 13,
  PTL_DATATYPE_LAST = 14
};

/* Events. */
enum ptl_event_kinds {
  PTL_EVENT_GET = 0,
  PTL_EVENT_GET_OVERFLOW = 1,
  PTL_EVENT_PUT = 2,
  PTL_EVENT_PUT_OVERFLOW = 3,
  PTL_EVENT_ATOMIC = 4,
  PTL_EVENT_ATOMIC_OVERFLOW = 5,
  PTL_EVENT_FETCH_ATOMIC = 6,
  PTL_EVENT_FETCH_ATOMIC_OVERFLOW = 7,
  PTL_EVENT_REPLY = 8,
  PTL_EVENT_SEND = 9,
  PTL_EVENT_ACK = 10,
  PTL_EVENT_PT_DISABLED = 11,
  PTL_EVENT_LINK = 12,
  PTL_EVENT_AUTO_UNLINK = 13,
  PTL_EVENT_AUTO_FREE = 14,
  PTL_EVENT_SEARCH = 15
};

/* Structures. */

/* A process: its rank on a logical interface; on a physical one the IPv4 address of its host and its number there. */
typedef union {
  struct {
    ptl_nid_t nid;
    ptl_pid_t pid;
  } phys;
  ptl_rank_t rank;
} ptl_process_t;

typedef struct {
  void *iov_base;
  ptl_size_t iov_len;
} ptl_iovec_t;

typedef struct {
  void *start;
  ptl_size_t length;
  unsigned int options;
  ptl_handle_eq_t eq_handle;
  ptl_handle_ct_t ct_handle;
} ptl_md_t;

typedef struct {
  void *start;
  ptl_size_t length;
  ptl_handle_ct_t ct_handle;
  ptl_uid_t uid;
  unsigned int options;
} ptl_le_t;

typedef struct {
  void *start;
  ptl_size_t length;
  ptl_handle_ct_t ct_handle;
  ptl_uid_t uid;
  unsigned int options;
  ptl_process_t match_id;
  ptl_match_bits_t match_bits;
  ptl_match_bits_t ignore_bits;
  ptl_size_t min_free;
} ptl_me_t;

typedef struct {
  ptl_size_t success;
  ptl_size_t failure;
} ptl_ct_event_t;

typedef struct {
  void *start;
  void *user_ptr;
  ptl_hdr_data_t hdr_data;
  ptl_match_bits_t match_bits;
  ptl_size_t rlength;
  ptl_size_t mlength;
  ptl_size_t remote_offset;
  ptl_process_t initiator;
  ptl_uid_t uid;
  ptl_pt_index_t pt_index;
  ptl_event_kind_t type;
  ptl_list_t ptl_list;
  ptl_ni_fail_t ni_fail_type;
  ptl_op_t atomic_operation;
  ptl_datatype_t atomic_type;
} ptl_event_t;

typedef struct {
  int max_entries;
  int max_unexpected_headers;
  int max_mds;
  int max_cts;
  int max_eqs;
  int max_pt_index;
  int max_iovecs;
  int max_list_size;
  int max_triggered_ops;
  ptl_size_t max_msg_size;
  ptl_size_t max_atomic_size;
  ptl_size_t max_fetch_atomic_size;
  ptl_size_t max_waw_ordered_size;
  ptl_size_t max_war_ordered_size;
  ptl_size_t max_volatile_size;
  unsigned int features;
} ptl_ni_limits_t;

/* The library, and its interfaces. */

int PtlInit(void);
void PtlFini(void);
void PtlAbort(void);
int PtlNIInit(ptl_interface_t iface, unsigned int options, ptl_pid_t pid, const ptl_ni_limits_t *desired,
              ptl_ni_limits_t *actual, ptl_handle_ni_t *ni_handle);
int PtlNIFini(ptl_handle_ni_t ni_handle);
int PtlNIStatus(ptl_handle_ni_t ni_handle, ptl_sr_index_t status_register, ptl_sr_value_t *status);
int PtlNIHandle(ptl_handle_any_t handle, ptl_handle_ni_t *ni_handle);
int PtlSetMap(ptl_handle_ni_t ni_handle, ptl_size_t map_size, const ptl_process_t *mapping);
int PtlGetMap(ptl_handle_ni_t ni_handle, ptl_size_t map_size, ptl_process_t *mapping, ptl_size_t *actual_map_size);
int PtlGetUid(ptl_handle_ni_t ni_handle, ptl_uid_t *uid);
int PtlGetId(ptl_handle_ni_t ni_handle, ptl_process_t *id);
int PtlGetPhysId(ptl_handle_ni_t ni_handle, ptl_process_t *id);
int PtlHandleIsEqual(ptl_handle_any_t handle1, ptl_handle_any_t handle2);

/* The portal table. */

int PtlPTAlloc(ptl_handle_ni_t ni_handle, unsigned int options, ptl_handle_eq_t eq_handle, ptl_pt_index_t pt_index_req,
               ptl_pt_index_t *pt_index);
int PtlPTFree(ptl_handle_ni_t ni_handle, ptl_pt_index_t pt_index);
int PtlPTDisable(ptl_handle_ni_t ni_handle, ptl_pt_index_t pt_index);
int PtlPTEnable(ptl_handle_ni_t ni_handle, ptl_pt_index_t pt_index);

/* Memory descriptors. */

int PtlMDBind(ptl_handle_ni_t ni_handle, const ptl_md_t *md, ptl_handle_md_t *md_handle);
int PtlMDRelease(ptl_handle_md_t md_handle);

/* List entries and match entries. */

int PtlLEAppend(ptl_handle_ni_t ni_handle, ptl_pt_index_t pt_index, const ptl_le_t *le, ptl_list_t ptl_list,
                void *user_ptr, ptl_handle_le_t *le_handle);
int PtlLEUnlink(ptl_handle_le_t le_handle);
int PtlLESearch(ptl_handle_ni_t ni_handle, ptl_pt_index_t pt_index, const ptl_le_t *le, ptl_search_op_t ptl_search_op,
                void *user_ptr);
int PtlMEAppend(ptl_handle_ni_t ni_handle, ptl_pt_index_t pt_index, const ptl_me_t *me, ptl_list_t ptl_list,
                void *user_ptr, ptl_handle_me_t *me_handle);
int PtlMEUnlink(ptl_handle_me_t me_handle);
int PtlMESearch(ptl_handle_ni_t ni_handle, ptl_pt_index_t pt_index, const ptl_me_t *me, ptl_search_op_t ptl_search_op,
                void *user_ptr);

/* Counters. */

int PtlCTAlloc(ptl_handle_ni_t ni_handle, ptl_handle_ct_t *ct_handle);
int PtlCTFree(ptl_handle_ct_t ct_handle);
int PtlCTCancelTriggered(ptl_handle_ct_t ct_handle);
int PtlCTGet(ptl_handle_ct_t ct_handle, ptl_ct_event_t *event);
int PtlCTWait(ptl_handle_ct_t ct_handle, ptl_size_t test, ptl_ct_event_t *event);
int PtlCTPoll(const ptl_handle_ct_t *ct_handles, const ptl_size_t *tests, unsigned int size, ptl_time_t timeout,
              ptl_ct_event_t *event, unsigned int *which);
int PtlCTSet(ptl_handle_ct_t ct_handle, ptl_ct_event_t new_ct);
int PtlCTInc(ptl_handle_ct_t ct_handle, ptl_ct_event_t increment);

/* Moving data. */

int PtlPut(ptl_handle_md_t md_handle, ptl_size_t local_offset, ptl_size_t length, ptl_ack_req_t ack_req,
           ptl_process_t target_id, ptl_pt_index_t pt_index, ptl_match_bits_t match_bits, ptl_size_t remote_offset,
           void *user_ptr, ptl_hdr_data_t hdr_data);
int PtlGet(ptl_handle_md_t md_handle, ptl_size_t local_offset, ptl_size_t length, ptl_process_t target_id,
           ptl_pt_index_t pt_index, ptl_match_bits_t match_bits, ptl_size_t remote_offset, void *user_ptr);
int PtlAtomic(ptl_handle_md_t md_handle, ptl_size_t local_offset, ptl_size_t length, ptl_ack_req_t ack_req,
              ptl_process_t target_id, ptl_pt_index_t pt_index, ptl_match_bits_t match_bits, ptl_size_t remote_offset,
              void *user_ptr, ptl_hdr_data_t hdr_data, ptl_op_t operation, ptl_datatype_t datatype);
int PtlFetchAtomic(ptl_handle_md_t get_md_handle, ptl_size_t local_get_offset, ptl_handle_md_t put_md_handle,
                   ptl_size_t local_put_offset, ptl_size_t length, ptl_process_t target_id, ptl_pt_index_t pt_index,
                   ptl_match_bits_t match_bits, ptl_size_t remote_offset, void *user_ptr, ptl_hdr_data_t hdr_data,
                   ptl_op_t operation, ptl_datatype_t datatype);
int PtlSwap(ptl_handle_md_t get_md_handle, ptl_size_t local_get_offset, ptl_handle_md_t put_md_handle,
            ptl_size_t local_put_offset, ptl_size_t length, ptl_process_t target_id, ptl_pt_index_t pt_index,
            ptl_match_bits_t match_bits, ptl_size_t remote_offset, void *user_ptr, ptl_hdr_data_t hdr_data,
            const void *operand, ptl_op_t operation, ptl_datatype_t datatype);
int PtlAtomicSync(void);

/* The same when a counter reaches a threshold. */

int PtlTriggeredPut(ptl_handle_md_t md_handle, ptl_size_t local_offset, ptl_size_t length, ptl_ack_req_t ack_req,
                    ptl_process_t target_id, ptl_pt_index_t pt_index, ptl_match_bits_t match_bits,
                    ptl_size_t remote_offset, void *user_ptr, ptl_hdr_data_t hdr_data, ptl_handle_ct_t trig_ct_handle,
                    ptl_size_t threshold);
int PtlTriggeredGet(ptl_handle_md_t md_handle, ptl_size_t local_offset, ptl_size_t length, ptl_process_t target_id,
                    ptl_pt_index_t pt_index, ptl_match_bits_t match_bits, ptl_size_t remote_offset, void *user_ptr,
                    ptl_handle_ct_t trig_ct_handle, ptl_size_t threshold);
int PtlTriggeredAtomic(ptl_handle_md_t md_handle, ptl_size_t local_offset, ptl_size_t length, ptl_ack_req_t ack_req,
                       ptl_process_t target_id, ptl_pt_index_t pt_index, ptl_match_bits_t match_bits,
                       ptl_size_t remote_offset, void *user_ptr, ptl_hdr_data_t hdr_data, ptl_op_t operation,
                       ptl_datatype_t datatype, ptl_handle_ct_t trig_ct_handle, ptl_size_t threshold);
int PtlTriggeredFetchAtomic(ptl_handle_md_t get_md_handle, ptl_size_t local_get_offset, ptl_handle_md_t put_md_handle,
                            ptl_size_t local_put_offset, ptl_size_t length, ptl_process_t target_id,
                            ptl_pt_index_t pt_index, ptl_match_bits_t match_bits, ptl_size_t remote_offset,
                            void *user_ptr, ptl_hdr_data_t hdr_data, ptl_op_t operation, ptl_datatype_t datatype,
                            ptl_handle_ct_t trig_ct_handle, ptl_size_t threshold);
int PtlTriggeredSwap(ptl_handle_md_t get_md_handle, ptl_size_t local_get_offset, ptl_handle_md_t put_md_handle,
                     ptl_size_t local_put_offset, ptl_size_t length, ptl_process_t target_id, ptl_pt_index_t pt_index,
                     ptl_match_bits_t match_bits, ptl_size_t remote_offset, void *user_ptr, ptl_hdr_data_t hdr_data,
                     const void *operand, ptl_op_t operation, ptl_datatype_t datatype, ptl_handle_ct_t trig_ct_handle,
                     ptl_size_t threshold);
int PtlTriggeredCTInc(ptl_handle_ct_t ct_handle, ptl_ct_event_t increment, ptl_handle_ct_t trig_ct_handle,
                      ptl_size_t threshold);
int PtlTriggeredCTSet(ptl_handle_ct_t ct_handle, ptl_ct_event_t new_ct, ptl_handle_ct_t trig_ct_handle,
                      ptl_size_t threshold);
int PtlTriggeredMEAppend(ptl_handle_ni_t ni_handle, ptl_pt_index_t pt_index, ptl_me_t *me, ptl_list_t ptl_list,
                         void *user_ptr, ptl_handle_me_t *me_handle, ptl_handle_ct_t trig_ct_handle,
                         ptl_size_t threshold);
int PtlTriggeredMEUnlink(ptl_handle_me_t me_handle, ptl_handle_ct_t trig_ct_handle, ptl_size_t threshold);

/* Event queues. */

int PtlEQAlloc(ptl_handle_ni_t ni_handle, ptl_size_t count, ptl_handle_eq_t *eq_handle);
int PtlEQFree(ptl_handle_eq_t eq_handle);
int PtlEQGet(ptl_handle_eq_t eq_handle, ptl_event_t *event);
int PtlEQWait(ptl_handle_eq_t eq_handle, ptl_event_t *event);
int PtlEQPoll(const ptl_handle_eq_t *eq_handles, unsigned int size, ptl_time_t timeout, ptl_event_t *event,
              unsigned int *which);

/* Bundles. */

int PtlStartBundle(ptl_handle_ni_t ni_handle);
int PtlEndBundle(ptl_handle_ni_t ni_handle);

#ifdef __cplusplus
}
#endif

#endif
