/* What the tests of rules share: a rule is a function with a name that says which section of the semantics it is from, run in a process of its own. */
#ifndef RULES_H
#define RULES_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "portals4.h"

struct rule {
  const char *name;
  void (*run)(void);
  struct rule *next;
};
extern struct rule *rules;

#define RULE(rule_name)                                                                \
  static void rule_name(void);                                                         \
  __attribute__((constructor)) static void enlist_##rule_name(void) {                  \
    static struct rule entry = {#rule_name, rule_name, NULL};                          \
    entry.next = rules;                                                                \
    rules = &entry;                                                                    \
  }                                                                                    \
  static void rule_name(void)

void fail(const char *file, int line, const char *what, long long got, long long wanted);

#define CHECK(what) do { if (!(what)) fail(__FILE__, __LINE__, #what, 0, 1); } while (0)
#define IS(wanted, what)                                                               \
  do {                                                                                 \
    long long got_ = (long long)(what), wanted_ = (long long)(wanted);                 \
    if (got_ != wanted_) fail(__FILE__, __LINE__, #what, got_, wanted_);               \
  } while (0)
#define WELL(call) IS(PTL_OK, call)

/* An interface with two queues, of the target and of the initiator, and a portal at index 0. */
extern ptl_handle_ni_t ni;
extern ptl_handle_eq_t at_target, at_initiator;
extern ptl_pt_index_t portal;
extern ptl_process_t self, everybody;
extern ptl_ni_limits_t limits;

#define ME_PHYSICAL (PTL_NI_MATCHING | PTL_NI_PHYSICAL)
#define ME_LOGICAL (PTL_NI_MATCHING | PTL_NI_LOGICAL)
#define LE_PHYSICAL (PTL_NI_NO_MATCHING | PTL_NI_PHYSICAL)
#define LE_LOGICAL (PTL_NI_NO_MATCHING | PTL_NI_LOGICAL)
#define PUT_GET (PTL_ME_OP_PUT | PTL_ME_OP_GET)

void open_interface(unsigned options, const ptl_ni_limits_t *desired);
/* With a portal that has these options. */
void begin_with(unsigned options, unsigned portal_options);
void begin(unsigned options);

ptl_handle_md_t bind_memory(void *start, ptl_size_t length, unsigned options, ptl_handle_ct_t ct);
ptl_me_t entry(void *start, ptl_size_t length, unsigned options);
/* Appends, and takes its LINK if there is to be one. */
ptl_handle_me_t append(const ptl_me_t *me, ptl_list_t list, void *user_ptr);
ptl_handle_le_t append_le(void *start, ptl_size_t length, unsigned options, ptl_list_t list, void *user_ptr);
ptl_handle_ct_t counter(void);

void put(ptl_handle_md_t md, ptl_size_t length, ptl_ack_req_t ack, ptl_match_bits_t bits, ptl_size_t remote_offset);

/* The next event of a queue, within ten seconds, which is to be of this kind. */
ptl_event_t next(ptl_handle_eq_t eq, ptl_event_kind_t kind);
/* There is no event, nor will there be one of what was done before: all of it is acknowledged. */
void nothing(ptl_handle_eq_t eq);
/* SEND and then ACK with this failure. */
ptl_event_t acknowledged(ptl_ni_fail_t fail_type);
ptl_ct_event_t reached(ptl_handle_ct_t ct, ptl_size_t test);
int status_of(ptl_sr_index_t which);

/* Two processes of a host: rank 0 is the one that was started, rank 1 its child. Each has an interface with two queues and a portal, as above. */
extern int rank;
extern pid_t child;
extern ptl_process_t peer;

void start_two(unsigned options);
/* Both are done; the child ends here, and has ended well. */
void finish_two(void);
/* Words between the two that are no part of Portals: whoever hears waits in the kernel and calls nothing. */
void say(char word);
void hear(char word);
void meet(void);
void tell(const void *bytes, size_t length);
void listen_to(void *bytes, size_t length);
void put_to_peer(ptl_handle_md_t md, ptl_size_t length, ptl_ack_req_t ack, ptl_match_bits_t bits);

#endif
