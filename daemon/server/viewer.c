/* SPDX-License-Identifier: Apache-2.0 */

/* Who may see what. Loop thread. */

#include "viewer.h"

#include "clients.h"
#include "server.h"
#include "daemon/state/daemon.h"
#include "daemon/state/tenant.h"
#include "daemon/conn/conn.h"

bool viewer_sees_server(const struct conn *conn, const struct server *server)
{
	return conn_owns(conn, server->tenant->uid) || conn_is_trusted(conn);
}

bool viewer_sees_client(
	const struct conn *conn, const struct server *server, const struct client *client)
{
	if (conn_is_trusted(conn))
		return true;
	/* Another user's server may claim that its clients are this user's. */
	return conn_owns(conn, client->uid) &&
	       (viewer_sees_server(conn, server) ||
		       daemon_trusts_server(server->daemon, server->tenant->uid));
}

bool viewer_sees_all(const struct conn *conn)
{
	return conn_is_trusted(conn);
}

bool viewer_sees_user(const struct conn *conn, uid_t uid)
{
	return conn_owns(conn, uid) || viewer_sees_all(conn);
}
