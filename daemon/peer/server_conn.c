/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The connection between the daemon and a server, and its frames. Loop thread.
 *
 * Invariant: a server's frames change only what the daemon knows about that
 * server, its clients, and their user: clients of other users only a trusted
 * server has (client_report.h).
 */

#include "server_conn.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "bounds.h"
#include "cuda.h"
#include "daemon/state/daemon.h"
#include "daemon/state/quarantine.h"
#include "daemon/state/slot.h"
#include "daemon/state/tenant.h"
#include "daemon/conn/conn.h"
#include "daemon/server/client_report.h"
#include "daemon/server/clients.h"
#include "daemon/server/group_shares.h"
#include "daemon/server/server.h"
#include "daemon/server/server_watch.h"
#include "daemon/server/successor.h"
#include "daemon/server/turns.h"
#include "daemon/watch/counting.h"
#include "daemon/watch/faults.h"
#include "daemon/watch/suspension.h"
#include "daemon/watch/termination.h"
#include "daemon/watch/tracing.h"

/* Frames of one server before other events are handled. */
#define FRAME_BATCH 32

static const struct conn_ops server_conn_ops;

void server_conn_open(struct server *server, struct conn *conn)
{
	conn->server = server;
	conn->in_size = 0;
	server->conn = conn;
	client_report_begin(server);
	server->n_shutdowns_sent = 0;
	group_shares_on_link(server);
	conn_become(conn, CONN_SERVER, &server_conn_ops);
	server_on_link(server);
	server_send_due(server);
}

/* `is_unread': the server has not read all frames. */
static void server_conn_lose(struct server *server, bool is_unread)
{
	struct conn *unread;

	server->conn = NULL;
	unread = is_unread ? clients_take_back(server) : NULL;
	if (unread)
		slot_requeue(server->slot, unread);
	clients_end_handover(server);
	server_watch_lost(server);
	group_shares_on_link(server);
	server_on_link_lost(server);
	if (server->state != SERVER_STOPPING)
		server->state = SERVER_INITIALIZING;
}

_printf_(2, 3) static void start_log_line(struct server *server, const char *format, ...)
{
	char text[LINE_MAX_SIZE];

	format_arguments(text, format);
	server_log_line(server, text);
}

static void log_memory(struct server *server, const struct memory_limit *limit)
{
	const struct devices *devices = &server->devices;
	bool is_found = false;

	for (unsigned i = 0; i < devices->n; i++) {
		if (!device_name_matches(limit->device, &devices->items[i]))
			continue;
		is_found = true;
		start_log_line(server,
			"Device pinned memory limit for device %u set to 0x%" PRIx64 " bytes",
			devices->items[i].ordinal, limit->bytes);
	}
	if (!is_found)
		start_log_line(server,
			"Device pinned memory limit for device %s: there is no such device",
			limit->device);
}

/*
 * The last lines of a server's start in server.log: its settings, and that it has started. The
 * daemon writes them, because only the daemon knows the settings.
 */
static void start_log(struct server *server)
{
	const struct settings settings = server_settings(server, server->tenant->uid);

	/* What the server itself has said so far comes first. */
	server_read_output(server);
	start_log_line(server, "Active Threads Percentage set to %u.%u",
		settings.active_threads / 1000, settings.active_threads % 1000 / 100);
	for (unsigned i = 0; i < settings.n_memory; i++)
		log_memory(server, &settings.memory[i]);
	start_log_line(server, "Server Priority set to %d", settings.priority);
	start_log_line(server, "Server has started");
}

/* A fault is not a failure of the server: the program that caused it has to wait. */
static void on_server_fault(struct server *server, uint64_t id)
{
	const struct client *client = clients_find(server, id);

	struct tenant *tenant = client ? tenant_get(server->daemon, client->uid, -EBADF) : NULL;

	if (!server->had_fault) {
		usage_count(server->daemon, server->tenant->uid, USAGE_FAULT);
		server->fault_ms = uv_now(&server->daemon->loop);
	}
	if (!server->had_fault && tenant) {
		quarantine_note_fault(tenant, client->program);
		server->has_faulting_client = true;
	}
	server->had_fault = true;
	faults_on_state(server);
}

static int on_server_state(struct server *server, struct conn *conn)
{
	const struct frame_server_state *state = &conn->in.state;
	const bool has_survivors = state->n_survivors > 0;

	if (state->head.n_fds != 0 || state->state < SERVER_INITIALIZING ||
		state->state > SERVER_STATE_MAX || state->reserved != 0 ||
		!frame_text_ok(state->text, sizeof(state->text)))
		return -EBADMSG;
	client_report_end(server);
	/* After a shutdown or a signal it stays STOPPING, whatever it reports. */
	if (server->state == SERVER_STOPPING || server->n_kills > 0)
		return 0;
	server->state = (enum server_state)state->state;
	if (state->text[0])
		snprintf(server->last_line, sizeof(server->last_line), "%.159s", state->text);
	if (server->state == SERVER_ACTIVE) {
		conn_log(conn, "NEW SERVER %d: Ready", server->pid);
		if (server->is_child && !server->was_active)
			start_log(server);
		server->was_active = true;
		server_clear_deadline(server);
		turns_on_ready(server);
		successor_on_ready(server);
		daemon_want(server->daemon, WANT_UPGRADES);
	} else {
		conn_log(conn, "Server %d is %s, result %u%s%s", server->pid,
			server_state_name(server), state->result, state->text[0] ? ": " : "",
			state->text);
	}
	if (server->state == SERVER_INITIALIZING)
		server_set_deadline(server, SERVER_START_MS, "become ready");
	if (server->state == SERVER_FAULT) {
		server->has_address_fault = state->result == CUDA_ERROR_ILLEGAL_ADDRESS;
		on_server_fault(server, state->client);
	}
	if (server->state == SERVER_FAULT)
		server_set_deadline(server, server_end_ms(server) + (has_survivors ? RESCUE_MS : 0),
			"end after its fault");
	if (server->state == SERVER_FAULT && has_survivors)
		successor_rescue(server);
	server_bound_end(server);
	daemon_want(server->daemon, WANT_PROGRESS);
	return 0;
}

