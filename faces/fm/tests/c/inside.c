/* What a handler must not call: of a stream, or with "whole" one of FM 1.1. */
#include <packhorse/fm.h>
#include <stdio.h>
#include <string.h>

static void misbehave(void)
{
    printf("extract %ld, initialize %d\n", FM_extract(1), FM_initialize());
    printf("node %u of %u\n", FM_node_id(), FM_node_count());
    fflush(stdout);
    FM_finalize();
    printf("finalized inside a handler\n");
}

static int on_message(FM_stream *stream, unsigned sender)
{
    (void)stream, (void)sender;
    misbehave();
    return FM_CONTINUE;
}

static void on_whole(void *buffer, size_t size, unsigned sender)
{
    (void)buffer, (void)size, (void)sender;
    misbehave();
}

int main(int count, char **words)
{
    int is_whole = count > 1 && strcmp(words[1], "whole") == 0;
    if (FM_initialize())
        return 1;
    if (is_whole)
        FM_set_handler_1(1, on_whole);
    else
        FM_set_handler(1, on_message);
    if (FM_node_id() == 0) {
        FM_send_4(1, 1, 1, 2, 3, 4);
        FM_finalize();
        return 0;
    }
    for (;;)
        FM_extract_all();
}
