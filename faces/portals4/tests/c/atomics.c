/* B.10: what atomic operations come to. To oneself. */
#include <complex.h>

#include "rules.h"

static _Alignas(32) char target[64], operand_in[64], result[64];
static ptl_handle_md_t source, fetched;
static ptl_handle_ct_t done;

static void start(void) {
  begin(ME_PHYSICAL);
  ptl_me_t me = entry(target, 64, PUT_GET | PTL_ME_EVENT_COMM_DISABLE);
  append(&me, PTL_PRIORITY_LIST, NULL);
  done = counter();
  source = bind_memory(operand_in, 64, PTL_MD_EVENT_SEND_DISABLE, PTL_CT_NONE);
  fetched = bind_memory(result, 64, PTL_MD_EVENT_CT_REPLY, done);
}

static void fetch(ptl_op_t op, ptl_datatype_t type, ptl_size_t length) {
  static ptl_size_t count;
  WELL(PtlFetchAtomic(fetched, 0, source, 0, length, self, portal, 0, 0, NULL, 0, op, type));
  IS(0, reached(done, ++count).failure);
}

static void swap(ptl_op_t op, ptl_datatype_t type, ptl_size_t length, const void *operand) {
  ptl_ct_event_t count;
  WELL(PtlCTGet(done, &count));
  WELL(PtlSwap(fetched, 0, source, 0, length, self, portal, 0, 0, NULL, 0, operand, op, type));
  IS(0, reached(done, count.success + 1).failure);
}

#define TRY(type, ptl, op, a, b, expected)                       \
  do {                                                           \
    type before_ = (a), with_ = (b), after_, old_;               \
    memcpy(target, &before_, sizeof(type));                      \
    memcpy(operand_in, &with_, sizeof(type));                    \
    fetch(op, ptl, sizeof(type));                                \
    memcpy(&after_, target, sizeof(type));                       \
    memcpy(&old_, result, sizeof(type));                         \
    CHECK(after_ == (type)(expected) && old_ == before_);        \
  } while (0)

#define INTEGERS(type, ptl)                                      \
  TRY(type, ptl, PTL_MIN, 5, 3, 3);                              \
  TRY(type, ptl, PTL_MAX, 5, 3, 5);                              \
  TRY(type, ptl, PTL_SUM, (type)-1, 3, 2);                       \
  TRY(type, ptl, PTL_PROD, 7, 6, 42);                            \
  TRY(type, ptl, PTL_LOR, 0, 8, 1);                              \
  TRY(type, ptl, PTL_LAND, 4, 0, 0);                             \
  TRY(type, ptl, PTL_LAND, 4, 8, 1);                             \
  TRY(type, ptl, PTL_LXOR, 4, 8, 0);                             \
  TRY(type, ptl, PTL_BOR, 0x51, 0x0e, 0x5f);                     \
  TRY(type, ptl, PTL_BAND, 0x57, 0x72, 0x52);                    \
  TRY(type, ptl, PTL_BXOR, 0x57, 0x72, 0x25)

#define FLOATS(type, ptl)                                        \
  TRY(type, ptl, PTL_MIN, 2.5, -1.5, -1.5);                      \
  TRY(type, ptl, PTL_MAX, 2.5, -1.5, 2.5);                       \
  TRY(type, ptl, PTL_SUM, 2.5, 0.25, 2.75);                      \
  TRY(type, ptl, PTL_PROD, 2.5, -2, -5)

#define COMPLEX(type, ptl)                                       \
  TRY(type, ptl, PTL_SUM, 1 + 2 * I, 3 - 1 * I, 4 + 1 * I);      \
  TRY(type, ptl, PTL_PROD, 1 + 2 * I, 3 - 1 * I, 5 + 5 * I)

