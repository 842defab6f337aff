/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROBE_H
#define PROBE_H

/*
 * The probe: a child of the daemon that opens CUDA, reports the GPUs and exits
 * (mps-server --devices). It serves commands about GPUs that come before the
 * first server. It runs as the daemon's user with the environment of a server.
 * Loop thread.
 */

#include "base.h"

struct daemon;
struct conn;

/*
 * Whether the daemon's GPUs are known, or cannot be found. Otherwise the
 * connection waits, and its command (which is copied) runs again after the
 * probe.
 */
bool probe_is_done(struct daemon *daemon, struct conn *conn, const char *command);

/* WANT_PROBE: probes again although the GPUs are known; turns_on_probe() follows. */
void probe_again(struct daemon *daemon);

/* Ends the probe, as the daemon ends. */
void probe_stop(struct daemon *daemon);

#endif