static int on_client_gone(struct server *server, struct conn *conn)
{
	const struct frame_client_note *note = &conn->in.note;

	if (!clients_find(server, note->id)) {
		conn_log(conn, "Server %d reported the end of a client that it does not have",
			server->pid);
		return 0;
	}
	clients_remove(server, note->id);
	return 0;
}

/*
 * The report of an ordinary user's server, or of a server with some of the GPUs, holds for that
 * server only.
 */
static int on_server_device(struct server *server, const struct frame_device *device)
{
	struct daemon *daemon = server->daemon;
	int r = devices_add(&server->devices, device);

	if (r == 0)
		log_debug(&daemon->logs, "Server %d has device %u, %s, %u SMs", server->pid,
			device->ordinal, device->pci_bus_id, device->n_sms);
	if (r < 0 || !devices_are_complete(&server->devices))
		return r;
	if (daemon_trusts_server(daemon, server->tenant->uid) && !server->slot->devices)
		r = devices_copy(&daemon->devices, &server->devices);
	return r;
}

static int on_client_context(struct server *server, const struct frame_context *context)
{
	int r = clients_add_context(server, context);

	if (r == 0)
		log_debug(&server->daemon->logs,
			"Server %d: client %d uses device %u, context ID %u, %u SMs, priority %d",
			server->pid, clients_find(server, context->client)->pid, context->ordinal,
			context->session, context->n_sms, context->priority);
	return r;
}

static int on_server_frame(struct server *server, struct conn *conn)
{
	clients_check_handover(server);
	switch (conn->in.head.type) {
	case FRAME_SERVER_STATE:
		return on_server_state(server, conn);
	case FRAME_CLIENT_HERE:
		return successor_on_client(server, &conn->in.note);
	case FRAME_RESTARTED:
		return successor_on_restarted(server, &conn->in.restarted);
	case FRAME_CLIENT_GONE:
		return on_client_gone(server, conn);
	case FRAME_GROUP_HERE:
		return group_shares_on_here(server, &conn->in.group);
	case FRAME_LEASE_WANT:
		return group_shares_on_want(server, &conn->in.lease);
	case FRAME_LEASE_RETURN:
		return group_shares_on_return(server, &conn->in.lease);
	case FRAME_DEVICE:
		return on_server_device(server, &conn->in.device);
	case FRAME_CONTEXT:
		return on_client_context(server, &conn->in.context);
	case FRAME_FAULT:
		return faults_on_frame(server, &conn->in.fault);
	case FRAME_FAULT_CLIENT:
		return faults_on_lost_client(server, &conn->in.fault_client);
	case FRAME_COUNTERS:
		counting_on_frame(server, &conn->in.counters);
		return 0;
	case FRAME_TRACE_END:
		tracing_on_frame(server, &conn->in.trace_end);
		return 0;
	case FRAME_TERMINATED:
		termination_on_answer(server, &conn->in.terminated);
		return 0;
	case FRAME_SUSPENDED:
		return suspension_on_frame(server, &conn->in.suspended);
	default:
		return -EBADMSG;
	}
}

static void read_server_frames(struct conn *conn)
{
	for (int i = 0; i < FRAME_BATCH && conn->kind == CONN_SERVER; i++) {
		int r = conn_read_frame(conn);

		if (r == 0)
			return;
		if (r > 0 && conn->server)
			r = on_server_frame(conn->server, conn);
		conn->in_size = 0;
		if (r >= 0)
			continue;
		if (r != -ECONNRESET)
			conn_log(conn,
				"Server %d of user %u violated the protocol (%s): closing its "
				"connection",
				conn->cred.pid, conn->cred.uid, strerror(-r));
		conn_close(conn);
	}
}

static int server_events(const struct conn *conn)
{
	return UV_READABLE | (conn->wants_write ? UV_WRITABLE : 0);
}

static void on_server_event(struct conn *conn, int events)
{
	if ((events & UV_WRITABLE) && conn->wants_write) {
		conn->wants_write = false;
		conn_watch(conn);
		if (conn->server)
			server_send_due(conn->server);
	}
	if (events & UV_READABLE)
		read_server_frames(conn);
}

static void on_server_close(struct conn *conn)
{
	struct server *server = conn->server;

	conn->server = NULL;
	if (server)
		server_conn_lose(server, conn_is_reset(conn));
}

static const struct conn_ops server_conn_ops = {
	.events = server_events,
	.on_event = on_server_event,
	.on_close = on_server_close,
};
