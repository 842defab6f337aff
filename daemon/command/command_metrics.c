/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The command metrics. Loop thread.
 *
 * Invariant: a user sees the counters that stats shows to that user.
 */

#include "command_reply.h"
#include "commands.h"
#include "daemon/conn/conn.h"
#include "daemon/watch/counting.h"
#include "daemon/watch/metrics.h"

void command_metrics(struct conn *conn, const struct tokens *tokens)
{
	_cleanup_free_ char *page = NULL;
	size_t size;

	if (!counting_is_fresh(conn, tokens->item[0]))
		return;
	page = metrics_page(conn->daemon, conn, &size);
	if (!page) {
		command_fail(conn, "The MPS daemon is out of memory: try again later");
		return;
	}
	/* The last line of a reply gets its end there. */
	if (size > 0 && page[size - 1] == '\n')
		page[size - 1] = '\0';
	command_reply_text(conn, page);
}
