/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NEWCOMERS_H
#define NEWCOMERS_H

/*
 * Clients that are not welcomed yet. A client that has left may leave work on a GPU that
 * never ends, which then ends the server (MPS_GRACE_MS). A client that arrives meanwhile
 * would lose its server too. So it waits until that work has ended, or the next server
 * serves it. Loop thread.
 */

#include "frame.h"

struct server;

/*
 * Takes a client that the daemon sends; welcomes it now or later (client_conn_new()). Takes
 * `connection'.
 */
void newcomers_take(struct server *server, const struct frame_client *client, int connection);

/*
 * Work of a client that has left may have ended: welcomes the clients that need not wait any
 * more.
 */
void newcomers_look(struct server *server);

/*
 * Refuses the client with that ID with 810, if it waits here, and notifies the daemon that
 * the client has gone. Returns whether it waited.
 */
bool newcomers_terminate(struct server *server, uint64_t id);

/* The order of the daemon about a client that may wait here: its session begins suspended. */
void newcomers_suspend(struct server *server, const struct frame_suspend *order);

/* The server ends. Closes the connections without an answer, so that the clients try again. */
void newcomers_drop(struct server *server);

/* Notifies a new daemon of each client that waits. */
void newcomers_notify(struct server *server);

#endif
