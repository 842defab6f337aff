/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Suspensions: orders and reports on the loop, and the wait of the worker.
 *
 * Invariant: the loop alone writes session::is_suspended, and the worker session::suspension. Each
 * change of the latter wakes the loop.
 */

#include "suspension.h"

#include "ring.h"
#include "shm.h"
#include "server/util/log.h"
#include "server/session/at_work.h"
#include "server/session/fault.h"
#include "server/session/session_part.h"
#include "server/session/trace_writer.h"
#include "server/schedule/blocked_streams.h"
#include "server/share/eviction.h"
#include "server/stream/stream.h"
#include "server/stream/tracer.h"
#include "server/memory/away.h"
#include "server/link/client.h"
#include "server/link/daemon_link.h"

/* How often to look whether the work has ended, at first and later; and how long to sleep then. */
#define LOOK_MIN_MS 1
#define LOOK_MAX_MS 100
#define REST_MS 60000

/* ---- the loop */

static enum suspension state_of(const struct client_conn *conn)
{
	enum suspension seen = (enum suspension)atomic_load(&conn->session->suspension);

	if (!atomic_load(&conn->session->is_suspended))
		return SUSPENSION_NONE;
	/* The worker has not noticed it yet. */
	return seen == SUSPENSION_NONE ? SUSPENSION_BEGUN : seen;
}

void suspension_notify(struct client_conn *conn)
{
	struct frame_suspend frame = {.client = conn->id, .number = conn->suspend_number};

	conn->suspension_told = state_of(conn);
	frame.state = conn->suspension_told;
	frame_init(&frame, FRAME_SUSPENDED, 0);
	daemon_link_send(&frame);
}

void suspension_update(struct client_conn *conn)
{
	if (state_of(conn) != conn->suspension_told)
		suspension_notify(conn);
}

static void log_change(const struct client_conn *conn, bool is_suspended)
{
	log_line("Client " SESSION_NAME " is %s by the operator", SESSION_NAME_ARGS(conn->session),
		is_suspended ? "suspended" : "resumed");
}

/* Returns whether it is new. */
static bool set_suspended(struct client_conn *conn, bool is_suspended)
{
	struct session *session = conn->session;
	bool was_suspended = atomic_exchange(&session->is_suspended, is_suspended);

	atomic_store(&session->is_held, is_suspended || atomic_load(&session->is_moving));
	shm_store32(&session->page->is_suspended, is_suspended);
	eviction_hold(session, is_suspended);
	return is_suspended != was_suspended;
}

void suspension_restore(struct client_conn *conn, bool is_suspended, uint32_t number)
{
	conn->suspend_number = number;
	if (is_suspended)
		set_suspended(conn, true);
}

void suspension_take(struct client_conn *conn, const struct frame_suspend *order)
{
	bool is_suspended = order->state != SUSPENSION_NONE && !conn->is_terminated;

	conn->suspend_number = order->number;
	if (set_suspended(conn, is_suspended))
		log_change(conn, is_suspended);
	suspension_notify(conn);
	ring_interrupt(&conn->session->receiver);
}

bool suspensions_look(const struct client_conn *conns)
{
	bool is_any = false;

	for (const struct client_conn *conn = conns; conn; conn = conn->next) {
		const struct session *session = conn->session;
		bool has_noticed = atomic_load(&session->suspension) != SUSPENSION_NONE;

		if (conn->is_ending || atomic_load(&session->is_suspended) == has_noticed)
			continue;
		is_any = true;
		ring_interrupt(&conn->session->receiver);
	}
	return is_any;
}

/* ---- the worker */

enum suspension suspension_look(struct session *session)
{
	if (fault_get() != CUDA_SUCCESS)
		return SUSPENSION_BEGUN;
	each_part(session_parts, poll, session);
	if (fault_get() != CUDA_SUCCESS)
		return SUSPENSION_BEGUN;
	if (streams_poll(session)) {
		each_part(session_parts, trim, session, true);
		session_set_at_work(session, false);
		return SUSPENSION_AT_REST;
	}
	session_set_at_work(session, streams_are_at_work(session));
	return blocked_has(session) ? SUSPENSION_BLOCKED : SUSPENSION_BEGUN;
}

static bool goes_on(const struct session *session)
{
	return atomic_load(&session->is_suspended) && !atomic_load(&session->is_moving) &&
	       !atomic_load(&session->is_ending) && !trace_has_changed(session);
}

void suspension_hold(struct session *session)
{
	int sleep_ms = LOOK_MIN_MS;

	while (goes_on(session)) {
		enum suspension state = suspension_look(session);

		/* Its memory leaves first. Others may ask for what has stayed, later. */
		if (state == SUSPENSION_AT_REST &&
			atomic_load(&session->memory_wanted) & ~WANTED_STAYS)
			away_serve(session);
		session_note_suspension(session, state);
		tracer_poll(session);
		ring_pause(&session->receiver, state == SUSPENSION_AT_REST ? REST_MS : sleep_ms);
		sleep_ms = MIN(2 * sleep_ms, LOOK_MAX_MS);
	}
	if (!atomic_load(&session->is_suspended))
		session_note_suspension(session, SUSPENSION_NONE);
}
