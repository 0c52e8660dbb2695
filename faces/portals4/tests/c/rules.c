#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rules.h"

struct rule *rules;
ptl_handle_ni_t ni;
ptl_handle_eq_t at_target, at_initiator;
ptl_pt_index_t portal;
ptl_process_t self, everybody;
ptl_ni_limits_t limits;

void fail(const char *file, int line, const char *what, long long got, long long wanted) {
  fprintf(stderr, "%s:%d: %s is %lld and not %lld\n", file, line, what, got, wanted);
  exit(1);
}

void open_interface(unsigned options, const ptl_ni_limits_t *desired) {
  WELL(PtlInit());
  WELL(PtlNIInit(PTL_IFACE_DEFAULT, options, PTL_PID_ANY, desired, &limits, &ni));
  if (options & PTL_NI_LOGICAL) {
    ptl_process_t physical;
    WELL(PtlGetPhysId(ni, &physical));
    WELL(PtlSetMap(ni, 1, &physical));
    everybody.phys.pid = 0;
    everybody.rank = PTL_RANK_ANY;
  } else {
    everybody.phys.nid = PTL_NID_ANY;
    everybody.phys.pid = PTL_PID_ANY;
  }
  WELL(PtlGetId(ni, &self));
}

void begin_with(unsigned options, unsigned portal_options) {
  open_interface(options, NULL);
  WELL(PtlEQAlloc(ni, 64, &at_target));
  WELL(PtlEQAlloc(ni, 64, &at_initiator));
  WELL(PtlPTAlloc(ni, portal_options, at_target, PTL_PT_ANY, &portal));
  IS(0, portal);
}

void begin(unsigned options) { begin_with(options, 0); }

ptl_handle_md_t bind_memory(void *start, ptl_size_t length, unsigned options, ptl_handle_ct_t ct) {
  ptl_md_t md = {start, length, options, at_initiator, ct};
  ptl_handle_md_t handle;
  WELL(PtlMDBind(ni, &md, &handle));
  return handle;
}

ptl_me_t entry(void *start, ptl_size_t length, unsigned options) {
  ptl_me_t me;
  memset(&me, 0xa5, sizeof(me)); /* what an option does not ask for is not looked at */
  me.start = start;
  me.length = length;
  me.ct_handle = PTL_CT_NONE;
  me.uid = PTL_UID_ANY;
  me.options = options;
  me.match_id = everybody;
  me.match_bits = 0;
  me.ignore_bits = 0;
  return me;
}

ptl_handle_me_t append(const ptl_me_t *me, ptl_list_t list, void *user_ptr) {
  ptl_handle_me_t handle;
  WELL(PtlMEAppend(ni, portal, me, list, user_ptr, &handle));
  if (!(me->options & PTL_ME_EVENT_LINK_DISABLE)) {
    ptl_event_t event = next(at_target, PTL_EVENT_LINK);
    IS(PTL_NI_OK, event.ni_fail_type);
    CHECK(event.user_ptr == user_ptr && event.pt_index == portal);
  }
  return handle;
}

ptl_handle_le_t append_le(void *start, ptl_size_t length, unsigned options, ptl_list_t list, void *user_ptr) {
  ptl_le_t le = {start, length, PTL_CT_NONE, PTL_UID_ANY, options};
  ptl_handle_le_t handle;
  WELL(PtlLEAppend(ni, portal, &le, list, user_ptr, &handle));
  if (!(options & PTL_LE_EVENT_LINK_DISABLE))
    CHECK(next(at_target, PTL_EVENT_LINK).user_ptr == user_ptr);
  return handle;
}

ptl_handle_ct_t counter(void) {
  ptl_handle_ct_t ct;
  WELL(PtlCTAlloc(ni, &ct));
  return ct;
}

void put(ptl_handle_md_t md, ptl_size_t length, ptl_ack_req_t ack, ptl_match_bits_t bits, ptl_size_t remote_offset) {
  WELL(PtlPut(md, 0, length, ack, self, portal, bits, remote_offset, (void *)0x55, 0x1234567890));
}

