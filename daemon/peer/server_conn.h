/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_CONN_H
#define SERVER_CONN_H

/*
 * The connection between the daemon and one server. Its buffer holds the
 * current frame. Loop thread.
 */

#include "base.h"

struct conn;
struct server;

/* A server's handshake is complete: `conn' is its connection from now on. */
void server_conn_open(struct server *server, struct conn *conn);

/* The connection is writable again: sends what it did not take. */
void server_conn_on_writable(struct server *server);

/* Sends the server a shutdown that was requested and not sent yet. */
void server_conn_send_shutdown(struct server *server);

#endif
