/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The reload command. Loop thread.
 *
 * Invariant: a reload that is refused changes nothing, and the reply has every
 * error of the file.
 */

#include "command_reply.h"
#include "command_scope.h"
#include "commands.h"
#include "reload.h"
#include "daemon/state/daemon.h"
#include "daemon/conn/conn.h"

void command_reload(struct conn *conn, const struct tokens *tokens)
{
	struct daemon *daemon = conn->daemon;
	struct error_message error;

	if (!scope_permits_config(conn, tokens->item[0]))
		return;
	if (log_files_reopen(&daemon->logs, &error) < 0)
		command_fail(conn, "%s", error.text);
	reload_start(daemon, conn);
}
