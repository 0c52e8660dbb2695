/* B.4, B.5, B.9 and B.11 where a message and a call of its target meet. Two processes of a host. */
#define _GNU_SOURCE
#include <sys/wait.h>
#include <unistd.h>

#include "rules.h"

enum { COUNT = 1000, LONG = 1 << 20 };

static char from[LONG], to[LONG], block[LONG];
static const ptl_size_t lengths[4] = {8, 0, 1500, 700};

/* Messages come while their entries are appended: each is found, one way or the other, by the entry that is next. */
RULE(B4_no_message_slips_between_the_look_back_and_the_link) {
  start_two(ME_PHYSICAL);
  ptl_handle_ct_t acked = counter();
  ptl_handle_md_t md = bind_memory(from, LONG, PTL_MD_EVENT_SEND_DISABLE | PTL_MD_EVENT_CT_ACK, acked);
  if (rank == 1) {
    ptl_handle_eq_t told;
    ptl_handle_me_t handle;
    WELL(PtlEQAlloc(ni, 4 * COUNT, &told));
    WELL(PtlPTAlloc(ni, 0, told, 3, &portal));
    unsigned silent = PTL_ME_EVENT_LINK_DISABLE | PTL_ME_EVENT_UNLINK_DISABLE;
    ptl_me_t me = entry(block, LONG, PTL_ME_OP_PUT | PTL_ME_EVENT_COMM_DISABLE | silent);
    append(&me, PTL_OVERFLOW_LIST, NULL);
    meet();
    me = entry(to, 2000, PTL_ME_OP_PUT | PTL_ME_USE_ONCE | silent);
    for (uintptr_t i = 0; i < COUNT; i++) {
      WELL(PtlMEAppend(ni, 3, &me, PTL_PRIORITY_LIST, (void *)i, &handle));
      if (i % 50 == 0) usleep(1000);
    }
    static char found[COUNT];
    int early = 0;
    for (int i = 0; i < COUNT; i++) {
      ptl_event_t event;
      unsigned which;
      WELL(PtlEQPoll(&told, 1, 20000, &event, &which));
      CHECK(event.type == PTL_EVENT_PUT || event.type == PTL_EVENT_PUT_OVERFLOW);
      IS((uintptr_t)event.user_ptr, event.hdr_data); /* the entry of its turn */
      CHECK(event.rlength == lengths[event.hdr_data % 4] && event.mlength == event.rlength);
      early += event.type == PTL_EVENT_PUT_OVERFLOW;
      IS(0, found[event.hdr_data]++);
    }
    nothing(told);
    fprintf(stderr, "%d of %d came first\n", early, COUNT);
  } else {
    portal = 3;
    meet();
    for (ptl_hdr_data_t i = 0; i < COUNT; i++)
      WELL(PtlPut(md, 0, lengths[i % 4], PTL_CT_ACK_REQ, peer, portal, 0, 0, NULL, i));
    IS(0, reached(acked, COUNT).failure);
  }
  finish_two();
}

/* Each entry is either taken by a message or can be unlinked: never both, never neither. */
RULE(B5_an_entry_is_taken_by_a_message_or_unlinked) {
  start_two(ME_PHYSICAL);
  ptl_handle_ct_t acked = counter();
  ptl_handle_md_t md = bind_memory(from, LONG, PTL_MD_EVENT_SEND_DISABLE | PTL_MD_EVENT_CT_ACK, acked);
  if (rank == 1) {
    static ptl_handle_me_t handles[2 * COUNT];
    ptl_handle_ct_t came = counter();
    unsigned silent = PTL_ME_EVENT_LINK_DISABLE | PTL_ME_EVENT_COMM_DISABLE | PTL_ME_EVENT_UNLINK_DISABLE;
    ptl_me_t me = entry(to, 2000, PTL_ME_OP_PUT | PTL_ME_USE_ONCE | PTL_ME_EVENT_CT_COMM | silent);
    me.ct_handle = came;
    for (int i = 0; i < 2 * COUNT; i++) handles[i] = append(&me, PTL_PRIORITY_LIST, NULL);
    meet();
    int unlinked = 0, gone = 0;
    for (int i = 2 * COUNT; i-- > 0;) { /* from behind: the two meet */
      int code;
      while ((code = PtlMEUnlink(handles[i])) == PTL_IN_USE) continue;
      CHECK(code == PTL_OK || code == PTL_ARG_INVALID);
      unlinked += code == PTL_OK;
      gone += code == PTL_ARG_INVALID;
    }
    meet(); /* all are answered */
    ptl_ct_event_t taken;
    WELL(PtlCTGet(came, &taken));
    CHECK(taken.success == (ptl_size_t)gone && gone + unlinked == 2 * COUNT);
    IS(COUNT - gone, status_of(PTL_SR_DROP_COUNT));
    WELL(PtlPTFree(ni, portal));
  } else {
    meet();
    for (int i = 0; i < COUNT; i++) put_to_peer(md, lengths[i % 4], PTL_CT_ACK_REQ, 0);
    for (ptl_ct_event_t now = {0, 0}; now.success + now.failure < COUNT;) WELL(PtlCTGet(acked, &now));
    meet();
  }
  finish_two();
}

