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
	return server->tenant->uid == conn->cred.uid || daemon_trusts(conn->daemon, conn->cred.uid);
}

bool viewer_sees_client(
	const struct conn *conn, const struct server *server, const struct client *client)
{
	if (daemon_trusts(conn->daemon, conn->cred.uid))
		return true;
	/* Another user's server may claim that its clients are this user's. */
	return viewer_sees_server(conn, server) && client->uid == conn->cred.uid;
}

bool viewer_sees_all(const struct conn *conn)
{
	return daemon_trusts(conn->daemon, conn->cred.uid);
}

bool viewer_sees_user(const struct conn *conn, uid_t uid)
{
	return uid == conn->cred.uid || viewer_sees_all(conn);
}
