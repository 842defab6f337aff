/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Terminations. Loop thread.
 *
 * Invariant: a connection is on the server's list exactly as long as its command
 * waits.
 */

#include "termination.h"

#include "cuda.h"
#include "suspension.h"
#include "daemon/state/daemon.h"
#include "daemon/conn/conn.h"
#include "daemon/conn/pending.h"
#include "daemon/server/clients.h"
#include "daemon/server/server.h"

/* How much longer than the server's own bound the daemon waits; the server is replaced then. */
#define LATE_MS 1000

uint64_t termination_bound_ms(const struct server *server)
{
	return server_end_ms(server) + LATE_MS;
}

/* `error' is NULL for success. */
static void answer_termination(struct conn *conn, CUresult result, const char *error)
{
	list_remove(&conn->wait);
	if (error)
		pending_fail(conn, "%s", error);
	if (error)
		pending_fail(conn, "%d", (int)result);
	else
		pending_reply(conn, "%d", CUDA_SUCCESS);
	pending_end(conn);
}

static bool is_termination_done(const struct server *server, pid_t pid)
{
	list_each (const struct client, client, &server->clients, link)
		if (client->pid == pid && (client->termination == TERMINATION_WANTED ||
						  client->termination == TERMINATION_ASKED))
			return false;
	return true;
}

static void terminations_check(struct server *server)
{
	list_each_safe (struct conn, conn, &server->terminations, wait)
		if (is_termination_done(server, conn->awaited_pid))
			answer_termination(conn, CUDA_SUCCESS, NULL);
}

static void terminations_send(struct server *server)
{
	struct frame_terminate frame = {.head = frame_head(FRAME_TERMINATE, 0)};

	list_each (struct client, client, &server->clients, link) {
		if (!server->conn || client->termination != TERMINATION_WANTED)
			continue;
		frame.client = client->id;
		/* If the socket is full, server_send_due() follows. */
		if (conn_send(server->conn, &frame, -EBADF) < 0)
			return;
		client->termination = TERMINATION_ASKED;
	}
}

static void on_deadline(struct conn *conn)
{
	const struct server *server = conn->awaited_server;
	struct error_message error;

	error_message_set(&error, 0,
		"Server %d has not ended the work of client %d within %d s: see server.log; as a "
		"last resort use shutdown_server %d -f",
		server->pid, conn->awaited_pid, (int)(termination_bound_ms(server) / 1000),
		server->pid);
	answer_termination(conn, CUDA_ERROR_TIMEOUT, error.text);
}

static const struct pending pending_termination = {.on_deadline = on_deadline};

void termination_begin(struct server *server, struct conn *conn, pid_t pid)
{
	if (!server->conn) {
		pending_fail(
			conn, "Server %d has no connection to the daemon: try again", server->pid);
		pending_fail(conn, "%d", CUDA_ERROR_MPS_SERVER_NOT_READY);
		return;
	}
	conn->awaited_server = server;
	conn->awaited_pid = pid;
	list_add_tail(&server->terminations, &conn->wait);
	pending_begin(conn, &pending_termination, termination_bound_ms(server));
	list_each (struct client, client, &server->clients, link)
		if (client->pid == pid && client->termination == TERMINATION_NONE)
			client->termination = TERMINATION_WANTED;
	terminations_send(server);
	terminations_check(server);
	suspensions_check(server->daemon);
}

void termination_of_group(struct server *server, uint32_t group)
{
	list_each (struct client, client, &server->clients, link)
		if (client->group == group && client->termination == TERMINATION_NONE)
			client->termination = TERMINATION_WANTED;
	terminations_send(server);
}

void termination_on_answer(struct server *server, const struct frame_terminate *frame)
{
	struct client *client = clients_find(server, frame->client);

	/* A client that has left meanwhile counts as terminated. */
	if (client)
		client->termination = TERMINATION_DONE;
	terminations_check(server);
	daemon_want(server->daemon, WANT_PROGRESS);
}

static void terminations_fail(struct server *server)
{
	list_each_safe (struct conn, conn, &server->terminations, wait) {
		struct error_message error;

		error_message_set(&error, 0,
			"Server %d disconnected before it had ended the work of client %d",
			server->pid, conn->awaited_pid);
		answer_termination(conn, CUDA_ERROR_MPS_RPC_FAILURE, error.text);
	}
}

static void on_client_end(struct server *server, _unused_ const struct client *client)
{
	terminations_check(server);
	daemon_want(server->daemon, WANT_PROGRESS);
}

const struct server_watch terminations_watch = {
	.on_writable = terminations_send,
	.on_lost = terminations_fail,
	.on_client_end = on_client_end,
};
