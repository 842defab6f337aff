/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Servers of an earlier build or version, as text and as JSON. Loop thread.
 */

#include "earlier_servers.h"

#include "command_reply.h"
#include "daemon/state/daemon.h"
#include "daemon/state/released.h"
#include "daemon/state/tenant.h"
#include "daemon/conn/conn.h"
#include "daemon/server/server.h"
#include "daemon/server/viewer.h"
#include "daemon/watch/upgrade.h"

static const char of_another_version[] = "it works for its clients until they have ended";

/* Why its clients are still there. */
static const char *reason_of(const struct server *server)
{
	if (!server->daemon->config.moves_on_upgrade)
		return "restart_server would move its clients";
	return server->keeps.text[0] && !server->successor
		       ? server->keeps.text
		       : "its clients will move to another server";
}

void earlier_servers_reply(struct conn *conn)
{
	const struct daemon *daemon = conn->daemon;

	list_each (const struct server, server, &daemon->servers, link_in_daemon)
		if (upgrade_is_wanted(server) && viewer_sees_server(conn, server))
			command_reply(conn, "Server %d of user %u is of an earlier build: %s",
				server->pid, server->tenant->uid, reason_of(server));
	list_each (const struct released, released, &daemon->released, link)
		if (viewer_sees_user(conn, released->uid))
			command_reply(conn, "Server %d of user %u is of another version: %s",
				released->pid, released->uid, of_another_version);
}

static json_t *describe(pid_t pid, uid_t uid, const char *kind, const char *reason)
{
	return json_pack("{s:o s:o s:s s:o}", "pid", json_integer(pid), "uid", json_integer(uid),
		"differs", kind, "reason", json_text(reason));
}

json_t *earlier_servers_json(const struct conn *conn)
{
	const struct daemon *daemon = conn->daemon;
	json_t *list = json_array();

	list_each (const struct server, server, &daemon->servers, link_in_daemon)
		if (upgrade_is_wanted(server) && viewer_sees_server(conn, server))
			json_add(&list, describe(server->pid, server->tenant->uid, "build",
						reason_of(server)));
	list_each (const struct released, released, &daemon->released, link)
		if (viewer_sees_user(conn, released->uid))
			json_add(&list, describe(released->pid, released->uid, "version",
						of_another_version));
	return list;
}
