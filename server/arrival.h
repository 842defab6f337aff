/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ARRIVAL_H
#define ARRIVAL_H

/*
 * This server is the successor of another one, and takes its clients (server/departure.h). It
 * makes a session for each, checks what it has received, and answers. After the commit a thread
 * waits until the process of the other server has ended, so that the GPUs are free. Then it opens
 * them, and maps the memory of the sessions where it was. Then the workers start, and the clients
 * get their new pages.
 *
 * Without a commit this server ends: it has never had a client. Loop thread, except where noted.
 */

#include "base.h"

struct frame_restart;
struct server;

/* This process was started as a successor: it ends unless it gets clients. */
void arrivals_expect(struct server *server);

/* Takes `sock', an end of the pair with the other server. */
void arrivals_begin(struct server *server, const struct frame_restart *order, int sock);

/* The daemon is lost: without its order, no clients come. */
void arrivals_on_daemon_lost(struct server *server);

/* Tells a new daemon the clients that are not on the server's list yet, and that they are here. */
void arrivals_notify(struct server *server);

#endif
