/* Two processes: `pair serve` answers, `pair NAME …` asks. What a peer is told, in order, with its bytes; a peer that closes, and one that dies. */
#define _GNU_SOURCE
#include <unistd.h>

#include "calls.h"

#define KEY 0x777
#define ALL MX_MATCH_MASK_NONE
#define LEN_MAX (1 << 20)
#define END 99

static unsigned char out_bytes[LEN_MAX], in_bytes[LEN_MAX];

static mx_status_t finish(mx_endpoint_t ep, mx_request_t request) {
  mx_status_t status;
  uint32_t result;
  WELL(CALL(mx_wait)(ep, &request, 60000, &status, &result));
  CHECK(result == 1);
  return status;
}

/* Sends each message back to whom it came from, who never was connected to. */
static void serve(mx_endpoint_t ep) {
  printf("ready\n");
  fflush(stdout);
  for (;;) {
    mx_segment_t segment = {in_bytes, LEN_MAX};
    mx_request_t request;
    void *context;
    WELL(CALL(mx_irecv)(ep, &segment, 1, 0, 0, NULL, &request));
    mx_status_t status = finish(ep, request);
    CHECK(status.code == MX_STATUS_SUCCESS);
    WELL(CALL(mx_get_endpoint_addr_context)(status.source, &context));
    CHECK(context == NULL || context == (void *)0x1234);
    WELL(CALL(mx_set_endpoint_addr_context)(status.source, (void *)0x1234));
    if (status.match_info == END)
      break;
    segment.segment_length = status.xfer_length;
    WELL(CALL(mx_isend)(ep, &segment, 1, status.source, status.match_info + 1000, NULL, &request));
    CHECK(finish(ep, request).code == MX_STATUS_SUCCESS);
  }
}

static void ask(mx_endpoint_t ep, mx_endpoint_addr_t peer) {
  static const uint32_t lens[] = {0, 8, 100, 4000, 32768, 40000, 100000, LEN_MAX};
  for (unsigned round = 0; round < 40; round++) {
    uint32_t len = lens[round % 8];
    mx_segment_t from = {out_bytes, len}, to = {in_bytes, LEN_MAX};
    mx_request_t send, receive;
    fill(out_bytes, len, round);
    memset(in_bytes, 0, len);
    WELL(CALL(mx_irecv)(ep, &to, 1, 1000 + round, ALL, NULL, &receive));
    if (round % 3 == 2)
      WELL(CALL(mx_issend)(ep, &from, 1, peer, round, NULL, &send));
    else
      WELL(CALL(mx_isend)(ep, &from, 1, peer, round, NULL, &send));
    mx_status_t status = finish(ep, receive);
    CHECK(status.code == MX_STATUS_SUCCESS && status.xfer_length == len && is_filled(in_bytes, len, round));
    CHECK(memcmp(&status.source, &peer, sizeof peer) == 0);
    CHECK(finish(ep, send).code == MX_STATUS_SUCCESS);
  }
}

/* Takes nothing but the word to close. */
static void close_when_told(mx_endpoint_t ep) {
  mx_request_t request;
  printf("ready\n");
  fflush(stdout);
  WELL(CALL(mx_irecv)(ep, NULL, 0, END, ALL, NULL, &request));
  CHECK(finish(ep, request).code == MX_STATUS_SUCCESS);
}

/* The peer closes its endpoint while a message is there that nobody took. */
static void send_to_one_that_closes(mx_endpoint_t ep, mx_endpoint_addr_t peer) {
  static const uint32_t lens[] = {8, LEN_MAX};
  mx_request_t sends[2], word;
  for (int index = 0; index < 2; index++) {
    mx_segment_t segment = {out_bytes, lens[index]};
    WELL(CALL(mx_issend)(ep, &segment, 1, peer, 1, NULL, &sends[index]));
  }
  WELL(CALL(mx_isend)(ep, NULL, 0, peer, END, NULL, &word));
  CHECK(finish(ep, word).code == MX_STATUS_SUCCESS);
  for (int index = 0; index < 2; index++) {
    mx_status_t status = finish(ep, sends[index]);
    CHECK(status.code == MX_STATUS_ENDPOINT_CLOSED && status.msg_length == lens[index] && status.xfer_length == 0);
  }
}

