/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Invariant: after a fault, each client that lives either is to survive, and its worker is held, or
 * its page has the fault.
 */

#include "rescue.h"

#include <stdio.h>

#include "bounds.h"
#include "clock.h"
#include "frame.h"
#include "ring.h"
#include "server.h"
#include "server/util/log.h"
#include "server/session/fault.h"
#include "server/session/session.h"
#include "server/session/session_part.h"
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

static bool has_lost_work(const struct session *session)
{
	return session->continues && atomic_load(&session->had_work);
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
	const enum survivor survivor = survivor_of(
		fault_get(), atomic_load(&conn->session->had_work), conn->session->continues);
	char why[MOVE_TEXT_MAX];

	if (survivor == SURVIVOR_HAD_WORK || survivor == SURVIVOR_NO_MEMORY)
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

/*
 * The fault may have changed what the client has, so the client gets the error: once if it goes on
 * all the same. Returns whether it does.
 */
static bool take_loss(struct session *session)
{
	if (session->continues)
		atomic_store(&session->had_work, true);
	return session->continues;
}

/* The client is ready, and uses what another one has that has lost work. */
static bool shares_loss(const struct server *server, struct session *session)
{
	for (const struct client_conn *other = server->conns; other; other = other->next)
		if (has_lost_work(other->session) && session_parts_need(session, other->session) &&
			!take_loss(session))
			return true;
	return false;
}

static bool is_beside_others(const struct server *server, const struct client_conn *conn)
{
	const struct client_conn *other = server->conns;

	while (other && (other->is_inactive || (other->program == conn->program &&
						       other->session->uid == conn->session->uid)))
		other = other->next;
	return other != NULL;
}

/* As the daemon does with a program that starts again, it gets no other chance beside others. */
static bool is_suspected_again(const struct server *server, const struct client_conn *conn)
{
	return has_lost_work(conn->session) && conn->suspected_ms > 0 &&
	       now_ms() - conn->suspected_ms < FAULT_MEMORY_MS &&
	       fault_report_suspects(&server->fault_report, conn) && is_beside_others(server, conn);
}

void rescue_note(struct client_conn *conn)
{
	const struct fault_report *report = &conn->server->fault_report;

	if (!has_lost_work(conn->session))
		return;
	if (fault_report_suspects(report, conn))
		conn->suspected_ms = now_ms();
	if (fault_report_client(report) == conn->id)
		conn->probation_ms = PROBATION_MS;
}

/* Why the client does not survive, as far as that is known; NULL: it does. */
static const char *find_reason(
	const struct server *server, const struct client_conn *conn, uint64_t ms, bool is_settled)
{
	const uint32_t state = atomic_load(&conn->session->departure);

	if (fault_report_is_hit(&server->fault_report, conn) && !take_loss(conn->session))
		return "the address of the fault is in its memory";
	if (is_settled && is_suspected_again(server, conn))
		return "it may have caused two faults within a minute";
	if (state == DEPARTURE_STAYS)
		return conn->session->stays;
	if (state == DEPARTURE_PACKED && client_lacks_others(conn, server->conns, rescue_takes))
		return "it uses memory or an event of a client that does not survive";
	if (state == DEPARTURE_PACKED && shares_loss(server, conn->session))
		return "it uses memory or an event of a client that has lost work";
	return state == DEPARTURE_PACKED || ms < WORKER_MS ? NULL
							   : "a call of the driver does not return";
}

static bool is_packed(struct session *session)
{
	if (atomic_load(&session->departure) == DEPARTURE_PACKED &&
		(!has_lost_work(session) || atomic_load(&session->has_dropped)))
		return true;
	/* It may have gone to sleep just when it was held. */
	ring_interrupt(&session->receiver);
	return false;
}

static bool is_client_ready(const struct client_conn *conn, uint64_t ms)
{
	return rescue_takes(conn) ? is_packed(conn->session) : ms >= LAST_LAUNCH_MS;
}

/* This process will be gone before the workers of those with work end. */
static void note_last_launches(struct server *server)
{
	for (const struct client_conn *conn = server->conns; conn; conn = conn->next)
		if ((!rescue_takes(conn) || has_lost_work(conn->session)) && !conn->is_inactive)
			fault_report_note_end(&server->fault_report, conn);
}

static void report_loss(struct client_conn *conn)
{
	struct frame_fault_client frame = {
		.head = frame_head(FRAME_FAULT_CLIENT, 0), .client = conn->id, .goes_on = 1};

	if (!rescue_takes(conn) || !has_lost_work(conn->session) || conn->is_loss_told)
		return;
	conn->is_loss_told = true;
	log_line("Client " SESSION_NAME " continues without its work (MPS_ON_FAULT)",
		SESSION_NAME_ARGS(conn->session));
	daemon_link_send(&frame);
}

bool rescue_look(struct server *server)
{
	const uint64_t ms = uv_now(&server->loop) - server->fault_ms;
	const bool is_settled = !survivor_needs_address(fault_get()) ||
				!fault_report_awaits_address(&server->fault_report, ms);
	bool is_ready = is_settled;

	for (struct client_conn *conn = server->conns; conn; conn = conn->next) {
		const char *why =
			rescue_takes(conn) ? find_reason(server, conn, ms, is_settled) : NULL;

		if (why) {
			give_up(server, conn, why);
			/* Others may need it. */
			is_ready = false;
		} else if (!is_client_ready(conn, ms))
			is_ready = false;
		else if (is_settled)
			report_loss(conn);
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
