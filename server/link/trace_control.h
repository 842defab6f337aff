/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRACE_CONTROL_H
#define TRACE_CONTROL_H

/*
 * The daemon's orders to begin and to end a trace (FRAME_TRACE, FRAME_TRACE_END). Loop
 * thread.
 */

#include <stdbool.h>
#include <stdint.h>

struct client_conn;
struct frame_trace;
struct frame_trace_end;

/* Takes `fd'. */
void trace_control_begin(const struct frame_trace *frame, int fd);

/* True: as trace_control_look(). */
bool trace_control_end(const struct frame_trace_end *frame, const struct client_conn *conns);

/* The daemon has gone: nobody reads the traces any more. True: call trace_control_look() soon. */
bool trace_control_drop(void);

/*
 * Replies to the daemon when all sessions have left a trace. True: some have not, so call
 * it again soon.
 */
bool trace_control_look(const struct client_conn *conns);

#endif
