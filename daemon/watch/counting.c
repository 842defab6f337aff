/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Invariant: a command waits only while a server has a request that it has not replied to,
 * and for a second at most.
 */

#include "counting.h"

#include <string.h>

#include "eviction_stay.h"
#include "daemon/state/daemon.h"
#include "daemon/state/groups.h"
#include "daemon/state/tenant.h"
#include "daemon/conn/conn.h"
#include "daemon/conn/pending.h"
#include "daemon/server/clients.h"
#include "daemon/server/server.h"

/* A server's loop replies in less than a millisecond. */
#define REPLY_MS 1000

/* At the deadline, the command uses the counters that are known. */
static const struct pending pending_counters = {.on_deadline = pending_rerun};

static bool is_any_asked(const struct daemon *daemon)
{
	list_each (const struct server, server, &daemon->servers, link_in_daemon)
		if (server->is_counting)
			return true;
	return false;
}

static void check(struct daemon *daemon)
{
	if (!is_any_asked(daemon))
		pending_rerun_all(&daemon->counting);
}

static void counting_send(struct server *server)
{
	const struct frame_counters frame = {.head = frame_head(FRAME_COUNTERS, 0)};

	if (server->is_counting && !server->is_count_sent)
		server->is_count_sent = conn_send(server->conn, &frame, -EBADF) == 0;
}

/* A server that is busy with an earlier request is not asked again. */
static void ask_all(struct daemon *daemon)
{
	list_each (struct server, server, &daemon->servers, link_in_daemon) {
		/* Without clients, it holds nothing. */
		if (server->n_clients == 0)
			server->store_used = 0;
		if (server->is_counting || !server->conn || server->n_clients == 0)
			continue;
		server->is_counting = true;
		server->is_count_sent = false;
		counting_send(server);
	}
}

bool counting_is_fresh(struct conn *conn, const char *command)
{
	struct daemon *daemon = conn->daemon;

	if (conn->awaited == &pending_counters)
		return true;
	ask_all(daemon);
	if (!is_any_asked(daemon) ||
		!pending_begin_rerun(conn, &pending_counters, command, REPLY_MS))
		return true;
	list_add_tail(&daemon->counting, &conn->wait);
	return false;
}

void counting_on_frame(struct server *server, const struct frame_counters *frame)
{
	struct client *client = clients_find(server, frame->client);

	if (frame->client == 0) {
		server->store_used = frame->store_used;
		server->store_limit = frame->store_limit;
		server->is_counting = false;
		check(server->daemon);
	}
	if (!client)
		return;
	memcpy(client->counts.counters, frame->counters, sizeof(frame->counters));
	memcpy(client->counts.memory, frame->memory, sizeof(frame->memory));
	memcpy(client->counts.memory_peak, frame->memory_peak, sizeof(frame->memory_peak));
	memcpy(client->counts.share_sms, frame->share_sms, sizeof(frame->share_sms));
	memcpy(client->counts.slowdown, frame->slowdown, sizeof(frame->slowdown));
	memcpy(client->counts.away, frame->away, sizeof(frame->away));
	client->counts.stay = frame->stay < EVICTION_STAYS ? frame->stay : STAY_NOTHING;
	if (frame_text_ok(frame->kernel, sizeof(frame->kernel)))
		memcpy(client->kernel, frame->kernel, sizeof(frame->kernel));
	if (frame_text_ok(frame->restart, sizeof(frame->restart)))
		memcpy(client->restart, frame->restart, sizeof(frame->restart));
}

static void counting_fail(struct server *server)
{
	if (!server->is_counting)
		return;
	server->is_counting = false;
	check(server->daemon);
}

/* The counters of the client go to its user and its group. */
static void note_end(struct server *server, const struct client *client)
{
	struct daemon *daemon = server->daemon;
	struct group *group = groups_get(&daemon->groups, client->group);

	usage_add_ended(daemon, client->uid, &client->counts);
	if (group)
		counts_add(&group->ended, &client->counts);
}

const struct server_watch counting_watch = {
	.on_writable = counting_send,
	.on_lost = counting_fail,
	.on_client_end = note_end,
};
