/* The rules between two processes of a host. */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/wait.h>

#include "rules.h"

#define LONG (1 << 20)

static char *from, *to;

static void start(unsigned options) {
  from = malloc(LONG);
  to = calloc(LONG, 1);
  CHECK(from && to);
  start_two(options);
  for (int i = 0; i < LONG; i++) from[i] = (char)(i * 7 + rank);
}

static void exchange(unsigned options) {
  static const ptl_size_t lengths[] = {0, 1, 8, 1000, 2000, 40000, LONG};
  start(options);
  if (options & PTL_NI_MATCHING) {
    ptl_me_t me = entry(to, LONG, PUT_GET);
    append(&me, PTL_PRIORITY_LIST, (void *)7);
  } else
    append_le(to, LONG, PUT_GET, PTL_PRIORITY_LIST, (void *)7);
  meet();
  ptl_handle_md_t md = bind_memory(from, LONG, 0, PTL_CT_NONE);
  for (unsigned i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
    memset(to, 0, lengths[i]);
    meet();
    put_to_peer(md, lengths[i], PTL_ACK_REQ, 0);
    IS(lengths[i], acknowledged(PTL_NI_OK).mlength);
    ptl_event_t event = next(at_target, PTL_EVENT_PUT);
    CHECK(event.mlength == lengths[i] && event.user_ptr == (void *)7 && event.hdr_data == 0x1234567890);
    if (options & PTL_NI_LOGICAL)
      IS(peer.rank, event.initiator.rank);
    else
      CHECK(event.initiator.phys.nid == peer.phys.nid && event.initiator.phys.pid == peer.phys.pid);
    for (ptl_size_t at = 0; at < lengths[i]; at++) IS((char)(at * 7 + !rank), to[at]);
    meet();
    memset(to, 9 + rank, LONG);
    meet();
    WELL(PtlGet(md, 0, lengths[i], peer, portal, 0, 0, NULL));
    event = next(at_initiator, PTL_EVENT_REPLY);
    CHECK(event.ni_fail_type == PTL_NI_OK && event.mlength == lengths[i]);
    for (ptl_size_t at = 0; at < lengths[i]; at++) IS(9 + !rank, from[at]);
    next(at_target, PTL_EVENT_GET);
    meet();
    for (int at = 0; at < LONG; at++) from[at] = (char)(at * 7 + rank);
  }
  finish_two();
}

RULE(B1_puts_and_gets_between_physical_match_interfaces) { exchange(ME_PHYSICAL); }
RULE(B1_puts_and_gets_between_logical_match_interfaces) { exchange(ME_LOGICAL); }
RULE(B1_puts_and_gets_between_physical_list_interfaces) { exchange(LE_PHYSICAL); }
RULE(B1_puts_and_gets_between_logical_list_interfaces) { exchange(LE_LOGICAL); }

RULE(B1_strangers_to_an_entry_are_told_why) {
  start(ME_PHYSICAL);
  if (rank == 1) {
    ptl_uid_t uid;
    WELL(PtlGetUid(ni, &uid));
    ptl_me_t me = entry(to, 64, PTL_ME_OP_PUT);
    me.match_bits = 1;
    me.uid = uid + 1;
    append(&me, PTL_PRIORITY_LIST, NULL);
    me = entry(to, 64, PTL_ME_OP_GET);
    me.match_bits = 2;
    append(&me, PTL_PRIORITY_LIST, NULL);
    say('r');
    hear('d');
    IS(1, status_of(PTL_SR_PERMISSION_VIOLATIONS));
    IS(1, status_of(PTL_SR_OPERATION_VIOLATIONS));
    IS(1, status_of(PTL_SR_DROP_COUNT));
    nothing(at_target);
  } else {
    hear('r');
    ptl_handle_md_t md = bind_memory(from, 64, 0, PTL_CT_NONE);
    static const ptl_ni_fail_t expected[3] = {PTL_NI_DROPPED, PTL_NI_PERM_VIOLATION, PTL_NI_OP_VIOLATION};
    for (ptl_match_bits_t bits = 0; bits < 3; bits++) {
      put_to_peer(md, 8, PTL_ACK_REQ, bits);
      acknowledged(expected[bits]);
    }
    say('d');
  }
  finish_two();
}

RULE(B4_a_message_that_came_first_is_found_by_its_entry) {
  start(ME_PHYSICAL);
  if (rank == 1) {
    ptl_me_t me = entry(to, LONG, PTL_ME_OP_PUT | PTL_ME_MANAGE_LOCAL);
    me.ignore_bits = UINT64_MAX;
    me.min_free = 0;
    append(&me, PTL_OVERFLOW_LIST, (void *)1);
    say('r');
    hear('s');
    next(at_target, PTL_EVENT_PUT);
    ptl_handle_me_t handle;
    me = entry(from, 100, PTL_ME_OP_PUT | PTL_ME_USE_ONCE | PTL_ME_EVENT_UNLINK_DISABLE);
    me.match_bits = 5;
    me.match_id = peer;
    WELL(PtlMEAppend(ni, portal, &me, PTL_PRIORITY_LIST, (void *)2, &handle));
    ptl_event_t event = next(at_target, PTL_EVENT_PUT_OVERFLOW);
    CHECK(event.start == to && event.user_ptr == (void *)2 && event.mlength == 40000 && event.rlength == 40000);
    IS((char)(39999 * 7), to[39999]);
  } else {
    hear('r');
    ptl_handle_md_t md = bind_memory(from, LONG, 0, PTL_CT_NONE);
    put_to_peer(md, 40000, PTL_ACK_REQ, 5);
    IS(PTL_OVERFLOW_LIST, acknowledged(PTL_NI_OK).ptl_list);
    say('s');
  }
  finish_two();
}

