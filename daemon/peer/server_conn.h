/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_CONN_H
#define SERVER_CONN_H

/*
 * The connection between the daemon and one server. Its buffer holds the
 * current frame. Loop thread.
 */

struct conn;
struct server;

/* A server's handshake is complete: `conn' is its connection from now on. */
void server_conn_open(struct server *server, struct conn *conn);

#endif
