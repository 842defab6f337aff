/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Invariant: a server has a successor exactly as long as the successor has it as its predecessor,
 * and the slot's server is never a successor.
 */

#include "successor.h"

#include <string.h>
#include <sys/socket.h>

#include "client_report.h"
#include "clients.h"
#include "group_shares.h"
#include "place.h"
#include "server.h"
#include "server_watch.h"
#include "spawn.h"
#include "daemon/state/daemon.h"
#include "daemon/state/slot.h"
#include "daemon/state/tenant.h"
#include "daemon/conn/conn.h"
#include "daemon/conn/pending.h"

/* How much longer than the clients' work the rest of a move takes, at most. */
#define MOVE_MS 60000

/* Reads of the old server's last frames, of a few frames each. */
#define LAST_READS 64

/* ---- the answer */

/*
 * The command's reply, and a line in control.log. An attempt without a command that fails as the
 * one before says nothing.
 */
_printf_(2, 3) static void fail_command(struct server *server, const char *format, ...)
{
	char text[LINE_MAX_SIZE];

	format_arguments(text, format);
	if (!list_empty(&server->restarters) || strcmp(text, server->keeps.text) != 0)
		log_control(&server->daemon->logs, "%s", text);
	error_message_set(&server->keeps, 0, "%s", text);
	list_each_safe (struct conn, conn, &server->restarters, wait) {
		list_remove(&conn->wait);
		pending_fail(conn, "%s", text);
		pending_end(conn);
	}
}

static void succeed_command(struct server *server, const struct server *successor, unsigned n)
{
	list_each_safe (struct conn, conn, &server->restarters, wait) {
		list_remove(&conn->wait);
		pending_reply(conn, "Server %d has moved its %u clients to server %d", server->pid,
			n, successor->pid);
		pending_end(conn);
	}
}

static void on_deadline(struct conn *conn)
{
	list_remove(&conn->wait);
	pending_fail(conn, "The restart of server %d takes longer: see server.log",
		conn->awaited_server->pid);
	pending_end(conn);
}

static const struct pending pending_restart = {.on_deadline = on_deadline};

/* ---- the pair */

static void unlink_pair(struct server *server)
{
	struct server *successor = server->successor;

	successor->predecessor = NULL;
	server->successor = NULL;
	server->restart = RESTART_NONE;
	if (server->is_exit_held)
		server_watch_exit(server);
	server->is_exit_held = false;
	daemon_want(server->daemon, WANT_PROGRESS);
	daemon_want(server->daemon, WANT_UPGRADES);
}

/* The clients stay with the server, for sure. The successor has none. */
static void keep(struct server *server)
{
	struct server *successor = server->successor;

	unlink_pair(server);
	server_shutdown(successor, true);
}

/* Also while it starts. Its build is known when it has connected. */
static bool is_spare_good(const struct server *spare)
{
	if (spare->state == SERVER_STOPPING || spare->n_kills > 0)
		return false;
	return spare->conn ? spare->build == spawn_server_build() : !spare->was_active;
}

/* The server's spare, or a new process. */
static int get_successor(struct server *server, struct error_message *error)
{
	if (!server->spare || !is_spare_good(server->spare))
		return server_start_successor(server, error);
	place_use_spare(server);
	return 0;
}

int successor_start(
	struct server *server, uint64_t timeout_ms, bool force, struct error_message *error)
{
	int r;

	if (!server_is_ready(server) || server->slot->server != server)
		return error_message_set(error, -EBUSY,
			"Server %d is %s%s: only an ACTIVE server can be restarted", server->pid,
			server_state_name(server),
			server->successor || server->predecessor ? ", and is being restarted" : "");
	r = get_successor(server, error);
	if (r < 0)
		return r;
	server->restart = RESTART_STARTS;
	server->restart_timeout_ms = timeout_ms;
	server->restart_force = force;
	server->stayed = 0;
	if (server->successor->state == SERVER_ACTIVE)
		successor_on_ready(server->successor);
	return server->successor ? 0 : error_message_set(error, -EIO, "%s", server->keeps.text);
}

void successor_begin(struct server *server, struct conn *conn, uint64_t timeout_ms, bool force)
{
	struct error_message error;

	if (successor_start(server, timeout_ms, force, &error) < 0) {
		pending_fail(conn, "%s", error.text);
		return;
	}
	conn->awaited_server = server;
	list_add_tail(&server->restarters, &conn->wait);
	pending_begin(conn, &pending_restart, SERVER_START_MS + timeout_ms + MOVE_MS);
}

void successor_rescue(struct server *server)
{
	struct error_message error;

	if (server->slot->server != server || server->predecessor || server->restart_rescues)
		return;
	server->restart_rescues = true;
	/* For restart_server. */
	if (server->successor)
		return;
	if (get_successor(server, &error) < 0) {
		log_control(&server->daemon->logs, "Nobody survives the fault of server %d: %s",
			server->pid, error.text);
		server_shutdown(server, true);
		return;
	}
	server->restart = RESTART_STARTS;
	server->restart_timeout_ms = 0;
	server->restart_force = false;
	if (server->successor->state == SERVER_ACTIVE)
		successor_on_ready(server->successor);
}

/* ---- the orders */

static int send_order(struct server *server, const struct server *old, int sock)
{
	const struct frame_restart frame = {
		.head = frame_head(FRAME_RESTART, 1),
		.is_successor = server != old,
		.force = old->restart_force,
		.timeout_ms = old->restart_timeout_ms,
	};

	return server->conn ? conn_send(server->conn, &frame, sock) : -ECONNRESET;
}

