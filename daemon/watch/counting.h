/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COUNTING_H
#define COUNTING_H

/*
 * What clients have done, as their servers count it. The daemon asks the servers when a
 * command needs it, and keeps the sums of clients that have ended. Loop thread.
 */

#include "base.h"
#include "daemon/server/server_watch.h"

struct conn;
struct frame_counters;
struct server;

/*
 * Whether the counters are fresh. If not, the servers are asked, and `command' runs again
 * when all have replied, or after a second.
 */
bool counting_is_fresh(struct conn *conn, const char *command);

/* A server's frame. */
void counting_on_frame(struct server *server, const struct frame_counters *frame);

extern const struct server_watch counting_watch;

#endif
