/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Begin and end of the server's traces. Loop thread.
 *
 * Invariant: each FRAME_TRACE gets one FRAME_TRACE_END, unless the daemon goes.
 */

#include "trace_control.h"

#include "client.h"
#include "daemon_link.h"
#include "frame.h"
#include "ring.h"
#include "server/session/session.h"
#include "server/session/trace_writer.h"

static void reply_end(uint64_t id, uint64_t n_lost)
{
	struct frame_trace_end frame = {.id = id, .n_lost = n_lost};

	frame_init(&frame, FRAME_TRACE_END, 0);
	daemon_link_send(&frame);
}

void trace_control_begin(const struct frame_trace *frame, int fd)
{
	/* The workers of an earlier trace may still be in a long call. */
	if (trace_begin(frame->id, fd, frame->uid) < 0)
		reply_end(frame->id, 0);
}

bool trace_control_look(const struct client_conn *conns)
{
	uint64_t id, n_lost;

	while (trace_close_memory(&id, &n_lost))
		if (id)
			reply_end(id, n_lost);
	if (!trace_is_ending())
		return false;
	/* A worker may just have fallen asleep: the caller repeats this. */
	for (const struct client_conn *conn = conns; conn; conn = conn->next)
		ring_interrupt(&conn->session->receiver);
	return true;
}