ptl_event_t next(ptl_handle_eq_t eq, ptl_event_kind_t kind) {
  ptl_event_t event;
  unsigned which = 7;
  WELL(PtlEQPoll(&eq, 1, 10000, &event, &which));
  IS(0, which);
  IS(kind, event.type);
  return event;
}

void nothing(ptl_handle_eq_t eq) {
  ptl_event_t event;
  IS(PTL_EQ_EMPTY, PtlEQGet(eq, &event));
}

ptl_event_t acknowledged(ptl_ni_fail_t fail_type) {
  ptl_event_t event = next(at_initiator, PTL_EVENT_SEND);
  IS(PTL_NI_OK, event.ni_fail_type);
  CHECK(event.user_ptr == (void *)0x55);
  event = next(at_initiator, PTL_EVENT_ACK);
  IS(fail_type, event.ni_fail_type);
  CHECK(event.user_ptr == (void *)0x55);
  return event;
}

ptl_ct_event_t reached(ptl_handle_ct_t ct, ptl_size_t test) {
  ptl_ct_event_t event;
  unsigned which;
  WELL(PtlCTPoll(&ct, &test, 1, 10000, &event, &which));
  return event;
}

int status_of(ptl_sr_index_t which) {
  ptl_sr_value_t value = -1;
  WELL(PtlNIStatus(ni, which, &value));
  return value;
}

int rank;
pid_t child;
ptl_process_t peer;
static int wire;

void tell(const void *bytes, size_t length) { IS(length, write(wire, bytes, length)); }
void listen_to(void *bytes, size_t length) { IS(length, read(wire, bytes, length)); }
void say(char word) { tell(&word, 1); }

void hear(char word) {
  char heard = 0;
  listen_to(&heard, 1);
  IS(word, heard);
}

void meet(void) {
  say('m');
  hear('m');
}

void start_two(unsigned options) {
  int ends[2];
  ptl_process_t map[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  child = fork();
  CHECK(child >= 0);
  rank = child == 0;
  wire = ends[rank];
  close(ends[!rank]);
  WELL(PtlInit());
  WELL(PtlNIInit(PTL_IFACE_DEFAULT, options, PTL_PID_ANY, NULL, &limits, &ni));
  WELL(PtlGetPhysId(ni, &map[rank]));
  tell(&map[rank], sizeof(map[0]));
  listen_to(&map[!rank], sizeof(map[0]));
  CHECK(map[0].phys.pid != map[1].phys.pid);
  if (options & PTL_NI_LOGICAL) {
    WELL(PtlSetMap(ni, 2, map));
    WELL(PtlGetId(ni, &self));
    IS(rank, self.rank);
    peer = (ptl_process_t){.rank = (ptl_rank_t)!rank};
    everybody = (ptl_process_t){.rank = PTL_RANK_ANY};
  } else {
    self = map[rank];
    peer = map[!rank];
    everybody = (ptl_process_t){.phys = {PTL_NID_ANY, PTL_PID_ANY}};
  }
  WELL(PtlEQAlloc(ni, 256, &at_target));
  WELL(PtlEQAlloc(ni, 256, &at_initiator));
  WELL(PtlPTAlloc(ni, 0, at_target, PTL_PT_ANY, &portal));
}

void finish_two(void) {
  int status;
  meet();
  PtlFini();
  if (rank == 1) exit(0);
  IS(child, waitpid(child, &status, 0));
  IS(0, status);
}

void put_to_peer(ptl_handle_md_t md, ptl_size_t length, ptl_ack_req_t ack, ptl_match_bits_t bits) {
  WELL(PtlPut(md, 0, length, ack, peer, portal, bits, 0, (void *)0x55, 0x1234567890));
}

/* Without a word: the names of the rules. With one: runs that rule. */
int main(int count, char **words) {
  for (struct rule *rule = rules; rule; rule = rule->next) {
    if (count < 2)
      printf("%s\n", rule->name);
    else if (strcmp(rule->name, words[1]) == 0) {
      rule->run();
      return 0;
    }
  }
  return count < 2 ? 0 : 2;
}
