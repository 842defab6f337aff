/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_CONN_H
#define SERVER_CONN_H

/*
 * The connection between the daemon and one server. Its connection's in-buffer holds
 * the frame that is looked at. Loop thread.
 */

#include "base.h"

struct conn;
struct server;

/* The server's introduction: `conn' is its connection from now on. */
void server_conn_open(struct server *server, struct conn *conn);

/* It is gone; `is_unread': with frames of ours that the server has not read. */
void server_conn_on_lost(struct server *server, bool is_unread);

/* There is room again. */
void server_conn_on_writable(struct server *server);

/* A whole frame is there. -EBADMSG: the connection has to go. */
int server_conn_on_frame(struct server *server, struct conn *conn);

/* Sends the shutdown that the server has been promised and not told yet. */
void server_conn_send_shutdown(struct server *server);

#endif
