/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRACE_CONTROL_H
#define TRACE_CONTROL_H

/*
 * The daemon's order to begin a trace (FRAME_TRACE), and the reply when the trace has ended
 * (FRAME_TRACE_END). Loop thread.
 */

#include <stdbool.h>

struct client_conn;
struct frame_trace;

/* Takes `fd'. */
void trace_control_begin(const struct frame_trace *frame, int fd);

/*
 * Replies to the daemon when all sessions have left a trace. True: some have not, so call
 * it again soon.
 */
bool trace_control_look(const struct client_conn *conns);

#endif
