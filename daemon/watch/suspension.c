/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Suspensions. Loop thread.
 *
 * Invariant: a connection is on the daemon's list exactly as long as its command waits.
 */

#include "suspension.h"

#include "daemon/state/daemon.h"
#include "daemon/conn/conn.h"
#include "daemon/conn/pending.h"
#include "daemon/server/clients.h"
#include "daemon/server/server.h"

/* A server's loop carries out the order to resume a client at once. */
#define RESUME_MS 10000

static const struct pending pending_suspension, pending_resumption;

bool suspension_concerns(const struct client_set *set, const struct client *client)
{
	if (client->termination != TERMINATION_NONE)
		return false;
	switch (set->kind) {
	case CLIENTS_OF_PROCESS:
		return (uint32_t)client->pid == set->number;
	case CLIENTS_OF_GROUP:
		return client->group == set->number;
	case CLIENTS_OF_USER:
		return client->uid == set->number;
	}
	return false;
}

/* ---- the orders */

static void suspensions_send(struct server *server)
{
	list_each (struct client, client, &server->clients, link) {
		struct client_suspension *suspension = &client->suspension;
		struct frame_suspend frame = {
			.client = client->id,
			.state = suspension->is_wanted ? SUSPENSION_BEGUN : SUSPENSION_NONE,
			.number = suspension->number + 1,
		};

		if (!server->conn || !suspension->is_due)
			continue;
		frame_init(&frame, FRAME_SUSPEND, 0);
		/* If the socket is full, server_send_due() follows. */
		if (conn_send(server->conn, &frame, -EBADF) < 0)
			return;
		suspension->is_due = false;
		suspension->number = frame.number;
		/* An order that a client has brought from another server is repeated. */
		if (!suspension->is_wanted || suspension->state == SUSPENSION_NONE)
			suspension->state = SUSPENSION_BEGUN;
	}
}

/* Sends orders only where they change something. */
static void order(struct server *server, const struct conn *conn, bool is_suspension)
{
	list_each (struct client, client, &server->clients, link) {
		struct client_suspension *suspension = &client->suspension;

		if (!suspension_concerns(&conn->awaited_clients, client))
			continue;
		suspension->serial = conn->awaited_serial;
		if (suspension->is_wanted == is_suspension)
			continue;
		suspension->is_wanted = is_suspension;
		suspension->is_due = true;
	}
	suspensions_send(server);
}

/* ---- the answers */

/* Whether the command is about the client, which was there at that time. */
static bool is_about(const struct conn *conn, const struct client *client)
{
	return client->suspension.serial >= conn->awaited_serial &&
	       suspension_concerns(&conn->awaited_clients, client);
}

static bool is_suspended(const struct client *client)
{
	const struct client_suspension *suspension = &client->suspension;

	return !suspension->is_due && suspension->is_wanted &&
	       suspension->state >= SUSPENSION_AT_REST;
}

/* Also if another command has asked for the opposite since. */
static bool is_done(const struct client *client, bool is_suspension)
{
	const struct client_suspension *suspension = &client->suspension;

	if (suspension->is_wanted != is_suspension)
		return true;
	return is_suspension ? is_suspended(client)
			     : !suspension->is_due && suspension->state == SUSPENSION_NONE;
}

static void answer_about(struct conn *conn, const struct client *client, bool is_suspension)
{
	bool is_wanted = client->suspension.is_wanted;

	if (is_wanted != is_suspension)
		pending_fail(conn, "Client %d was %s meanwhile", client->pid,
			is_wanted ? "suspended" : "resumed");
	else if (!is_suspension && is_done(client, false))
		pending_reply(conn, "Client %d is resumed", client->pid);
	else if (!is_suspension)
		pending_fail(conn, "Its server has not resumed client %d", client->pid);
	else if (!is_suspended(client))
		pending_fail(conn,
			"Client %d is still at work: its further calls wait, and it is suspended "
			"when its work has ended",
			client->pid);
	else if (client->suspension.state == SUSPENSION_BLOCKED)
		pending_reply(conn,
			"Client %d is suspended; a stream of it waits on the GPU, for a semaphore "
			"or a host function",
			client->pid);
	else
		pending_reply(conn, "Client %d is suspended", client->pid);
}

