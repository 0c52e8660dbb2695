/* A job of processes that find each other by PMI, as programs for the reference's launcher do: each puts its rank to the next one, all round, on a
 * logical interface. It is no rule: it is what is started, by whichever launcher there is. */
#include "../../../pmi/include/pmi.h"
#include "rules.h"

static int own, count;

/* Physical names of all, by rank. */
static ptl_process_t *names_of_all(void) {
  char job[256], key[64], value[64];
  ptl_process_t *all = calloc((size_t)count, sizeof(*all)), physical;
  WELL(PtlGetPhysId(ni, &physical));
  IS(PMI_SUCCESS, PMI_KVS_Get_my_name(job, sizeof(job)));
  snprintf(key, sizeof(key), "name-%d", own);
  snprintf(value, sizeof(value), "%u:%u", physical.phys.nid, physical.phys.pid);
  IS(PMI_SUCCESS, PMI_KVS_Put(job, key, value));
  IS(PMI_SUCCESS, PMI_KVS_Commit(job));
  IS(PMI_SUCCESS, PMI_Barrier());
  for (int rank = 0; rank < count; rank++) {
    snprintf(key, sizeof(key), "name-%d", rank);
    IS(PMI_SUCCESS, PMI_KVS_Get(job, key, value, sizeof(value)));
    IS(2, sscanf(value, "%u:%u", &all[rank].phys.nid, &all[rank].phys.pid));
  }
  return all;
}

RULE(ranks) {
  int spawned, got = -1;
  IS(PMI_SUCCESS, PMI_Init(&spawned));
  IS(PMI_SUCCESS, PMI_Get_rank(&own));
  IS(PMI_SUCCESS, PMI_Get_size(&count));
  WELL(PtlInit());
  WELL(PtlNIInit(PTL_IFACE_DEFAULT, LE_LOGICAL, PTL_PID_ANY, NULL, &limits, &ni));
  WELL(PtlSetMap(ni, (ptl_size_t)count, names_of_all()));
  WELL(PtlGetId(ni, &self));
  IS(own, self.rank);
  WELL(PtlEQAlloc(ni, 64, &at_target));
  WELL(PtlEQAlloc(ni, 64, &at_initiator));
  WELL(PtlPTAlloc(ni, 0, at_target, 4, &portal));
  append_le(&got, sizeof(got), PTL_LE_OP_PUT | PTL_LE_USE_ONCE, PTL_PRIORITY_LIST, NULL);
  IS(PMI_SUCCESS, PMI_Barrier());
  ptl_handle_md_t md = bind_memory(&own, sizeof(own), 0, PTL_CT_NONE);
  ptl_process_t next_one = {.rank = (ptl_rank_t)((own + 1) % count)};
  WELL(PtlPut(md, 0, sizeof(own), PTL_ACK_REQ, next_one, portal, 0, 0, (void *)0x55, 0));
  acknowledged(PTL_NI_OK);
  IS((own + count - 1) % count, next(at_target, PTL_EVENT_PUT).initiator.rank);
  IS((own + count - 1) % count, got);
  IS(PMI_SUCCESS, PMI_Barrier());
  WELL(PtlNIFini(ni));
  PtlFini();
  IS(PMI_SUCCESS, PMI_Finalize());
  printf("rank %d of %d%s\n", own, count, getenv("OMPI_MCA_orte_precondition_transports") ? ", with a secret" : "");
}
