/* Fast Messages 1.1: whole messages, four words at a time or as long as wanted. */
#include <packhorse/fm1.h>
#include <stdio.h>

enum { WORDS = 1, BULK = 2, COUNT = 100, LENGTH = 50000 };

static unsigned word_sum, bulk_count, wrong_count;

static void on_words(void *buffer, size_t size, unsigned sender)
{
    const unsigned *words = buffer;
    wrong_count += size != 16 || sender != 0;
    word_sum += words[0] + words[1] + words[2] + words[3];
}

static void on_bulk(void *buffer, size_t size, unsigned sender)
{
    const unsigned char *bytes = buffer;
    wrong_count += size != LENGTH || sender != 0;
    for (unsigned at = 0; at < size; at++)
        wrong_count += bytes[at] != (unsigned char)(at * 3);
    bulk_count++;
}

int main(void)
{
    static unsigned char bulk[LENGTH];
    if (FM_initialize())
        return 1;
    FM_set_handler_1(WORDS, on_words);
    FM_set_handler_1(BULK, on_bulk);
    for (unsigned at = 0; at < LENGTH; at++)
        bulk[at] = (unsigned char)(at * 3);
    if (FM_node_id() == 0) {
        for (unsigned number = 0; number < COUNT; number++) {
            FM_send_4(1, WORDS, number, 1, 2, 3);
            FM_send(1, BULK, bulk, LENGTH);
        }
    } else {
        while (bulk_count < COUNT)
            FM_extract();
        printf("%u messages, sum %u, %u wrong\n", bulk_count, word_sum, wrong_count);
    }
    FM_finalize();
    return wrong_count != 0;
}
