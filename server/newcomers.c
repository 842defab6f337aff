/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Clients that wait for their welcome. Loop thread.
 *
 * Invariant: while a client waits, another one that has left has work, so the
 * server's tick runs and looks here.
 */

#include "newcomers.h"

#include "async_close.h"
#include "bounds.h"
#include "log.h"
#include "server.h"
#include "session.h"

struct newcomer {
	struct newcomer *next;
	struct frame_client client;
	int connection;
	uint64_t since_ms;
	bool is_told; /* in the log */
};

/* A client that has left, and whose own work is still on a GPU. */
static const struct peer *find_leftover(const struct server *server)
{
	for (const struct peer *peer = server->peers; peer; peer = peer->next)
		if (peer->is_ending && atomic_load(&peer->session->has_work) &&
			!atomic_load(&peer->session->waits_for_others))
			return peer;
	return NULL;
}

static struct newcomer *take_first(struct server *server)
{
	struct newcomer *newcomer = server->newcomers;

	server->newcomers = newcomer->next;
	return newcomer;
}

static void add_last(struct server *server, struct newcomer *newcomer)
{
	struct newcomer **link = &server->newcomers;

	while (*link)
		link = &(*link)->next;
	*link = newcomer;
}

void newcomers_take(struct server *server, const struct frame_client *client, int connection)
{
	struct newcomer *newcomer = NULL;

	if (server->newcomers || (find_leftover(server) && !server->is_stopping))
		newcomer = malloc(sizeof(*newcomer));
	if (!newcomer) {
		peer_new(server, client, connection);
		return;
	}
	*newcomer = (struct newcomer){
		.client = *client, .connection = connection, .since_ms = uv_now(&server->loop)};
	add_last(server, newcomer);
}

static void tell_why(struct newcomer *newcomer, const struct peer *leftover)
{
	if (newcomer->is_told)
		return;
	newcomer->is_told = true;
	log_line("Client process %d waits: work of client " SESSION_NAME
		 ", which has left, is still on the GPU",
		(int)newcomer->client.pid, SESSION_NAME_ARGS(leftover->session));
}

void newcomers_look(struct server *server)
{
	const struct peer *leftover = find_leftover(server);
	uint64_t now_ms = uv_now(&server->loop);

	if (leftover)
		for (struct newcomer *each = server->newcomers; each; each = each->next)
			if (now_ms - each->since_ms >= NEWCOMER_TOLD_MS)
				tell_why(each, leftover);
	while (server->newcomers &&
		(!leftover || now_ms - server->newcomers->since_ms >= NEWCOMER_WAIT_MS)) {
		struct newcomer *newcomer = take_first(server);

		peer_new(server, &newcomer->client, newcomer->connection);
		free(newcomer);
	}
}

static void tell(struct server *server, const struct newcomer *newcomer, enum frame_type type)
{
	const struct peer peer = {.id = newcomer->client.id, .pid = (pid_t)newcomer->client.pid};

	peer_tell(server, &peer, type);
}

void newcomers_drop(struct server *server)
{
	while (server->newcomers) {
		struct newcomer *newcomer = take_first(server);

		tell(server, newcomer, FRAME_CLIENT_GONE);
		async_close(newcomer->connection);
		free(newcomer);
	}
}

void newcomers_tell(struct server *server)
{
	for (const struct newcomer *each = server->newcomers; each; each = each->next)
		tell(server, each, FRAME_CLIENT_HERE);
}