RULE(B10_integers) {
  start();
  INTEGERS(int8_t, PTL_INT8_T);
  INTEGERS(uint8_t, PTL_UINT8_T);
  INTEGERS(int16_t, PTL_INT16_T);
  INTEGERS(uint16_t, PTL_UINT16_T);
  INTEGERS(int32_t, PTL_INT32_T);
  INTEGERS(uint32_t, PTL_UINT32_T);
  INTEGERS(int64_t, PTL_INT64_T);
  INTEGERS(uint64_t, PTL_UINT64_T);
  TRY(int8_t, PTL_INT8_T, PTL_MIN, -5, 3, -5);
  TRY(uint8_t, PTL_UINT8_T, PTL_MIN, 251, 3, 3);
}

RULE(B10_floats_and_doubles) {
  start();
  FLOATS(float, PTL_FLOAT);
  FLOATS(double, PTL_DOUBLE);
}

RULE(B10_long_doubles) {
  start();
  FLOATS(long double, PTL_LONG_DOUBLE);
  TRY(long double, PTL_LONG_DOUBLE, PTL_SUM, 1.0L, 0x1p-60L, 1.0L + 0x1p-60L); /* more digits than a double has */
}

RULE(B10_complex_numbers) {
  start();
  COMPLEX(float complex, PTL_FLOAT_COMPLEX);
  COMPLEX(double complex, PTL_DOUBLE_COMPLEX);
}

RULE(B10_long_double_complex_numbers) {
  start();
  COMPLEX(long double complex, PTL_LONG_DOUBLE_COMPLEX);
}

#define SWAP(type, ptl, op, compared, a, b, expected)            \
  do {                                                           \
    type before_ = (a), with_ = (b), operand_ = (compared), after_, old_; \
    memcpy(target, &before_, sizeof(type));                      \
    memcpy(operand_in, &with_, sizeof(type));                    \
    swap(op, ptl, sizeof(type), &operand_);                      \
    memcpy(&after_, target, sizeof(type));                       \
    memcpy(&old_, result, sizeof(type));                         \
    CHECK(after_ == (type)(expected) && old_ == before_);        \
  } while (0)

#define ORDERED_SWAPS(type, ptl)                                 \
  SWAP(type, ptl, PTL_CSWAP, 5, 5, 9, 9);                        \
  SWAP(type, ptl, PTL_CSWAP, 4, 5, 9, 5);                        \
  SWAP(type, ptl, PTL_CSWAP_NE, 5, 5, 9, 5);                     \
  SWAP(type, ptl, PTL_CSWAP_NE, 4, 5, 9, 9);                     \
  SWAP(type, ptl, PTL_CSWAP_LE, 5, 5, 9, 9);                     \
  SWAP(type, ptl, PTL_CSWAP_LE, 6, 5, 9, 5);                     \
  SWAP(type, ptl, PTL_CSWAP_LT, 4, 5, 9, 9);                     \
  SWAP(type, ptl, PTL_CSWAP_LT, 5, 5, 9, 5);                     \
  SWAP(type, ptl, PTL_CSWAP_GE, 5, 5, 9, 9);                     \
  SWAP(type, ptl, PTL_CSWAP_GE, 4, 5, 9, 5);                     \
  SWAP(type, ptl, PTL_CSWAP_GT, 6, 5, 9, 9);                     \
  SWAP(type, ptl, PTL_CSWAP_GT, 5, 5, 9, 5);                     \
  SWAP(type, ptl, PTL_SWAP, 0, 5, 9, 9)

RULE(B10_swaps_compare_the_operand_with_the_target) {
  start();
  ORDERED_SWAPS(int8_t, PTL_INT8_T);
  ORDERED_SWAPS(uint8_t, PTL_UINT8_T);
  ORDERED_SWAPS(int16_t, PTL_INT16_T);
  ORDERED_SWAPS(uint16_t, PTL_UINT16_T);
  ORDERED_SWAPS(int32_t, PTL_INT32_T);
  ORDERED_SWAPS(uint32_t, PTL_UINT32_T);
  ORDERED_SWAPS(int64_t, PTL_INT64_T);
  ORDERED_SWAPS(uint64_t, PTL_UINT64_T);
  ORDERED_SWAPS(float, PTL_FLOAT);
  ORDERED_SWAPS(double, PTL_DOUBLE);
  SWAP(int16_t, PTL_INT16_T, PTL_CSWAP_LT, -1, 1, 9, 9); /* with its sign, */
  SWAP(uint16_t, PTL_UINT16_T, PTL_CSWAP_LT, 65535, 1, 9, 1); /* or without */
}

