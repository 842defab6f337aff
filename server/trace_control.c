/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Begin and end of the server's trace. Loop thread.
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
	if (trace_begin(fd, frame->uid) < 0)
		reply_end(server, frame->id, 0);
	else
		server->trace = (struct trace_control){.id = frame->id};
}

void trace_control_end(struct server *server, const struct frame_trace_end *frame)
{
	if (!trace_is_open() || server->trace.id != frame->id)
		return;
	server->trace.is_ending = true;
	trace_end();
	if (trace_control_look(server))
		server_start_tick(server);
}

void trace_control_drop(struct server *server)
{
	if (!trace_is_open())
		return;
	server->trace = (struct trace_control){.is_ending = true};
	trace_end();
	server_start_tick(server);
}

bool trace_control_look(struct server *server)
{
	struct trace_control *control = &server->trace;
	uint64_t n_lost;

	if (!control->is_ending)
		return false;
	if (!trace_close_memory(&n_lost)) {
		/* A worker may just have fallen asleep: the caller repeats this. */
		for (struct client_conn *conn = server->conns; conn; conn = conn->next)
			ring_interrupt(&conn->session->receiver);
		return true;
	}
	control->is_ending = false;
	if (control->id)
		reply_end(server, control->id, n_lost);
	return false;
}
