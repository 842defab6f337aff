/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LINK_H
#define LINK_H

/*
 * The connection between the daemon and one server. Its peer's in-buffer holds
 * the frame that is looked at. Loop thread.
 */

#include "base.h"

struct peer;
struct server;

/* The server's introduction: `peer' is its connection from now on. */
void link_open(struct server *server, struct peer *peer);

/* It is gone; `is_unread': with frames of ours that the server has not read. */
void link_on_lost(struct server *server, bool is_unread);

/* There is room again. */
void link_on_writable(struct server *server);

/* A whole frame is there. -EBADMSG: the connection has to go. */
int link_on_frame(struct server *server, struct peer *peer);

/* Sends the shutdown that the server has been promised and not told yet. */
void link_push_shutdown(struct server *server);

#endif
