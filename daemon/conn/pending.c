/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Commands that wait. Loop thread.
 *
 * Invariant: a connection with a pending command takes no further one.
 */

#include "pending.h"

#include <stdarg.h>
#include <string.h>

#include "conn.h"

void pending_begin(struct conn *conn, const struct pending *pending, uint64_t timeout_ms)
{
	conn->pending = pending;
	conn_set_deadline(conn, timeout_ms);
}

bool pending_begin_rerun(
	struct conn *conn, const struct pending *pending, const char *command, uint64_t timeout_ms)
{
	conn->retry = strdup(command);
	if (!conn->retry)
		return false;
	pending_begin(conn, pending, timeout_ms);
	return true;
}

void pending_rerun(struct conn *conn)
{
	_cleanup_free_ char *command = TAKE_PTR(conn->retry);

	list_remove(&conn->wait);
	conn->awaited = TAKE_PTR(conn->pending);
	conn->ops->run(conn, command);
	conn->awaited = NULL;
	/* It may wait for something else now. */
	if (!conn->pending)
		pending_end(conn);
}

void pending_rerun_all(struct list *waiting)
{
	list_each_safe (struct conn, conn, waiting, wait)
		pending_rerun(conn);
}

void pending_end(struct conn *conn)
{
	conn->ops->resume(conn);
}

void pending_reply(struct conn *conn, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	conn->ops->reply(conn, false, format, args);
	va_end(args);
}

void pending_fail(struct conn *conn, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	conn->ops->reply(conn, true, format, args);
	va_end(args);
}
