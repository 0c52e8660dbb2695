/* A message longer than its receiver has room for (FM_WHOLE_MAX), between two that fit. */
#include <packhorse/fm1.h>
#include <stdio.h>

enum { BULK = 1, LENGTH = 5000000 };

static int call_count;

static void on_bulk(void *buffer, size_t size, unsigned sender)
{
    (void)buffer, (void)sender;
    printf("called with %zu bytes\n", size);
    call_count++;
}

int main(void)
{
    static char bulk[LENGTH];
    if (FM_initialize())
        return 1;
    FM_set_handler_1(BULK, on_bulk);
    if (FM_node_id() == 0) {
        FM_send(1, BULK, bulk, 100000);
        FM_send(1, BULK, bulk, LENGTH);
        FM_send(1, BULK, bulk, 99999);
    } else {
        while (call_count < 2)
            FM_extract();
        printf("%lu dropped\n", FM_dropped(FM_DROPPED_LONG));
    }
    FM_finalize();
    return 0;
}
