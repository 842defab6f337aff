/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Terminations. Loop thread.
 *
 * Invariant: a termination is on its server's list as long as its peer waits,
 * and no longer.
 */

#include "termination.h"

#include "clients.h"
#include "command_conn.h"
#include "cuda.h"
#include "server_conn.h"
#include "conn.h"
#include "server.h"

/* What a server may take longer than it has for ending a client's work: it is replaced then. */
#define LATE_MS 1000

struct termination {
	struct list link;
	struct server *server; /* not owned */
	struct peer *peer;     /* not owned */
	pid_t pid;
};

static void termination_free(struct termination *termination)
{
	termination->peer->termination = NULL;
	list_remove(&termination->link);
	free(termination);
}

/* `why' is NULL for success. A reply may close the peer, so the termination goes first. */
static void answer(struct termination *termination, CUresult result, const char *why)
{
	struct peer *peer = termination->peer;

	termination_free(termination);
	if (why)
		commander_fail(peer, "%s", why);
	if (why)
		commander_fail(peer, "%d", (int)result);
	else
		commander_reply(peer, "%d", CUDA_SUCCESS);
	commander_resume(peer);
}

static bool is_over(const struct server *server, pid_t pid)
{
	list_for_each (item, &server->clients) {
		const struct client *client = container_of(item, struct client, link);

		if (client->pid == pid && (client->termination == TERMINATION_WANTED ||
						  client->termination == TERMINATION_ASKED))
			return false;
	}
	return true;
}

void terminations_look(struct server *server)
{
	list_for_each_safe (item, following, &server->terminations) {
		struct termination *each = container_of(item, struct termination, link);

		if (is_over(server, each->pid))
			answer(each, CUDA_SUCCESS, NULL);
	}
}

void terminations_push(struct server *server)
{
	struct frame_terminate frame = {0};

	frame_init(&frame, FRAME_TERMINATE, 0);
	list_for_each (item, &server->clients) {
		struct client *client = container_of(item, struct client, link);

		if (!server->link || client->termination != TERMINATION_WANTED)
			continue;
		frame.client = client->id;
		/* Where there is no room now, link_on_writable() follows. */
		if (peer_send(server->link, &frame, -EBADF) < 0)
			return;
		client->termination = TERMINATION_ASKED;
	}
}

void termination_begin(struct server *server, struct peer *peer, pid_t pid)
{
	struct termination *termination;

	if (!server->link) {
		commander_fail(
			peer, "Server %d has no connection to the daemon: try again", server->pid);
		commander_fail(peer, "%d", CUDA_ERROR_MPS_SERVER_NOT_READY);
		return;
	}
	termination = malloc(sizeof(*termination));
	if (!termination) {
		commander_fail(peer, "The daemon has no memory");
		commander_fail(peer, "%d", CUDA_ERROR_OUT_OF_MEMORY);
		return;
	}
	*termination = (struct termination){.server = server, .peer = peer, .pid = pid};
	list_add_tail(&server->terminations, &termination->link);
	peer->termination = termination;
	peer->is_waiting = true;
	peer_set_deadline(peer, server_end_ms(server) + LATE_MS);
	list_for_each (item, &server->clients) {
		struct client *client = container_of(item, struct client, link);

		if (client->pid == pid && client->termination == TERMINATION_NONE)
			client->termination = TERMINATION_WANTED;
	}
	terminations_push(server);
	terminations_look(server);
}

void termination_on_answer(struct server *server, const struct frame_terminate *frame)
{
	struct client *client = clients_find(server, frame->client);

	/* One that has left meanwhile is as good as terminated. */
	if (client)
		client->termination = TERMINATION_DONE;
	terminations_look(server);
}

void terminations_fail(struct server *server)
{
	list_for_each_safe (item, following, &server->terminations) {
		struct termination *each = container_of(item, struct termination, link);

		struct reason why;

		reason_set(&why, 0, "Server %d went away before it had ended the work of client %d",
			server->pid, each->pid);
		answer(each, CUDA_ERROR_MPS_RPC_FAILURE, why.text);
	}
}

void termination_on_deadline(struct peer *peer)
{
	struct termination *termination = peer->termination;
	struct reason why;

	reason_set(&why, 0,
		"Server %d has not ended the work of client %d within %d s: look into server.log, "
		"and if nothing helps, use shutdown_server %d -f",
		termination->server->pid, termination->pid,
		(int)((server_end_ms(termination->server) + LATE_MS) / 1000),
		termination->server->pid);
	answer(termination, CUDA_ERROR_TIMEOUT, why.text);
}

void termination_drop(struct peer *peer)
{
	if (peer->termination)
		termination_free(peer->termination);
}
