/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The command restart_server. Loop thread.
 */

#include <string.h>

#include "commands.h"
#include "daemon/text/tokenize.h"
#include "daemon/conn/conn.h"
#include "daemon/server/server.h"
#include "daemon/server/successor.h"
#include "daemon/reply/command_reply.h"
#include "daemon/reply/command_scope.h"

/* How long the clients' work may take to end: by default, and at most. */
#define WAIT_S 10
#define WAIT_S_MAX 3600

/* False: the connection is answered. */
static bool read_options(
	struct conn *conn, const struct tokens *tokens, uint64_t *ret_seconds, bool *ret_force)
{
	*ret_seconds = WAIT_S;
	*ret_force = false;
	for (size_t i = 2; i < tokens->n; i++) {
		if (strcmp(tokens->item[i], "-f") == 0) {
			*ret_force = true;
			continue;
		}
		if (strcmp(tokens->item[i], "-t") != 0 || ++i == tokens->n)
			return command_fail(conn, "Usage: restart_server PID [-t SECONDS] [-f]");
		if (parse_number(tokens->item[i], WAIT_S_MAX, ret_seconds) < 0 || *ret_seconds == 0)
			return command_fail(conn, "\"%s\" is not a number of seconds from 1 to %d",
				tokens->item[i], WAIT_S_MAX);
	}
	return true;
}

void command_restart_server(struct conn *conn, const struct tokens *tokens)
{
	struct server *server;
	uint64_t seconds;
	bool force;

	if (!read_options(conn, tokens, &seconds, &force))
		return;
	server = scope_find_server(conn, tokens->item[0], tokens->item[1], true);
	if (server)
		successor_begin(server, conn, seconds * 1000, force);
}
