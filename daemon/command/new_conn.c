/* SPDX-License-Identifier: Apache-2.0 */

/*
 * New connections. Loop thread.
 *
 * Invariant: the first byte is read only after it has shown what the peer is.
 */

#include "new_conn.h"

#include <sys/socket.h>

#include "command_conn.h"
#include "daemon/conn/conn.h"
#include "daemon/peer/handshake.h"

static int new_conn_events(_unused_ const struct conn *conn)
{
	return UV_READABLE;
}

static void on_new_conn_event(struct conn *conn, _unused_ int events)
{
	ssize_t n = 1;

	if (conn->in_size == 0)
		n = recv(conn->fd, conn->in.bytes, 1, MSG_PEEK | MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0)
		conn_close(conn);
	else if (conn->in.bytes[0] == 0 && !conn->is_for_pages)
		handshake_read(conn);
	else
		command_conn_read(conn);
}

static enum eviction_merit new_conn_merit(const struct conn *conn)
{
	return conn->in_size > 0 ? MERIT_PARTLY_READ : MERIT_SILENT;
}

const struct conn_ops new_conn_ops = {
	.events = new_conn_events,
	.on_event = on_new_conn_event,
	.on_deadline = conn_close,
	.merit = new_conn_merit,
};
