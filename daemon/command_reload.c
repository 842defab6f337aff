/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The reload command. Loop thread.
 *
 * Invariant: a reload that is refused changes nothing, and the reply has every
 * error of the file.
 */

#include "command_conn.h"
#include "command_scope.h"
#include "commands.h"
#include "conn.h"
#include "daemon.h"
#include "reload.h"

static void reply_line(void *arg, const char *line)
{
	command_reply(arg, "%s", line);
}

void command_reload(struct conn *conn, const struct tokens *tokens)
{
	struct daemon *daemon = conn->daemon;
	const struct config_report report = {reply_line, conn};
	struct error_message error;

	if (!scope_permits_config(conn, tokens->item[0]))
		return;
	manager_begin_reload(daemon);
	if (log_files_reopen(&daemon->logs, &error) < 0)
		command_fail(conn, "%s", error.text);
	if (reload_run(daemon, false, &report) < 0)
		command_fail(conn, RELOAD_REFUSED, daemon->config_file.path);
	else if (daemon->config_file.hash != 0)
		command_reply(conn, "Applied %s", daemon->config_file.path);
	else
		command_reply(conn, "There is no %s: the defaults apply", daemon->config_file.path);
	manager_end_reload(daemon);
}
