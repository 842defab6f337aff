/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NEWCOMERS_H
#define NEWCOMERS_H

/*
 * Clients that are not welcomed yet. A client that has left may leave work on a
 * GPU that never ends, which costs the server (MPS_GRACE_MS). A client that came
 * meanwhile would lose its server too; so it waits until that work has ended, or
 * the next server serves it. Loop thread.
 */

#include "frame.h"

struct server;

/* A client that the daemon sends is welcomed, now or later (client_conn_new()). Takes `connection'.
 */
void newcomers_take(struct server *server, const struct frame_client *client, int connection);

/* Work of a client that has left may have ended: welcomes those that need not wait any more. */
void newcomers_look(struct server *server);

/*
 * Refuses the client with that id with 810, if it waits here: whether it did.
 * The daemon is told that the client has gone.
 */
bool newcomers_terminate(struct server *server, uint64_t id);

/* The server ends. Connections that close without a word make their clients try again. */
void newcomers_drop(struct server *server);

/* Tells a new daemon of each. */
void newcomers_notify(struct server *server);

#endif
