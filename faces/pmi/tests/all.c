/* Each process puts two keys and reads those of all others, twice, with a barrier before each reading. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pmi.h"

#define CHECK(what)                                                     \
  do {                                                                  \
    if (!(what)) {                                                      \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);        \
      exit(1);                                                          \
    }                                                                   \
  } while (0)

int main(void) {
  int rank, size, spawned = 7, initialized = 7, max;
  char name[256], key[64], value[64], expected[64];

  CHECK(PMI_Barrier() == PMI_ERR_INIT);
  CHECK(PMI_Get_rank(&rank) == PMI_ERR_INIT);
  CHECK(PMI_Initialized(&initialized) == PMI_SUCCESS && initialized == PMI_FALSE);
  CHECK(PMI_Init(&spawned) == PMI_SUCCESS && spawned == 0);
  CHECK(PMI_Initialized(&initialized) == PMI_SUCCESS && initialized == PMI_TRUE);
  CHECK(PMI_Get_rank(&rank) == PMI_SUCCESS && PMI_Get_size(&size) == PMI_SUCCESS);
  CHECK(rank >= 0 && rank < size);
  CHECK(PMI_KVS_Get_name_length_max(&max) == PMI_SUCCESS && max <= (int)sizeof(name));
  CHECK(PMI_KVS_Get_my_name(name, sizeof(name)) == PMI_SUCCESS && name[0]);
  CHECK(PMI_KVS_Get_my_name(name, 1) == PMI_ERR_INVALID_LENGTH);
  CHECK(PMI_KVS_Get_my_name(name, sizeof(name)) == PMI_SUCCESS);
  CHECK(PMI_KVS_Put(name, "two words", "x") == PMI_ERR_INVALID_KEY);
  CHECK(PMI_KVS_Put(name, "key", NULL) == PMI_ERR_INVALID_VAL);
  CHECK(PMI_KVS_Put("another job", "key", "x") == PMI_ERR_INVALID_ARG);
  CHECK(PMI_Get_rank(NULL) == PMI_ERR_INVALID_ARG);

  for (int round = 0; round < 2; round++) {
    for (int part = 0; part < 2; part++) {
      snprintf(key, sizeof(key), "round-%d-rank-%d-part-%d", round, rank, part);
      snprintf(value, sizeof(value), "%x", 1000 * round + 10 * rank + part);
      CHECK(PMI_KVS_Put(name, key, value) == PMI_SUCCESS);
    }
    CHECK(PMI_KVS_Commit(name) == PMI_SUCCESS);
    CHECK(PMI_Barrier() == PMI_SUCCESS);
    for (int other = 0; other < size; other++)
      for (int part = 0; part < 2; part++) {
        snprintf(key, sizeof(key), "round-%d-rank-%d-part-%d", round, other, part);
        snprintf(expected, sizeof(expected), "%x", 1000 * round + 10 * other + part);
        CHECK(PMI_KVS_Get(name, key, value, sizeof(value)) == PMI_SUCCESS);
        CHECK(strcmp(value, expected) == 0);
      }
  }
  CHECK(PMI_KVS_Get(name, "nobody-put-this", value, sizeof(value)) != PMI_SUCCESS);
  CHECK(PMI_KVS_Get(name, "round-0-rank-0-part-0", value, 1) == PMI_ERR_INVALID_LENGTH);
  CHECK(PMI_Barrier() == PMI_SUCCESS);
  CHECK(PMI_Finalize() == PMI_SUCCESS && PMI_Finalize() == PMI_ERR_INIT);
  printf("rank %d of %d\n", rank, size);
  return 0;
}
