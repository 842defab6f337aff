/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIEWER_H
#define VIEWER_H

/* Who may see what: root and the daemon's user see all, other users what is theirs. Loop thread. */

#include <sys/types.h>

#include "base.h"

struct client;
struct conn;
struct server;

/*
 * Whether a list shows the server or client to the connection's user: its own,
 * and everything to a trusted user.
 */
bool viewer_sees_server(const struct conn *conn, const struct server *server);
bool viewer_sees_client(
	const struct conn *conn, const struct server *server, const struct client *client);

/* The same of a user's sums; and whether the connection's user sees everything. */
bool viewer_sees_user(const struct conn *conn, uid_t uid);
bool viewer_sees_all(const struct conn *conn);

#endif
