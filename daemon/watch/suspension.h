/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SUSPENSION_H
#define SUSPENSION_H

/*
 * Suspended clients, and commands that wait until servers have suspended or resumed them. A
 * suspension is of a client, not of a group or a user: clients that come later are not suspended.
 * The servers hold it, so it outlives the daemon. Loop thread.
 */

#include "frame.h"
#include "daemon/state/client_set.h"
#include "daemon/server/server_watch.h"

struct client;
struct conn;
struct daemon;
struct server;

/* Whether the client belongs to the set. A terminated client is in no set. */
bool suspension_concerns(const struct client_set *set, const struct client *client);

/*
 * Suspends or resumes the clients of the set, of which there are some. Answers the connection now,
 * or later: a suspension within `timeout_ms'.
 */
void suspension_begin(
	struct conn *conn, const struct client_set *set, bool is_suspension, uint64_t timeout_ms);

/* A client may have left the sets: answers the commands that need not wait any more. */
void suspensions_check(struct daemon *daemon);

/* The server has reported the state of a client. 0 or -EBADMSG. */
int suspension_on_frame(struct server *server, const struct frame_suspend *frame);

extern const struct server_watch suspensions_watch;

#endif
