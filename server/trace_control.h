/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRACE_CONTROL_H
#define TRACE_CONTROL_H

/*
 * The daemon's orders to begin and to end a trace (FRAME_TRACE, FRAME_TRACE_END). Loop
 * thread.
 */

#include <stdbool.h>
#include <stdint.h>

struct frame_trace;
struct frame_trace_end;
struct server;

/* Takes `fd'. */
void trace_control_begin(struct server *server, const struct frame_trace *frame, int fd);

void trace_control_end(struct server *server, const struct frame_trace_end *frame);

/* The daemon has gone: nobody reads the traces any more. */
void trace_control_drop(struct server *server);

/*
 * Replies to the daemon when all sessions have left a trace. True: some have not, so call
 * it again soon.
 */
bool trace_control_look(struct server *server);

#endif
