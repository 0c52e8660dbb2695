/* Fast Messages 2.x over Packhorse.
 *
 * A message is a stream of bytes to a handler of another node. Its sender gives it in pieces; its handler takes it apart in pieces
 * of its own choice, on a stack of its own, and is set aside inside FM_receive until enough has arrived. Handlers run inside
 * FM_extract and nowhere else.
 *
 * Calls that can fail return a negative FM_ERROR_...; FM_error_text tells what it means. One thread extracts, always the same. */
#ifndef PACKHORSE_FM_H
#define PACKHORSE_FM_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A message being sent (between FM_begin_message and FM_end_message) or received (inside its handler). */
typedef struct FM_stream FM_stream;

/* Handles a message: returns FM_CONTINUE. What it did not receive is thrown away. */
typedef int FM_handler(FM_stream *stream, unsigned sender);

/* Handles a message of the FM 1.1 calls: all of it, in one piece, which is gone when it returns. It is never called with less: a message whose
 * sender went before its end, or for which there is no room (FM_WHOLE_MAX bytes for all such messages together, 1 GiB without it), is dropped. */
typedef void FM_handler_1(void *buffer, size_t size, unsigned sender);

#define FM_CONTINUE 0

#define FM_ERROR_NOT_READY (-1)  /* FM_initialize was not called, or failed */
#define FM_ERROR_ARGUMENT (-2)   /* no such node, handler or stream */
#define FM_ERROR_IN_HANDLER (-3) /* FM_extract or FM_initialize inside a handler */
#define FM_ERROR_GONE (-4)       /* the node at the other end is gone */
#define FM_ERROR_LAUNCH (-5)     /* the nodes could not find each other; standard error says why */

/* Opens this node and waits until all others are there. Under mpirun or srun they find each other by PMIx; else
 * FM_HOSTS names a file with one "host:port" per node, FM_NODE says which line this node is, from 0, and FM_SECRET names a file with 64
 * hexadecimal digits, the same on all nodes, that only its owner can read. They wait for each other FM_WAIT seconds, 60 without it. */
int FM_initialize(void);

/* Waits until what was sent has been accepted, and closes. Inside a handler it ends the program with a message and abort: it would wait for
 * that very handler, and has no error to return. */
void FM_finalize(void);

/* This node, from 0, and how many there are. */
unsigned FM_node_id(void);
unsigned FM_node_count(void);

/* The handler with this number (0 to 65535), here. All nodes must agree on what a number means. */
int FM_set_handler(unsigned number, FM_handler *handler);
int FM_set_handler_1(unsigned number, FM_handler_1 *handler);

/* Handlers 0 to count - 1 at once; null entries are left out. */
int FM_set_handlers(FM_handler *const *table, unsigned count);

/* Begins a message. The size is a hint and may be 0: nobody needs to know it. Null if there is no such node. */
FM_stream *FM_begin_message(unsigned node, size_t size, unsigned handler);

/* Sends a piece of any size; it may be changed on return. Waits if the receiver has not extracted enough; never runs a handler. */
int FM_send_piece(FM_stream *stream, const void *piece, size_t size);

/* Ends a message; the stream is void then. Never waits. */
int FM_end_message(FM_stream *stream);

/* Inside a handler: receives so many bytes, fewer only if the message ends before. How many that were. A null buffer skips them. */
long FM_receive(void *buffer, FM_stream *stream, size_t size);

/* Runs handlers with what has arrived: at most so many bytes, rounded up to a packet. How many that were. */
long FM_extract(size_t bytes);

/* The same without a limit. */
long FM_extract_all(void);

/* FM 1.1: a whole message at once. */
int FM_send(unsigned node, unsigned handler, const void *buffer, size_t size);
int FM_send_4(unsigned node, unsigned handler, unsigned i0, unsigned i1, unsigned i2, unsigned i3);

/* How many messages no handler saw. The first few of each kind are told on standard error. */
#define FM_DROPPED_BROKEN 0  /* FM 1.1: their sender went before their end */
#define FM_DROPPED_LONG 1    /* FM 1.1: there was no room to put them together */
#define FM_DROPPED_OUTSIDE 2 /* their sender is no node of this job */
unsigned long FM_dropped(int why);

/* What an error means. */
const char *FM_error_text(int error);

#ifdef __cplusplus
}
#endif

#endif
