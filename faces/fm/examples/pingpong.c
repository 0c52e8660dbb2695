/* Two nodes send a message of eight bytes to and fro. */
#include <packhorse/fm.h>
#include <stdio.h>
#include <time.h>

enum { PING = 1, ROUNDS = 1000 };

static int round_count;

static int on_ping(FM_stream *stream, unsigned sender)
{
    long long number;
    if (FM_receive(&number, stream, sizeof number) != sizeof number)
        return FM_CONTINUE;
    round_count++;
    if (FM_node_id() == 1 || round_count < ROUNDS) {
        FM_stream *answer = FM_begin_message(sender, sizeof number, PING);
        number++;
        FM_send_piece(answer, &number, sizeof number);
        FM_end_message(answer);
    }
    return FM_CONTINUE;
}

int main(void)
{
    int error = FM_initialize();
    if (error) {
        fprintf(stderr, "pingpong: %s\n", FM_error_text(error));
        return 1;
    }
    FM_set_handler(PING, on_ping);
    struct timespec began, ended;
    clock_gettime(CLOCK_MONOTONIC, &began);
    if (FM_node_id() == 0) {
        long long number = 0;
        FM_stream *message = FM_begin_message(1, sizeof number, PING);
        FM_send_piece(message, &number, sizeof number);
        FM_end_message(message);
    }
    while (FM_node_id() < 2 && round_count < ROUNDS)
        FM_extract(4096);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    if (FM_node_id() == 0) {
        double us = (ended.tv_sec - began.tv_sec) * 1e6 + (ended.tv_nsec - began.tv_nsec) / 1e3;
        printf("%d round trips, %.2f us each\n", ROUNDS, us / ROUNDS);
    }
    FM_finalize();
    return 0;
}
