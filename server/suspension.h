/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SUSPENSION_H
#define SUSPENSION_H

/*
 * The suspension of a client by the operator (suspend_client). The worker fetches no message any
 * more, and the client's work on the GPUs ends. Then its memory leaves the GPUs (eviction.h), also
 * where `oversubscribe' is off. Calls of the client that need an answer wait, for as long as the
 * operator wants. The worker still ends with its session.
 *
 * The server holds the state, and tells each new daemon.
 */

#include <stdatomic.h>
#include <stdbool.h>

#include "base.h"
#include "server/session/session.h"

struct client_conn;
struct frame_suspend;

/* ---- the loop */

/* Carries out an order of the daemon, and replies. suspensions_look() has to follow. */
void suspension_take(struct client_conn *conn, const struct frame_suspend *order);

/*
 * The client comes from another server, and its worker has not started. suspension_notify()
 * follows.
 */
void suspension_restore(struct client_conn *conn, bool is_suspended, uint32_t number);

/* Tells the daemon the state if it has changed; if the daemon is new. */
void suspension_update(struct client_conn *conn);
void suspension_notify(struct client_conn *conn);

/* Wakes workers that have not noticed an order yet. Returns whether to call it again soon. */
bool suspensions_look(const struct client_conn *conns);

/* ---- the worker */

/* Between two runs of messages: whether to call suspension_hold(), or departure_hold() after it. */
static inline bool suspension_is_wanted(const struct session *session)
{
	return unlikely(atomic_load_explicit(&session->is_held, memory_order_relaxed));
}

/*
 * Looks after the work that is left of a held session: SUSPENSION_BEGUN, SUSPENSION_AT_REST or
 * SUSPENSION_BLOCKED.
 */
enum suspension suspension_look(struct session *session);

/*
 * Returns when the client is resumed or moves, when the session ends, or when a trace begins or
 * ends.
 */
void suspension_hold(struct session *session);

#endif
