/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RESCUE_H
#define RESCUE_H

/*
 * A GPU fault costs nothing to clients that had no work on the GPU, and whose memory it has not
 * changed: they go on in a successor (departure.h). Clients with MPS_ON_FAULT=continue go on
 * without what they had (dropped.h). The others get the error, and end with this server, whose loop
 * ends all that rescue_takes() does not name. Loop thread.
 *
 * A client with MPS_ON_FAULT=continue that may have caused two faults within FAULT_MEMORY_MS ends,
 * unless this server has clients of its program only.
 *
 * No call of the driver can be relied on after a fault. What a session takes along is known before:
 * chunks of memory are exported all the same (measured).
 */

#include <stdbool.h>

struct client_conn;
struct server;

/* Chooses the clients that may survive the fault. Returns their number. */
unsigned rescue_begin(struct server *server);

/* Tells the daemon, behind the report of the fault, why the others do not survive. */
void rescue_report(const struct server *server);

/* Whether the client has been chosen, and nothing speaks against it yet. */
bool rescue_takes(const struct client_conn *conn);
bool rescue_has_any(const struct server *server);

/*
 * Gives the error to clients that do not survive for a reason found meanwhile. Returns whether the
 * others can move now: they are packed, the clients that had work have got the error, and most of
 * these have ended.
 */
bool rescue_look(struct server *server);

/* The client moves: notes for the successor that it may have caused the fault, or has. */
void rescue_note(struct client_conn *conn);

/* No client survives: all that were chosen get the error. */
void rescue_end(struct server *server, const char *why);

#endif
