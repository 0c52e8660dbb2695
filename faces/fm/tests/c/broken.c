/* Node 0 dies in the middle of an FM 1.1 message. */
#include <packhorse/fm1.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

enum { BULK = 1, PIECES = 100, LENGTH = 50000 };

static void on_bulk(void *buffer, size_t size, unsigned sender)
{
    (void)buffer, (void)sender;
    printf("called with %zu bytes\n", size);
}

int main(void)
{
    static char piece[LENGTH];
    if (FM_initialize())
        return 1;
    FM_set_handler_1(BULK, on_bulk);
    if (FM_node_id() == 0) {
        FM_send(1, BULK, piece, 5);
        FM_stream *stream = FM_begin_message(1, 0, BULK);
        /* More than may be on its way: when all is sent, much of it was extracted. */
        for (int number = 0; number < PIECES; number++)
            FM_send_piece(stream, piece, LENGTH);
        kill(getpid(), SIGKILL);
    }
    while (FM_dropped(FM_DROPPED_BROKEN) == 0)
        FM_extract();
    printf("%lu dropped\n", FM_dropped(FM_DROPPED_BROKEN));
    FM_finalize();
    return 0;
}
