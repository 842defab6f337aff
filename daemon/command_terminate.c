/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The command terminate_client. Loop thread.
 *
 * Invariant: the last line of the reply is a CUresult, 0 for success, as
 * scripts expect it; but not where the command is not permitted.
 */

#include "command_terminate.h"

#include "clients.h"
#include "command.h"
#include "commander.h"
#include "cuda.h"
#include "daemon.h"
#include "peer.h"
#include "server.h"
#include "termination.h"
#include "words.h"

static bool exists(const struct daemon *daemon, uint64_t pid)
{
	list_for_each (item, &daemon->servers)
		if ((uint64_t)container_of(item, struct server, link_in_daemon)->pid == pid)
			return true;
	return false;
}

void command_terminate_client(struct peer *peer, const struct words *words)
{
	struct server *server = command_find_server(peer, words);
	uint64_t pid = 0;

	if (!server) {
		if (parse_number(words->word[1], INT32_MAX, &pid) == 0 && exists(peer->daemon, pid))
			return;
		commander_fail(peer, "Server %s not found!", words->word[1]);
		commander_fail(peer, "%d", CUDA_ERROR_INVALID_VALUE);
		return;
	}
	/* A client in a PID namespace that the daemon cannot see has the PID 0. */
	if (parse_number(words->word[2], INT32_MAX, &pid) < 0 || pid == 0 ||
		clients_count_of(server, (pid_t)pid) == 0) {
		commander_fail(peer, "%d", CUDA_ERROR_INVALID_CONTEXT);
		return;
	}
	termination_begin(server, peer, (pid_t)pid);
}
