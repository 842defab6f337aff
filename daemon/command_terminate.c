/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The command terminate_client. Loop thread.
 *
 * Invariant: the last line of the reply is a CUresult, 0 for success, as
 * scripts expect it; but not where the command is not permitted.
 */

#include "command_terminate.h"

#include "clients.h"
#include "command_scope.h"
#include "command_conn.h"
#include "cuda.h"
#include "daemon.h"
#include "conn.h"
#include "server.h"
#include "tenant.h"
#include "termination.h"
#include "tokenize.h"

/* Whose the server's clients of that process are; if not one user's, the server's owner. */
static uid_t find_owner(const struct server *server, uint64_t pid)
{
	const struct client *found = NULL;

	list_for_each (item, &server->clients) {
		const struct client *client = container_of(item, struct client, link);

		if ((uint64_t)client->pid != pid)
			continue;
		if (found && found->uid != client->uid)
			return server->tenant->uid;
		found = client;
	}
	return found ? found->uid : server->tenant->uid;
}

static bool may(struct peer *peer, const char *name, const struct server *server, uint64_t pid)
{
	return peer->cred.uid == server->tenant->uid ||
	       scope_may(peer, name, find_owner(server, pid));
}

static void reply_no_server(struct peer *peer, const char *pid)
{
	commander_fail(peer, "Server %s not found", pid);
	commander_fail(peer, "Server %s not found!", pid);
	commander_fail(peer, "%d", CUDA_ERROR_INVALID_VALUE);
}

void command_terminate_client(struct peer *peer, const struct words *words)
{
	uint64_t server_pid, pid = 0;
	struct server *server = parse_number(words->word[1], INT32_MAX, &server_pid) == 0
					? server_find(peer->daemon, (pid_t)server_pid)
					: NULL;

	if (!server) {
		reply_no_server(peer, words->word[1]);
		return;
	}
	/* A client in a PID namespace that the daemon cannot see has the PID 0. */
	if (parse_number(words->word[2], INT32_MAX, &pid) < 0)
		pid = 0;
	if (!may(peer, words->word[0], server, pid))
		return;
	if (pid == 0 || clients_count_of(server, (pid_t)pid) == 0) {
		commander_fail(peer, "%d", CUDA_ERROR_INVALID_CONTEXT);
		return;
	}
	termination_begin(server, peer, (pid_t)pid);
}
