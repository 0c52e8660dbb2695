/* One process on a host with two boards: how endpoints spread over them; and a board that loses its address. */
#include <stdlib.h>

#include "calls.h"

#define KEY 0x888

static uint64_t ids[3];

static void is_at(mx_endpoint_t ep, uint32_t board, uint32_t index) {
  mx_endpoint_addr_t address;
  uint64_t nic_id;
  uint32_t found;
  WELL(CALL(mx_get_endpoint_addr)(ep, &address));
  WELL(CALL(mx_decompose_endpoint_addr)(address, &nic_id, &found));
  if (nic_id != ids[board] || found != index) {
    fprintf(stderr, "an endpoint at %012lx, %u, not at board %u, index %u\n", (unsigned long)nic_id, found, board, index);
    exit(1);
  }
}

static mx_endpoint_t opened(uint32_t board, uint32_t index) {
  mx_endpoint_t ep;
  WELL(CALL(mx_open_endpoint)(board, index, KEY, NULL, 0, &ep));
  return ep;
}

/* The same before and after an endpoint is open, and on all boards. */
static void look(void) {
  for (uint32_t board = 0; board < 2; board++) {
    uint32_t count = 0, speed = 77, number = 77;
    mx_mapper_state_t state;
    mx_endpt_handle_t handle;
    WELL(CALL(mx_get_info)(NULL, MX_NIC_COUNT, NULL, 0, &count, sizeof count));
    WELL(CALL(mx_get_info)(NULL, MX_LINE_SPEED, &board, sizeof board, &speed, sizeof speed));
    CHECK(count == 2 && speed == MX_SPEED_OPEN_MX);
    WELL(CALL(mx_nic_id_to_board_number)(ids[board], &number));
    CHECK(number == board);
    WELL(CALL(mx_open_board)((int)board, &handle));
    WELL(CALL(mx__get_mapper_state)(handle, &state));
    CHECK(state.board_number == board && memcmp(state.mapper_mac, "\0\0\0\0\0\0", 6) == 0);
  }
}

int main(void) {
  mx_endpoint_t none;
  find_functions();
  CALL(mx_set_error_handler)(errors_return);
  WELL(CALL(mx__init_api)(MX_API));
  WELL(CALL(mx_get_info)(NULL, MX_NIC_IDS, NULL, 0, ids, sizeof ids));
  CHECK(ids[0] != ids[1] && ids[2] == 0);
  look();
  /* Boards inside, indices outside. */
  is_at(opened(MX_ANY_NIC, MX_ANY_ENDPOINT), 0, 0);
  is_at(opened(MX_ANY_NIC, MX_ANY_ENDPOINT), 1, 0);
  mx_endpoint_t third = opened(MX_ANY_NIC, MX_ANY_ENDPOINT);
  is_at(third, 0, 1);
  look();
  RETURNS(MX_BUSY, CALL(mx_open_endpoint)(MX_ANY_NIC, 0, KEY, NULL, 0, &none));
  RETURNS(MX_BUSY, CALL(mx_open_endpoint)(0, 1, KEY, NULL, 0, &none));
  is_at(opened(MX_ANY_NIC, 1), 1, 1);
  is_at(opened(0, MX_ANY_ENDPOINT), 0, 2);
  WELL(CALL(mx_close_endpoint)(third));
  is_at(opened(MX_ANY_NIC, MX_ANY_ENDPOINT), 0, 1);
  is_at(opened(MX_ANY_NIC, 200), 0, 200);
  is_at(opened(MX_ANY_NIC, 200), 1, 200);
  /* A board that is asked for by name has no endpoint without an address; where any will do, another has. */
  CHECK(system("ip address flush dev m0") == 0);
  RETURNS(MX_NO_RESOURCES, CALL(mx_open_endpoint)(0, 9, KEY, NULL, 0, &none));
  is_at(opened(MX_ANY_NIC, MX_ANY_ENDPOINT), 1, 2);
  printf("all is as MX has it\n");
  return 0;
}