static mx_status_t send_when_told(mx_endpoint_t ep, mx_endpoint_addr_t peer) {
  mx_segment_t segment = {out_bytes, 8};
  mx_request_t send;
  printf("connected\n");
  fflush(stdout);
  CHECK(getchar() == 'x');
  WELL(CALL(mx_issend)(ep, &segment, 1, peer, 1, NULL, &send));
  return finish(ep, send);
}

/* The peer was killed after the connection: its host lives, and says that it is closed. */
static void send_to_the_dead(mx_endpoint_t ep, mx_endpoint_addr_t peer, uint64_t nic_id) {
  mx_status_t status = send_when_told(ep, peer);
  CHECK(status.code == MX_STATUS_ENDPOINT_CLOSED && status.xfer_length == 0);
  RETURNS(MX_CONNECTION_FAILED, CALL(mx_connect)(ep, nic_id, 3, KEY, 20000, &peer));
}

/* Its host is gone, and nobody speaks for it. */
static void send_to_nowhere(mx_endpoint_t ep, mx_endpoint_addr_t peer) {
  mx_status_t status = send_when_told(ep, peer);
  CHECK(status.code == MX_STATUS_ENDPOINT_UNREACHABLE && status.xfer_length == 0);
}

int main(int argc, char **argv) {
  mx_endpoint_t ep;
  mx_endpoint_addr_t peer;
  uint64_t nic_id;
  find_functions();
  CHECK(argc >= 2);
  CALL(mx_set_error_handler)(errors_return);
  WELL(CALL(mx__init_api)(MX_API));
  if (strcmp(argv[1], "taken") == 0) {
    RETURNS(MX_BUSY, CALL(mx_open_endpoint)(0, 3, KEY, NULL, 0, &ep));
    return 0;
  }
  if (strcmp(argv[1], "serve") == 0 || strcmp(argv[1], "close") == 0) {
    WELL(CALL(mx_open_endpoint)(0, 3, KEY, NULL, 0, &ep));
    (*argv[1] == 's' ? serve : close_when_told)(ep);
  } else {
    char name[80];
    WELL(CALL(mx_open_endpoint)(MX_ANY_NIC, 4, KEY, NULL, 0, &ep));
    mx_return_t found = CALL(mx_hostname_to_nic_id)(argv[1], &nic_id);
    if (argc > 2 && strcmp(argv[2], "nobody") == 0) {
      RETURNS(MX_HOST_NOT_FOUND, found);
      return 0;
    }
    WELL(found);
    WELL(CALL(mx_nic_id_to_hostname)(nic_id, name));
    CHECK(strcmp(name, argv[1]) == 0);
    mx_return_t made = CALL(mx_connect)(ep, nic_id, 3, KEY, 20000, &peer);
    if (argc > 2 && strcmp(argv[2], "locked") == 0) {
      RETURNS(MX_BAD_CONNECTION_KEY, made);
      return 0;
    }
    if (argc > 2 && strcmp(argv[2], "wrong") == 0) {
      RETURNS(MX_NIC_NOT_FOUND, made);
      return 0;
    }
    WELL(made);
    if (argc > 2 && strcmp(argv[2], "closed") == 0) {
      send_to_one_that_closes(ep, peer);
      return 0;
    }
    if (argc > 2 && strcmp(argv[2], "dead") == 0) {
      if (argc > 3)
        ask(ep, peer); /* they have met */
      send_to_the_dead(ep, peer, nic_id);
      return 0;
    }
    if (argc > 2 && strcmp(argv[2], "nowhere") == 0) {
      send_to_nowhere(ep, peer);
      return 0;
    }
    ask(ep, peer);
    mx_request_t last;
    WELL(CALL(mx_isend)(ep, NULL, 0, peer, END, NULL, &last));
    CHECK(finish(ep, last).code == MX_STATUS_SUCCESS);
  }
  WELL(CALL(mx_close_endpoint)(ep));
  WELL(CALL(mx_finalize)());
  printf("done\n");
  return 0;
}
