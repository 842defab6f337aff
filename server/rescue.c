/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Invariant: after a fault, each client that lives either is to survive, and its worker is held, or
 * its page has the fault.
 */

#include "rescue.h"

#include <stdio.h>

#include "frame.h"
#include "ring.h"
#include "server.h"
#include "server/util/log.h"
#include "server/session/fault.h"
#include "server/session/session.h"
#include "server/link/client.h"
#include "server/link/daemon_link.h"
#include "server/link/fault_report.h"
#include "server/link/survivor.h"

/* How long a worker may be in a call of the driver when the fault comes. */
#define WORKER_MS 4000

/*
 * How long survivors wait for the ends of the others, which say what they have launched last. To
 * give back much pinned memory takes longer.
 */
#define LAST_LAUNCH_MS 100

bool rescue_takes(const struct client_conn *conn)
{
	return conn->survives && !conn->is_ending;
}

static void send_reason(const struct client_conn *conn, const char *why)
{
	struct frame_fault_client frame = {
		.head = frame_head(FRAME_FAULT_CLIENT, 0), .client = conn->id};

	snprintf(frame.why, sizeof(frame.why), "%s", why);
	/* The successor's words may be among it; the daemon takes only printable ones. */
	for (char *c = frame.why; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
	daemon_link_send(&frame);
}

/* Why it was not chosen. */
static void send_first_reason(const struct server *server, const struct client_conn *conn)
{
	const enum survivor survivor =
		survivor_of(fault_get(), atomic_load(&conn->session->had_work));
	char why[MOVE_TEXT_MAX];

	if (survivor != SURVIVOR_YES)
		snprintf(why, sizeof(why), "it %s", survivor_text(survivor));
	else if (conn->stays_behind)
		snprintf(why, sizeof(why), "it cannot move to the next server");
	else
		snprintf(why, sizeof(why), "%s",
			server->is_stopping ? "the server is stopping" : "it is ending");
	send_reason(conn, why);
}

void rescue_report(const struct server *server)
{
	for (const struct client_conn *conn = server->conns; conn; conn = conn->next)
		if (!conn->survives && !conn->is_inactive && !conn->is_ending)
			send_first_reason(server, conn);
}

unsigned rescue_begin(struct server *server)
{
	const bool has_daemon = daemon_link_has_daemon() && !server->is_stopping;
	unsigned n = 0;

	for (struct client_conn *conn = server->conns; conn; conn = conn->next) {
		conn->survives = has_daemon && !conn->is_inactive && !conn->is_ending &&
				 !conn->stays_behind && fault_spares(conn->session);
		n += conn->survives;
	}
	return n;
}

bool rescue_has_any(const struct server *server)
{
	const struct client_conn *conn = server->conns;

	while (conn && !rescue_takes(conn))
		conn = conn->next;
	return conn != NULL;
}

/* It gets the error, as if it had had work. */
static void give_up(struct server *server, struct client_conn *conn, const char *why)
{
	conn->survives = false;
	log_line("Client " SESSION_NAME " does not survive the fault: %s",
		SESSION_NAME_ARGS(conn->session), why);
	send_reason(conn, why);
	session_notify_fault(conn->session, fault_get(), fault_report_pid(&server->fault_report));
}

/* Why the client does not survive, as far as that is known; NULL: it does. */
static const char *find_reason(
	const struct server *server, const struct client_conn *conn, uint64_t ms)
{
	const uint32_t state = atomic_load(&conn->session->departure);

	if (fault_report_is_hit(&server->fault_report, conn))
		return "the address of the fault is in its memory";
	if (state == DEPARTURE_STAYS)
		return conn->session->stays;
	if (state == DEPARTURE_PACKED && client_lacks_others(conn, server->conns, rescue_takes))
		return "it uses memory or an event of a client that does not survive";
	return state == DEPARTURE_PACKED || ms < WORKER_MS ? NULL
							   : "a call of the driver does not return";
}

static bool is_packed(struct session *session)
{
	if (atomic_load(&session->departure) == DEPARTURE_PACKED)
		return true;
	/* It may have gone to sleep just when it was held. */
	ring_interrupt(&session->receiver);
	return false;
}

/* This process will be gone before the workers of the others end. */
static void note_last_launches(struct server *server)
{
	for (const struct client_conn *conn = server->conns; conn; conn = conn->next)
		if (!rescue_takes(conn) && !conn->is_inactive)
			fault_report_note_end(&server->fault_report, conn);
}

bool rescue_look(struct server *server)
{
	const uint64_t ms = uv_now(&server->loop) - server->fault_ms;
	bool is_ready = !survivor_needs_address(fault_get()) ||
			!fault_report_awaits_address(&server->fault_report, ms);

	for (struct client_conn *conn = server->conns; conn; conn = conn->next) {
		const char *why = rescue_takes(conn) ? find_reason(server, conn, ms) : NULL;

		if (why) {
			give_up(server, conn, why);
			/* Others may need it. */
			is_ready = false;
		} else if (rescue_takes(conn))
			is_ready &= is_packed(conn->session);
		else if (ms < LAST_LAUNCH_MS)
			is_ready = false;
	}
	if (is_ready)
		note_last_launches(server);
	return is_ready;
}

void rescue_end(struct server *server, const char *why)
{
	server->fault_ms = uv_now(&server->loop);
	for (struct client_conn *conn = server->conns; conn; conn = conn->next)
		if (rescue_takes(conn))
			give_up(server, conn, why);
}