/* Open MPI unlinks the entry of a long message where it reads that the last of it was fetched. */
RULE(B5_an_entry_is_out_of_use_before_its_event_can_be_read) {
  start_two(ME_PHYSICAL);
  static const ptl_size_t fetched[3] = {8, 5000, LONG};
  ptl_handle_md_t md = bind_memory(from, LONG, PTL_MD_EVENT_SEND_DISABLE, PTL_CT_NONE);
  for (int i = 0; i < 60; i++) {
    if (rank == 1) {
      ptl_me_t me = entry(to, LONG, PUT_GET | PTL_ME_EVENT_LINK_DISABLE);
      ptl_handle_me_t handle = append(&me, PTL_PRIORITY_LIST, NULL);
      say('r');
      next(at_target, i % 2 ? PTL_EVENT_GET : PTL_EVENT_PUT);
      WELL(PtlMEUnlink(handle));
      hear('d');
    } else {
      hear('r');
      if (i % 2) {
        WELL(PtlGet(md, 0, fetched[i % 3], peer, portal, 0, 0, NULL));
        IS(PTL_NI_OK, next(at_initiator, PTL_EVENT_REPLY).ni_fail_type);
      } else {
        put_to_peer(md, fetched[i % 3], PTL_ACK_REQ, 0);
        IS(PTL_NI_OK, next(at_initiator, PTL_EVENT_ACK).ni_fail_type);
      }
      say('d');
    }
  }
  finish_two();
}

/* Whoever disables a portal finds it quiet: what was accepted is there, and nothing comes behind. */
RULE(B9_who_disables_a_portal_waits_for_what_is_under_way) {
  start_two(ME_PHYSICAL);
  ptl_handle_md_t md = bind_memory(from, LONG, PTL_MD_EVENT_SEND_DISABLE, PTL_CT_NONE);
  memset(from, 1, LONG);
  if (rank == 1) {
    ptl_me_t me = entry(to, LONG, PTL_ME_OP_PUT);
    append(&me, PTL_PRIORITY_LIST, NULL);
    for (int round = 0; round < 5; round++) {
      ptl_event_t event;
      int came = 1;
      say('r');
      next(at_target, PTL_EVENT_PUT);
      WELL(PtlPTDisable(ni, portal));
      while (PtlEQGet(at_target, &event) == PTL_OK) came++; /* all that there will be */
      memset(to, 9, LONG);
      hear('d');
      for (int i = 0; i < LONG; i++) CHECK(to[i] == 9);
      nothing(at_target);
      tell(&came, sizeof(came));
      WELL(PtlPTEnable(ni, portal));
    }
  } else
    for (int round = 0; round < 5; round++) {
      int taken = 0, refused = 0, came;
      hear('r');
      for (int i = 0; i < 50; i++) put_to_peer(md, LONG / 4, PTL_ACK_REQ, 0);
      for (int i = 0; i < 50; i++) {
        ptl_event_t event = next(at_initiator, PTL_EVENT_ACK);
        CHECK(event.ni_fail_type == PTL_NI_OK || event.ni_fail_type == PTL_NI_PT_DISABLED);
        taken += event.ni_fail_type == PTL_NI_OK;
        refused += event.ni_fail_type == PTL_NI_PT_DISABLED;
      }
      say('d');
      listen_to(&came, sizeof(came));
      CHECK(taken == came && taken + refused == 50);
    }
  finish_two();
}

static const ptl_size_t brief[3] = {8, 0, 700}; /* whose events come in the order of matching */

/* Once one was refused none behind it is taken, however many entries are appended meanwhile, until the target says so. Then they are sent again. */
RULE(B9_none_slips_in_between_a_refusal_and_the_word_to_go_on) {
  start_two(ME_PHYSICAL);
  ptl_handle_md_t md = bind_memory(from, LONG, PTL_MD_EVENT_SEND_DISABLE, PTL_CT_NONE);
  if (rank == 1) {
    ptl_handle_eq_t told;
    WELL(PtlEQAlloc(ni, 4 * COUNT, &told));
    WELL(PtlPTAlloc(ni, PTL_PT_FLOWCTRL, told, 3, &portal));
    ptl_me_t me = entry(to, 2000, PTL_ME_OP_PUT | PTL_ME_USE_ONCE | PTL_ME_EVENT_LINK_DISABLE | PTL_ME_EVENT_UNLINK_DISABLE);
    ptl_hdr_data_t wanted = 0;
    say('r');
    while (wanted < COUNT) {
      ptl_event_t event;
      unsigned which;
      for (int i = 0; i < 20; i++) append(&me, PTL_PRIORITY_LIST, NULL);
      for (int stopped = 0; !stopped;) {
        WELL(PtlEQPoll(&told, 1, 20000, &event, &which));
        stopped = event.type == PTL_EVENT_PT_DISABLED;
        if (!stopped) IS(wanted++, event.hdr_data); /* none is missing, none comes before its turn */
        if (wanted == COUNT) break;
      }
      hear('s'); /* the other has heard of all that it sent */
      WELL(PtlPTEnable(ni, portal));
      say('g');
    }
  } else {
    portal = 3;
    hear('r');
    for (ptl_hdr_data_t begin = 0; begin < COUNT;) {
      ptl_hdr_data_t end = begin + 50 < COUNT ? begin + 50 : COUNT, taken = 0;
      for (ptl_hdr_data_t i = begin; i < end; i++)
        WELL(PtlPut(md, 0, brief[i % 3], PTL_ACK_REQ, peer, portal, 0, 0, NULL, i));
      for (ptl_hdr_data_t i = begin; i < end; i++) taken += next(at_initiator, PTL_EVENT_ACK).ni_fail_type == PTL_NI_OK;
      begin += taken;
      if (taken == end - (begin - taken) && begin < COUNT) continue; /* none was refused */
      say('s');
      hear('g');
    }
  }
  finish_two();
}

