/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROBE_H
#define PROBE_H

/*
 * The probe: a child of the daemon that opens CUDA, tells of the GPUs and ends
 * (mps-server --devices). For commands about GPUs that come before the first
 * server. It runs as the daemon's user with a server's environment. Loop
 * thread.
 */

#include "base.h"

struct daemon;
struct conn;

/*
 * Whether the daemon's GPUs are known, or cannot be. Otherwise the connection waits,
 * and its command (which is copied) runs again when they are.
 */
bool probe_is_done(struct daemon *daemon, struct conn *conn, const char *command);

/* Looks for the GPUs though they are known, now or in a moment; turns_on_probe() follows. */
void probe_again(struct daemon *daemon);

/* Ends it: the daemon does. */
void probe_stop(struct daemon *daemon);

#endif
