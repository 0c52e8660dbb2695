/* A handler that recurses for ever; with "plain", a fault that has nothing to do with stacks. */
#include <packhorse/fm.h>
#include <string.h>

static volatile int is_plain;

static int deeper(int depth)
{
    volatile char room[512];
    room[0] = (char)depth;
    return depth == -1 ? room[0] : deeper(depth + 1) + room[0];
}

static int on_message(FM_stream *stream, unsigned sender)
{
    (void)stream, (void)sender;
    if (is_plain)
        *(volatile int *)8 = 1;
    return deeper(0);
}

int main(int count, char **words)
{
    is_plain = count > 1 && strcmp(words[1], "plain") == 0;
    if (FM_initialize())
        return 1;
    FM_set_handler(1, on_message);
    if (FM_node_id() == 0) {
        FM_end_message(FM_begin_message(1, 0, 1));
        FM_finalize();
        return 0;
    }
    for (;;)
        FM_extract_all();
}
