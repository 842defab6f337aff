/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SUCCESSOR_H
#define SUCCESSOR_H

/*
 * The command restart_server, and survivors of a GPU fault: a server moves its clients to a
 * successor, another process of the same slot. The daemon starts the successor and gives each of
 * the two an end of a socket pair; the servers do the rest (server/departure.h, server/arrival.h).
 *
 * Which of them has the clients is known when one has said so, or when one has ended. A server
 * that keeps its clients says that. A successor that has them says that, and one that has not got
 * them ends by itself. So the end of a server whose clients may have moved waits for its successor.
 * While that goes on, new clients wait in the slot.
 *
 * Loop thread.
 */

#include "base.h"

struct conn;
struct error_message;
struct frame_client_note;
struct frame_restarted;
struct server;
struct server_watch;

/*
 * Starts a successor for the server, whose clients' work has `timeout_ms' to end. `force': clients
 * that cannot move end. 0 or -errno with an error message. If the clients stay, server::keeps says
 * why, and server::stayed which client.
 */
int successor_start(
	struct server *server, uint64_t timeout_ms, bool force, struct error_message *error);

/* The same for a command, whose connection is answered now, or later. */
void successor_begin(struct server *server, struct conn *conn, uint64_t timeout_ms, bool force);

/*
 * The server is in FAULT, and asks for a successor for the clients that survive. If none can be
 * started, it is asked to end.
 */
void successor_rescue(struct server *server);

/* The server is ACTIVE: if it is a successor that starts, both are ordered to move the clients. */
void successor_on_ready(struct server *server);

/* FRAME_CLIENT_HERE and FRAME_RESTARTED of any server. 0 or -EBADMSG. */
int successor_on_client(struct server *server, const struct frame_client_note *note);
int successor_on_restarted(struct server *server, const struct frame_restarted *frame);

/* Ends the pair of a server that ends. */
extern const struct server_watch successor_watch;

#endif