#define COMPLEX_SWAPS(type, ptl)                                 \
  SWAP(type, ptl, PTL_SWAP, 0, 5 + I, 9 - I, 9 - I);             \
  SWAP(type, ptl, PTL_CSWAP, 1 + I, 1 + I, 2, 2);                \
  SWAP(type, ptl, PTL_CSWAP, 1 - I, 1 + I, 2, 1 + I);            \
  SWAP(type, ptl, PTL_CSWAP_NE, 1 + I, 1 + I, 2, 1 + I);         \
  SWAP(type, ptl, PTL_CSWAP_NE, 1 - I, 1 + I, 2, 2)

RULE(B10_swaps_of_complex_numbers_compare_both_parts) {
  start();
  COMPLEX_SWAPS(float complex, PTL_FLOAT_COMPLEX);
  COMPLEX_SWAPS(double complex, PTL_DOUBLE_COMPLEX);
  COMPLEX_SWAPS(long double complex, PTL_LONG_DOUBLE_COMPLEX);
}

#define MASKED(type, ptl) SWAP(type, ptl, PTL_MSWAP, (type)0x0f0f0f0f0f0f0f0full, (type)0x1122334455667788ull, \
                               (type)0x9a9b9c9d9e9f9192ull, (type)0x1a2b3c4d5e6f7182ull)

RULE(B10_masked_swaps_take_the_bits_of_the_operand) {
  start();
  MASKED(int8_t, PTL_INT8_T);
  MASKED(uint8_t, PTL_UINT8_T);
  MASKED(int16_t, PTL_INT16_T);
  MASKED(uint16_t, PTL_UINT16_T);
  MASKED(int32_t, PTL_INT32_T);
  MASKED(uint32_t, PTL_UINT32_T);
  MASKED(int64_t, PTL_INT64_T);
  MASKED(uint64_t, PTL_UINT64_T);
}

RULE(B10_what_is_given_and_what_comes_back_may_be_one_place) {
  start();
  int64_t there = 40, given = 2;
  memcpy(target, &there, 8);
  memcpy(result, &given, 8);
  WELL(PtlFetchAtomic(fetched, 0, fetched, 0, 8, self, portal, 0, 0, NULL, 0, PTL_SUM, PTL_INT64_T));
  IS(0, reached(done, 1).failure);
  CHECK(*(int64_t *)target == 42 && *(int64_t *)result == 40);
  WELL(PtlSwap(fetched, 0, fetched, 0, 8, self, portal, 0, 0, NULL, 0, NULL, PTL_SWAP, PTL_INT64_T));
  IS(0, reached(done, 2).failure);
  CHECK(*(int64_t *)target == 40 && *(int64_t *)result == 42);
}

RULE(B10_long_double_swaps) {
  start();
  ORDERED_SWAPS(long double, PTL_LONG_DOUBLE);
}

RULE(B10_arrays_are_worked_on_item_by_item) {
  start();
  int32_t with[16], before[16], after[16];
  for (int i = 0; i < 16; i++) with[i] = i, before[i] = 100 - i;
  memcpy(target, before, 64);
  memcpy(operand_in, with, 64);
  fetch(PTL_SUM, PTL_INT32_T, 64);
  memcpy(after, target, 64);
  for (int i = 0; i < 16; i++) IS(100, after[i]);
  CHECK(memcmp(result, before, 64) == 0);
  swap(PTL_SWAP, PTL_INT32_T, 64, NULL);
  CHECK(memcmp(target, with, 64) == 0);
}

RULE(B10_sync_is_always_well) {
  start();
  WELL(PtlAtomicSync());
}
