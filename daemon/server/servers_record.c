/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Writes the record of all servers. Loop thread.
 *
 * Invariant: a record that could not be written is written again later, and the log says so once.
 */

#include "servers_record.h"

#include <string.h>

#include "bounds.h"
#include "server.h"
#include "state_text.h"
#include "daemon/config/allowances.h"
#include "daemon/state/daemon.h"
#include "daemon/state/record.h"
#include "daemon/conn/listener.h"

void servers_record(struct daemon *daemon)
{
	static struct record records[SERVERS_LIMIT];
	_cleanup_free_ char *state = state_text_format(daemon);
	size_t n = 0;
	int r;

	list_each (struct server, server, &daemon->servers, link_in_daemon)
		if (n < SERVERS_LIMIT)
			records[n++] = server_record(server);
	r = state ? record_store(daemon->listener->directory, records, n,
			    daemon->is_quitting && n == 0 ? "" : state)
		  : -ENOMEM;
	if (r == 0 && daemon->is_record_due)
		log_control(&daemon->logs, "The record of servers in %s is written again",
			daemon->config.pipe_directory);
	else if (r < 0 && !daemon->is_record_due)
		log_control(&daemon->logs,
			"Cannot write the record of servers in %s: %s: if this daemon dies, the "
			"next daemon does not adopt them, nor keep what commands have set",
			daemon->config.pipe_directory, strerror(-r));
	daemon->is_record_due = r < 0;
	if (r < 0 && !daemon->is_over)
		daemon_want_later(daemon, WANT_RECORD);
}
