/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What happens to a server, told to the tables that hear of it. Loop thread.
 *
 * Invariant: what a server has to be sent is part of the daemon's state. So everything that the
 * socket did not take is sent when the socket takes it.
 */

#include "server_watch.h"

#include "group_shares.h"
#include "server.h"
#include "daemon/state/daemon.h"
#include "daemon/conn/conn.h"

void server_send_shutdown(struct server *server)
{
	unsigned n_wanted = server->is_forced ? 2 : 1;
	const struct frame_shutdown shutdown = {
		.head = frame_head(FRAME_SHUTDOWN, 0), .force = server->is_forced};

	if (server->state != SERVER_STOPPING || !server->conn ||
		server->n_shutdowns_sent >= n_wanted)
		return;
	if (conn_send(server->conn, &shutdown, -EBADF) == 0)
		server->n_shutdowns_sent = n_wanted;
}

void server_send_due(struct server *server)
{
	const struct server_watch *const *each = server->daemon->server_watches;

	server_send_shutdown(server);
	group_shares_send_due(server);
	for (; *each; each++)
		if ((*each)->on_writable)
			(*each)->on_writable(server);
	daemon_want(server->daemon, WANT_PROGRESS);
}

void server_watch_start(struct server *server)
{
	for (const struct server_watch *const *each = server->daemon->server_watches; *each; each++)
		if ((*each)->on_start)
			(*each)->on_start(server);
}

void server_watch_lost(struct server *server)
{
	for (const struct server_watch *const *each = server->daemon->server_watches; *each; each++)
		if ((*each)->on_lost)
			(*each)->on_lost(server);
}

void server_watch_move(struct server *server, const struct server *successor)
{
	for (const struct server_watch *const *each = server->daemon->server_watches; *each; each++)
		if ((*each)->on_move)
			(*each)->on_move(server, successor);
}

void server_watch_end(struct server *server)
{
	for (const struct server_watch *const *each = server->daemon->server_watches; *each; each++)
		if ((*each)->on_end)
			(*each)->on_end(server);
}

void server_watch_client_end(struct server *server, const struct client *client)
{
	for (const struct server_watch *const *each = server->daemon->server_watches; *each; each++)
		if ((*each)->on_client_end)
			(*each)->on_client_end(server, client);
}