/* Of what is written to the same place the last one stays, and what is read behind a write is what was written. */
RULE(B11_short_writes_and_reads_of_one_place_keep_their_order) {
  start_two(ME_PHYSICAL);
  static const ptl_size_t sizes[4] = {8, 64, 1, 32};
  ptl_me_t me = entry(to, 64, PUT_GET | PTL_ME_EVENT_COMM_DISABLE);
  append(&me, PTL_PRIORITY_LIST, NULL);
  meet();
  if (rank == 0) {
    static char values[COUNT][64], got[COUNT][64];
    ptl_handle_ct_t done = counter();
    ptl_handle_md_t md = bind_memory(values, sizeof(values), PTL_MD_EVENT_SEND_DISABLE, PTL_CT_NONE), back;
    ptl_md_t description = {got, sizeof(got), PTL_MD_EVENT_CT_REPLY, PTL_EQ_NONE, done};
    WELL(PtlMDBind(ni, &description, &back));
    for (ptl_size_t i = 0; i < COUNT; i++) {
      memset(values[i], (int)(i % 251), 64);
      WELL(PtlPut(md, 64 * i, sizes[i % 4], PTL_NO_ACK_REQ, peer, portal, 0, 0, NULL, 0));
      WELL(PtlGet(back, 64 * i, sizes[i % 4], peer, portal, 0, 0, NULL));
    }
    IS(0, reached(done, COUNT).failure);
    for (int i = 0; i < COUNT; i++) CHECK(memcmp(got[i], values[i], sizes[i % 4]) == 0);
  }
  finish_two();
}

RULE(B7_nobody_there_is_told) {
  ptl_event_t event;
  begin(ME_PHYSICAL);
  ptl_handle_md_t md = bind_memory(from, 8, 0, PTL_CT_NONE);
  self.phys.pid = 1; /* nobody has that */
  put(md, 8, PTL_ACK_REQ, 0, 0);
  event = next(at_initiator, PTL_EVENT_SEND);
  IS(PTL_NI_UNDELIVERABLE, event.ni_fail_type);
  IS(PTL_NI_UNDELIVERABLE, next(at_initiator, PTL_EVENT_ACK).ni_fail_type);
  WELL(PtlGet(md, 0, 8, self, portal, 0, 0, NULL));
  IS(PTL_NI_UNDELIVERABLE, next(at_initiator, PTL_EVENT_REPLY).ni_fail_type);
}

/* A process that ends, and another that takes its pid: what is sent behind that is for the new one. */
RULE(B7_who_takes_the_pid_of_one_that_ended_is_found) {
  start_two(ME_PHYSICAL);
  ptl_handle_md_t md = bind_memory(from, 8, 0, PTL_CT_NONE);
  for (int round = 0; round < 3; round++) {
    if (rank == 1) {
      ptl_me_t me = entry(to, 8, PTL_ME_OP_PUT);
      append(&me, PTL_PRIORITY_LIST, NULL);
      say('r');
      next(at_target, PTL_EVENT_PUT);
      hear('d');
      ptl_pid_t pid = self.phys.pid;
      PtlFini();
      say('e');
      hear('e');
      WELL(PtlInit());
      int code;
      do /* a rule that runs beside this one may have drawn that pid meanwhile, and gives it back at its end */
        code = PtlNIInit(PTL_IFACE_DEFAULT, ME_PHYSICAL, pid, NULL, NULL, &ni);
      while (code == PTL_PID_IN_USE);
      WELL(code);
      WELL(PtlEQAlloc(ni, 64, &at_target));
      WELL(PtlPTAlloc(ni, 0, at_target, PTL_PT_ANY, &portal));
    } else {
      hear('r');
      put_to_peer(md, 8, PTL_ACK_REQ, 0);
      acknowledged(PTL_NI_OK);
      say('d');
      hear('e');
      if (round == 1) { /* nobody is there just then */
        put_to_peer(md, 8, PTL_ACK_REQ, 0);
        next(at_initiator, PTL_EVENT_SEND);
        IS(PTL_NI_UNDELIVERABLE, next(at_initiator, PTL_EVENT_ACK).ni_fail_type);
      }
      say('e');
    }
  }
  finish_two();
}
