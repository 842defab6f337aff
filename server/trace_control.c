/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Begin and end of the server's traces. Loop thread.
 *
 * Invariant: each FRAME_TRACE gets one FRAME_TRACE_END, unless the daemon goes.
 */

#include "trace_control.h"

#include <unistd.h>

#include "ring.h"
#include "server.h"
#include "server/session/session.h"
#include "server/session/trace_writer.h"

static void reply_end(struct server *server, uint64_t id, uint64_t n_lost)
{
	struct frame_trace_end frame = {0};

	frame_init(&frame, FRAME_TRACE_END, 0);
	frame.id = id;
	frame.n_lost = n_lost;
	control_send(server, &frame);
}

void trace_control_begin(struct server *server, const struct frame_trace *frame, int fd)
{
	/* The workers of an earlier trace may still be in a long call. */
	if (trace_begin(frame->id, fd, frame->uid) < 0)
		reply_end(server, frame->id, 0);
}

void trace_control_end(struct server *server, const struct frame_trace_end *frame)
{
	if (trace_end(frame->id) && trace_control_look(server))
		server_start_tick(server);
}

void trace_control_drop(struct server *server)
{
	if (trace_end_all())
		server_start_tick(server);
}

bool trace_control_look(struct server *server)
{
	uint64_t id, n_lost;

	while (trace_close_memory(&id, &n_lost))
		if (id)
			reply_end(server, id, n_lost);
	if (!trace_is_ending())
		return false;
	/* A worker may just have fallen asleep: the caller repeats this. */
	for (struct client_conn *conn = server->conns; conn; conn = conn->next)
		ring_interrupt(&conn->session->receiver);
	return true;
}
