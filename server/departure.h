/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DEPARTURE_H
#define DEPARTURE_H

/*
 * This server moves all its clients to a successor (restart_server). Each worker fetches no message
 * any more, waits until its client's work on the GPUs has ended, and packs its session. When all
 * have, a thread sends the packs, the successor answers that it has everything, and the thread
 * commits: this process ends at once, without cleanup.
 *
 * Until the commit is in the socket, the sessions are this server's, and each failure lets them go
 * on here. From then on they are the successor's. A server that is killed before ends its clients,
 * as at any other time.
 */

#include <stdatomic.h>

#include "base.h"
#include "server/session/session.h"

struct frame_restart;
struct server;

/* ---- the loop */

/*
 * Takes `sock', an end of the pair with the successor. Replies to the daemon now or later.
 * departure_look() has to follow.
 */
void departure_begin(struct server *server, const struct frame_restart *order, int sock);

/*
 * After a fault: the clients that it spares (rescue.h) move to a successor, which the daemon is
 * asked for. departure_look() has to follow.
 */
void departure_rescue(struct server *server);

/* The daemon cannot start a successor any more. */
void departure_on_daemon_lost(struct server *server);

/* Looks how far the workers and the thread are. Returns whether to call it again soon. */
bool departure_look(struct server *server);

/* Something happens that a server which moves its clients cannot do: they stay. */
void departure_cancel(struct server *server, const char *why);

/* ---- the worker */

/* Returns when the session stays, or ends. At once if it does not move. */
void departure_hold(struct session *session);

/* Looks whether the session could move, for the daemon. Reads no code for that. */
void departure_note(struct session *session);

/* Whether that was done since the last message. */
bool departure_is_noted(const struct session *session);

#endif
