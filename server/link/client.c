/* SPDX-License-Identifier: Apache-2.0 */

/* What a client has to do with the others of its server. Loop thread. */

#include "client.h"

#include "server/session/session_part.h"

bool client_lacks_others(const struct client_conn *conn, const struct client_conn *conns,
	bool (*moves)(const struct client_conn *conn))
{
	for (const struct client_conn *other = conns; other; other = other->next)
		if (!moves(other) && session_parts_need(conn->session, other->session))
			return true;
	return session_parts_need(conn->session, NULL);
}
