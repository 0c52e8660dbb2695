/* The paper's handler: first the header, which tells where the payload is to go; then the payload, straight to its place. */
#include <packhorse/fm.h>
#include <stdio.h>
#include <string.h>

enum { MESSAGE = 1, COUNT = 100, LONG = 100000 };

struct header {
    unsigned length;
    unsigned is_little;
};

static char little[64];
static char big[LONG];
static int message_count, wrong_count;

static char byte_at(unsigned at)
{
    return (char)(at * 7 + at / 251);
}

static int on_message(FM_stream *stream, unsigned sender)
{
    struct header header;
    FM_receive(&header, stream, sizeof header);
    char *to = header.is_little ? little : big;
    if (FM_receive(to, stream, header.length) != (long)header.length)
        wrong_count++;
    for (unsigned at = 0; at < header.length; at++)
        wrong_count += to[at] != byte_at(at);
    if (FM_receive(little, stream, 1) != 0)
        wrong_count++; /* there is no more */
    if (FM_extract(1) != FM_ERROR_IN_HANDLER)
        wrong_count++;
    (void)sender;
    message_count++;
    return FM_CONTINUE;
}

static int on_impatient(FM_stream *stream, unsigned sender)
{
    (void)stream, (void)sender; /* returns early: the rest is thrown away */
    message_count++;
    return FM_CONTINUE;
}

int main(void)
{
    FM_handler *handlers[] = { 0, on_message, on_impatient };
    if (FM_initialize())
        return 1;
    FM_set_handlers(handlers, 3);
    static char payload[LONG];
    for (unsigned at = 0; at < LONG; at++)
        payload[at] = byte_at(at);
    if (FM_node_id() == 0) {
        for (int number = 0; number < COUNT; number++) {
            struct header header = { number % 2 ? 40 : LONG - number, number % 2 };
            FM_stream *stream = FM_begin_message(1, 0, number % 10 == 9 ? 2 : MESSAGE);
            FM_send_piece(stream, &header, sizeof header);
            unsigned half = header.length / 2;
            FM_send_piece(stream, payload, half);
            FM_send_piece(stream, payload + half, header.length - half);
            FM_end_message(stream);
        }
    }
    while (FM_node_id() == 1 && message_count < COUNT)
        FM_extract(10000);
    if (FM_node_id() == 1)
        printf("%d messages, %d wrong\n", message_count, wrong_count);
    FM_finalize();
    return wrong_count != 0;
}
