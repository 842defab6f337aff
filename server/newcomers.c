/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Clients that wait for their welcome. Loop thread.
 *
 * Invariant: while a client waits, another client that has left has work, so the server's
 * tick runs and calls newcomers_look(); or clients of another server arrive, and arrivals_look()
 * calls it.
 */

#include "newcomers.h"

#include "async_close.h"
#include "bounds.h"
#include "client_conn.h"
#include "server.h"
#include "suspension.h"
#include "server/util/log.h"
#include "server/session/session.h"
#include "server/link/client.h"
#include "server/link/daemon_link.h"

struct newcomer {
	struct newcomer *next;
	struct frame_client client;
	int connection;
	uint64_t since_ms;
	bool is_logged;               /* in the log */
	struct frame_suspend suspend; /* the daemon's last order; zeros: none */
};

/*
 * A client that had left by that time, and whose own work is still on a GPU. A newcomer does
 * not wait for clients that leave later, because that might never end.
 */
static const struct client_conn *find_leftover(const struct server *server, uint64_t since_ms)
{
	for (const struct client_conn *conn = server->conns; conn; conn = conn->next)
		if (conn->is_ending && !conn->is_inactive && conn->ending_ms <= since_ms &&
			atomic_load(&conn->session->has_work) &&
			!client_conn_waits_for_others(conn))
			return conn;
	return NULL;
}

static void add_last(struct server *server, struct newcomer *newcomer)
{
	struct newcomer **link = &server->newcomers;

	while (*link)
		link = &(*link)->next;
	*link = newcomer;
}

static void drop(const struct frame_client *client, int connection)
{
	client_conn_notify_of(client, FRAME_CLIENT_GONE);
	async_close(connection);
}

void newcomers_take(struct server *server, const struct frame_client *client, int connection)
{
	uint64_t now_ms = uv_now(&server->loop);
	struct newcomer *newcomer = NULL;

	/* The clients that survive wait for the successor. So does this one, at the daemon. */
	if (server->is_faulted) {
		drop(client, connection);
		return;
	}
	if (server->newcomers || server->is_opening ||
		(find_leftover(server, now_ms) && !server->is_stopping))
		newcomer = malloc(sizeof(*newcomer));
	if (!newcomer) {
		client_conn_new(server, client, connection);
		return;
	}
	*newcomer =
		(struct newcomer){.client = *client, .connection = connection, .since_ms = now_ms};
	add_last(server, newcomer);
}

static void log_reason(struct newcomer *newcomer, const struct client_conn *leftover)
{
	if (newcomer->is_logged)
		return;
	newcomer->is_logged = true;
	log_line("Client process %d waits: work of client " SESSION_NAME
		 ", which has left or was terminated, is still on the GPU",
		(int)newcomer->client.pid, SESSION_NAME_ARGS(leftover->session));
}

static void log_waiting_newcomers(struct server *server)
{
	uint64_t now_ms = uv_now(&server->loop);

	for (struct newcomer *each = server->newcomers; each; each = each->next) {
		const struct client_conn *leftover = find_leftover(server, each->since_ms);

		if (leftover && now_ms - each->since_ms >= NEWCOMER_LOG_MS)
			log_reason(each, leftover);
	}
}

static bool newcomers_has_to_wait(const struct server *server, const struct newcomer *newcomer)
{
	return server->is_opening ||
	       (uv_now(&server->loop) - newcomer->since_ms < NEWCOMER_WAIT_MS &&
		       find_leftover(server, newcomer->since_ms));
}

static void welcome(struct server *server, const struct newcomer *newcomer)
{
	const struct client_conn *last = server->conns;

	client_conn_new(server, &newcomer->client, newcomer->connection);
	if (newcomer->suspend.state == SUSPENSION_NONE || server->conns == last)
		return;
	suspension_take(server->conns, &newcomer->suspend);
	server_start_tick(server);
}

void newcomers_look(struct server *server)
{
	log_waiting_newcomers(server);
	while (server->newcomers && !newcomers_has_to_wait(server, server->newcomers)) {
		struct newcomer *newcomer = LIST_POP(server->newcomers);

		welcome(server, newcomer);
		free(newcomer);
	}
}

bool newcomers_terminate(struct server *server, uint64_t id)
{
	struct newcomer **link = &server->newcomers, *newcomer;

	while (*link && (*link)->client.id != id)
		link = &(*link)->next;
	newcomer = *link;
	if (!newcomer)
		return false;
	*link = newcomer->next;
	client_conn_refuse(&newcomer->client, newcomer->connection,
		CUDA_ERROR_MPS_CLIENT_TERMINATED, "the operator has terminated this client");
	async_close(newcomer->connection);
	free(newcomer);
	return true;
}

/* Nothing of it runs. */
static void notify_suspension(const struct newcomer *newcomer)
{
	struct frame_suspend frame = newcomer->suspend;

	frame_init(&frame, FRAME_SUSPENDED, 0);
	if (frame.state != SUSPENSION_NONE)
		frame.state = SUSPENSION_AT_REST;
	daemon_link_send(&frame);
}

void newcomers_suspend(struct server *server, const struct frame_suspend *order)
{
	struct newcomer *newcomer = server->newcomers;

	while (newcomer && newcomer->client.id != order->client)
		newcomer = newcomer->next;
	if (!newcomer)
		return;
	newcomer->suspend = *order;
	notify_suspension(newcomer);
}

void newcomers_drop(struct server *server)
{
	while (server->newcomers) {
		struct newcomer *newcomer = LIST_POP(server->newcomers);

		drop(&newcomer->client, newcomer->connection);
		free(newcomer);
	}
}

void newcomers_notify(struct server *server)
{
	for (const struct newcomer *each = server->newcomers; each; each = each->next)
		client_conn_notify_of(&each->client, FRAME_CLIENT_HERE);
	for (const struct newcomer *each = server->newcomers; each; each = each->next)
		if (each->suspend.state != SUSPENSION_NONE)
			notify_suspension(each);
}