RULE(B8_a_trigger_fires_at_a_process_that_calls_nothing) {
  start(ME_PHYSICAL);
  ptl_me_t me = entry(to, LONG, PTL_ME_OP_PUT | PTL_ME_EVENT_CT_COMM);
  me.ct_handle = counter();
  append(&me, PTL_PRIORITY_LIST, NULL);
  ptl_handle_md_t md = bind_memory(from, LONG, 0, PTL_CT_NONE);
  if (rank == 1) {
    for (ptl_size_t i = 1; i <= 10; i++)
      WELL(PtlTriggeredPut(md, 0, 8, PTL_NO_ACK_REQ, peer, portal, 0, 0, NULL, i, me.ct_handle, i));
    say('r');
    hear('d'); /* calls nothing until all is over */
  } else {
    hear('r');
    for (ptl_size_t i = 1; i <= 10; i++) {
      put_to_peer(md, 8, PTL_NO_ACK_REQ, 0);
      IS(i, next(at_target, PTL_EVENT_PUT).hdr_data);
    }
    say('d');
  }
  finish_two();
}

RULE(B10_atomics_of_two_processes_do_not_disturb_each_other) {
  start(ME_PHYSICAL);
  int64_t *sum = (int64_t *)to, *one = (int64_t *)from;
  ptl_handle_ct_t done = counter();
  ptl_me_t me = entry(to, 64, PUT_GET | PTL_ME_EVENT_COMM_DISABLE);
  append(&me, PTL_PRIORITY_LIST, NULL);
  one[0] = 1;
  ptl_handle_md_t source = bind_memory(one, 8, PTL_MD_EVENT_SEND_DISABLE, PTL_CT_NONE);
  ptl_md_t description = {one + 1, 8, PTL_MD_EVENT_CT_REPLY, PTL_EQ_NONE, done};
  ptl_handle_md_t back;
  WELL(PtlMDBind(ni, &description, &back));
  meet();
  ptl_process_t both[2] = {rank ? peer : self, rank ? self : peer};
  for (ptl_size_t i = 0; i < 1000; i++) /* all on rank 0's word */
    WELL(PtlFetchAtomic(back, 0, source, 0, 8, both[0], portal, 0, 0, NULL, 0, PTL_SUM, PTL_INT64_T));
  IS(0, reached(done, 1000).failure);
  meet();
  if (rank == 0) IS(2000, sum[0]);
  finish_two();
}

RULE(B11_a_process_that_calls_nothing_receives_and_answers) {
  start(ME_PHYSICAL);
  ptl_handle_md_t md = bind_memory(from, LONG, 0, PTL_CT_NONE);
  if (rank == 1) {
    ptl_me_t me = entry(to, LONG, PUT_GET);
    append(&me, PTL_PRIORITY_LIST, NULL);
    say('r');
    hear('d');
    IS((char)(99 * 7), to[99]); /* there without a call */
  } else {
    hear('r');
    put_to_peer(md, LONG, PTL_ACK_REQ, 0);
    acknowledged(PTL_NI_OK);
    WELL(PtlGet(md, 0, LONG, peer, portal, 0, 0, NULL));
    IS(PTL_NI_OK, next(at_initiator, PTL_EVENT_REPLY).ni_fail_type);
    say('d');
  }
  finish_two();
}

RULE(B11_messages_match_in_the_order_issued_whatever_their_lengths) {
  start(ME_PHYSICAL);
  if (rank == 1) {
    ptl_me_t me = entry(to, LONG, PTL_ME_OP_PUT | PTL_ME_USE_ONCE | PTL_ME_EVENT_LINK_DISABLE | PTL_ME_EVENT_UNLINK_DISABLE);
    for (uintptr_t i = 0; i < 50; i++) append(&me, PTL_PRIORITY_LIST, (void *)i);
    say('r');
    for (int i = 0; i < 50; i++) {
      ptl_event_t event = next(at_target, PTL_EVENT_PUT);
      IS((uintptr_t)event.user_ptr, event.hdr_data);
    }
  } else {
    hear('r');
    ptl_handle_md_t md = bind_memory(from, LONG, PTL_MD_EVENT_SEND_DISABLE, PTL_CT_NONE);
    static const ptl_size_t lengths[3] = {8, 300000, 5000};
    for (uintptr_t i = 0; i < 50; i++)
      WELL(PtlPut(md, 0, lengths[i % 3], PTL_NO_ACK_REQ, peer, portal, 0, 0, NULL, i));
  }
  finish_two();
}

RULE(B7_what_is_sent_to_a_process_that_died_is_told) {
  start(ME_PHYSICAL);
  if (rank == 1) {
    ptl_me_t me = entry(to, LONG, PUT_GET);
    append(&me, PTL_PRIORITY_LIST, NULL);
    say('r');
    hear('n'); /* killed here */
  } else {
    int status;
    hear('r');
    ptl_handle_md_t md = bind_memory(from, LONG, 0, PTL_CT_NONE);
    put_to_peer(md, 8, PTL_ACK_REQ, 0);
    acknowledged(PTL_NI_OK);
    CHECK(kill(child, SIGKILL) == 0);
    IS(child, waitpid(child, &status, 0));
    put_to_peer(md, 8, PTL_ACK_REQ, 0);
    ptl_event_t event;
    unsigned which;
    do WELL(PtlEQPoll(&at_initiator, 1, 60000, &event, &which));
    while (event.type == PTL_EVENT_SEND);
    CHECK(event.type == PTL_EVENT_ACK && event.ni_fail_type == PTL_NI_UNDELIVERABLE);
    exit(0);
  }
}