/* Whether another client of that process comes later in the list, with the same state. */
static bool is_repeated(const struct server *server, const struct client *client)
{
	const struct client *last = client;

	list_each (const struct client, other, &server->clients, link)
		if (other->pid == client->pid &&
			other->suspension.state == client->suspension.state)
			last = other;
	return last != client;
}

static void answer(struct conn *conn)
{
	bool is_suspension = conn->pending == &pending_suspension, is_any = false;

	list_remove(&conn->wait);
	list_each (const struct server, server, &conn->daemon->servers, link_in_daemon)
		list_each (const struct client, client, &server->clients, link) {
			if (!is_about(conn, client))
				continue;
			is_any = true;
			if (!is_repeated(server, client))
				answer_about(conn, client, is_suspension);
		}
	if (!is_any)
		pending_fail(conn, "The clients have ended meanwhile");
	pending_end(conn);
}

static bool are_done(const struct conn *conn)
{
	list_each (const struct server, server, &conn->daemon->servers, link_in_daemon)
		list_each (const struct client, client, &server->clients, link)
			if (is_about(conn, client) &&
				!is_done(client, conn->pending == &pending_suspension))
				return false;
	return true;
}

void suspensions_check(struct daemon *daemon)
{
	list_each_safe (struct conn, conn, &daemon->suspensions, wait)
		if (are_done(conn))
			answer(conn);
}

static const struct pending pending_suspension = {.on_deadline = answer};
static const struct pending pending_resumption = {.on_deadline = answer};

/* A server with some of the clients that cannot be asked; NULL: there is none. */
static const struct server *find_lost(const struct daemon *daemon, const struct client_set *set)
{
	list_each (const struct server, server, &daemon->servers, link_in_daemon)
		list_each (const struct client, client, &server->clients, link)
			if (!server->conn && suspension_concerns(set, client))
				return server;
	return NULL;
}

void suspension_begin(
	struct conn *conn, const struct client_set *set, bool is_suspension, uint64_t timeout_ms)
{
	struct daemon *daemon = conn->daemon;
	const struct server *lost = find_lost(daemon, set);

	if (lost) {
		pending_fail(
			conn, "Server %d has no connection to the daemon: try again", lost->pid);
		return;
	}
	conn->awaited_clients = *set;
	conn->awaited_serial = ++daemon->last_suspension;
	list_add_tail(&daemon->suspensions, &conn->wait);
	if (is_suspension)
		pending_begin(conn, &pending_suspension, timeout_ms);
	else
		pending_begin(conn, &pending_resumption, RESUME_MS);
	list_each_safe (struct server, server, &daemon->servers, link_in_daemon)
		order(server, conn, is_suspension);
	suspensions_check(daemon);
}

/* ---- the servers */

int suspension_on_frame(struct server *server, const struct frame_suspend *frame)
{
	struct client *client = clients_find(server, frame->client);

	if (frame->state > SUSPENSION_MAX)
		return -EBADMSG;
	/* It has left meanwhile; or the report crossed a later order. */
	if (!client || frame->number < client->suspension.number)
		return 0;
	/* The order of an earlier daemon. */
	if (frame->number > client->suspension.number && !client->suspension.is_due)
		client->suspension.is_wanted = frame->state != SUSPENSION_NONE;
	client->suspension.number = frame->number;
	client->suspension.state = (enum suspension)frame->state;
	suspensions_check(server->daemon);
	return 0;
}

static bool concerns_server(const struct conn *conn, const struct server *server)
{
	list_each (const struct client, client, &server->clients, link)
		if (is_about(conn, client) &&
			!is_done(client, conn->pending == &pending_suspension))
			return true;
	return false;
}

static void suspensions_fail(struct server *server)
{
	list_each_safe (struct conn, conn, &server->daemon->suspensions, wait) {
		if (!concerns_server(conn, server))
			continue;
		list_remove(&conn->wait);
		pending_fail(conn, "Server %d disconnected before it had replied", server->pid);
		pending_end(conn);
	}
}

static void on_client_end(struct server *server, _unused_ const struct client *client)
{
	suspensions_check(server->daemon);
}

const struct server_watch suspensions_watch = {
	.on_writable = suspensions_send,
	.on_lost = suspensions_fail,
	.on_client_end = on_client_end,
};
