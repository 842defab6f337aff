/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The command terminate_client. Loop thread.
 *
 * Invariant: the last line of the reply is a CUresult, 0 for success, as
 * scripts expect it, unless the command is not permitted.
 */

#include "commands.h"
#include "cuda.h"
#include "daemon/text/tokenize.h"
#include "daemon/state/daemon.h"
#include "daemon/state/tenant.h"
#include "daemon/conn/conn.h"
#include "daemon/server/clients.h"
#include "daemon/server/server.h"
#include "daemon/watch/termination.h"
#include "daemon/reply/command_reply.h"
#include "daemon/reply/command_scope.h"

/*
 * The user of that process's clients in the server; the server's user if they
 * are of several users.
 */
static uid_t find_client_owner(const struct server *server, uint64_t pid)
{
	const struct client *found = NULL;

	list_each (const struct client, client, &server->clients, link) {
		if ((uint64_t)client->pid != pid)
			continue;
		if (found && found->uid != client->uid)
			return server->tenant->uid;
		found = client;
	}
	return found ? found->uid : server->tenant->uid;
}

static bool may_terminate(
	struct conn *conn, const char *name, const struct server *server, uint64_t pid)
{
	return conn_owns(conn, server->tenant->uid) ||
	       scope_permits(conn, name, find_client_owner(server, pid));
}

static void reply_no_server(struct conn *conn, const char *pid)
{
	command_fail(conn, "Server %s not found", pid);
	command_fail(conn, "Server %s not found!", pid);
	command_fail(conn, "%d", CUDA_ERROR_INVALID_VALUE);
}

void command_terminate_client(struct conn *conn, const struct tokens *tokens)
{
	uint64_t server_pid, pid = 0;
	struct server *server = parse_number(tokens->item[1], INT32_MAX, &server_pid) == 0
					? server_find(conn->daemon, (pid_t)server_pid)
					: NULL;

	if (!server) {
		reply_no_server(conn, tokens->item[1]);
		return;
	}
	/* A client in a PID namespace that the daemon cannot see has the PID 0. */
	if (parse_number(tokens->item[2], INT32_MAX, &pid) < 0)
		pid = 0;
	if (!may_terminate(conn, tokens->item[0], server, pid))
		return;
	if (pid == 0 || clients_count_process(server, (pid_t)pid) == 0) {
		command_fail(conn, "%d", CUDA_ERROR_INVALID_CONTEXT);
		return;
	}
	termination_begin(server, conn, (pid_t)pid);
}