/* The successor first: if it does not get its end, the other server is not asked. */
static int order_both(struct server *server)
{
	_cleanup_close_ int one = -EBADF, other = -EBADF;
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return -errno;
	one = pair[0];
	other = pair[1];
	r = send_order(server->successor, server, one);
	return r == 0 ? send_order(server, server, other) : r;
}

/* The successor is ACTIVE. It needs the groups of the clients first. */
static void order_move(struct server *server)
{
	int r = group_shares_copy(server, server->successor);

	if (r == -EAGAIN)
		return;
	if (r == 0 && server->state != SERVER_ACTIVE && !server->restart_rescues)
		r = -ESHUTDOWN;
	if (r == 0)
		r = order_both(server);
	if (r == 0) {
		server->restart = RESTART_MOVES;
		return;
	}
	fail_command(server, "Server %d cannot be told to move its clients: %s", server->pid,
		strerror(-r));
	keep(server);
	if (server->restart_rescues)
		server_shutdown(server, true);
}

void successor_on_ready(struct server *successor)
{
	struct server *server = successor->predecessor;

	if (!server)
		return;
	server_set_deadline(successor, server->restart_timeout_ms + MOVE_MS, "take the clients");
	if (server->restart == RESTART_STARTS)
		order_move(server);
}

/* It has room for the rest of the groups. */
static void on_writable(struct server *successor)
{
	struct server *server = successor->predecessor;

	if (server && server->restart == RESTART_STARTS && successor->state == SERVER_ACTIVE)
		order_move(server);
}

/* ---- the replies */

int successor_on_client(struct server *server, const struct frame_client_note *note)
{
	struct client *client =
		server->predecessor ? clients_find(server->predecessor, note->id) : NULL;

	if (!client)
		return client_report_add(server, note);
	client->is_moving = true;
	if (!server->slot->is_isolated)
		client_set_probation(client, server->daemon, MIN(note->probation_ms, PROBATION_MS));
	return 0;
}

static unsigned move_clients(struct server *server, struct server *successor)
{
	unsigned n = 0;

	list_each_safe (struct client, client, &server->clients, link) {
		if (!client->is_moving || client->termination == TERMINATION_DONE)
			continue;
		client->is_moving = false;
		client->is_reported = true;
		/* A command that waits has failed with the server. */
		client->termination = TERMINATION_NONE;
		/* The server may not have read the last order. */
		client->suspension.is_due = client->suspension.number > 0;
		clients_move(server, client, successor);
		n++;
	}
	return n;
}

/* The successor takes the place of the server, which ends. */
static void take_place(struct server *server, struct server *successor)
{
	bool is_asked = server->is_asked, is_forced = server->is_forced;

	successor->default_commands = server->default_commands;
	successor->commands = server->commands;
	successor->wish = server->wish;
	successor->idle_ms = uv_now(&server->daemon->loop);
	server->slot->server = successor;
	server->state = SERVER_STOPPING;
	server->is_asked = server->is_forced = true;
	server_clear_deadline(successor);
	unlink_pair(server);
	server_bound_end(server);
	if (is_asked)
		server_shutdown(successor, is_forced);
	daemon_want(server->daemon, WANT_RECORD);
	server_send_due(successor);
}

static void finish(struct server *server, struct server *successor)
{
	struct log_files *logs = &server->daemon->logs;
	unsigned n;

	/* Its last frames are about clients that have ended. */
	for (unsigned i = 0; i < LAST_READS && server->conn; i++)
		conn_read(server->conn);
	server_watch_lost(server);
	server_watch_move(server, successor);
	n = move_clients(server, successor);
	group_shares_move(server, successor);
	log_control(logs, "Server %d has moved its %u clients to server %d", server->pid, n,
		successor->pid);
	succeed_command(server, successor, n);
	take_place(server, successor);
}

static void report_failure(struct server *server, const struct frame_restarted *frame)
{
	server->stayed = (pid_t)frame->pid;
	if (frame->pid > 0)
		fail_command(server, "Server %d keeps its clients: client %d cannot move: %s",
			server->pid, (int)frame->pid, frame->text);
	else
		fail_command(server, "Server %d keeps its clients: %s", server->pid, frame->text);
}

int successor_on_restarted(struct server *server, const struct frame_restarted *frame)
{
	if (frame->head.n_fds != 0 || frame->is_done > 1 || frame->reserved != 0 ||
		frame->pid > INT32_MAX || !frame_text_ok(frame->text, sizeof(frame->text)))
		return -EBADMSG;
	if (frame->is_done && server->predecessor) {
		finish(server->predecessor, server);
	} else if (!frame->is_done && server->successor) {
		report_failure(server, frame);
		keep(server);
	}
	return 0;
}

/* ---- ends */

static void on_end(struct server *server)
{
	struct server *old = server->predecessor, *successor = server->successor;

	if (old && old->restart_rescues)
		server_shutdown(old, true);
	if (old) {
		fail_command(old,
			"Server %d keeps its clients: server %d ended before it had them%s%s",
			old->pid, server->pid, server->error.text[0] ? ": " : "",
			server->error.text);
		unlink_pair(old);
	}
	if (successor) {
		fail_command(server, "Server %d has ended", server->pid);
		keep(server);
	}
}

const struct server_watch successor_watch = {.on_writable = on_writable, .on_end = on_end};
