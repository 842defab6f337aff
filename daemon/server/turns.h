/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TURNS_H
#define TURNS_H

/*
 * A GPU in compute mode EXCLUSIVE_PROCESS admits one process. Servers then
 * take turns: a server starts when the previous one has ended, which it does
 * when its clients have left. The connection that has waited longest is served
 * first. Loop thread.
 */

#include "base.h"

struct daemon;
struct server;
struct slot;

/*
 * Whether the slot may have a server now. If not, the start is tried again
 * when a server has ended.
 */
bool turns_allow(struct slot *slot);

/*
 * The server has reported its GPUs and is ready: it ends if another server
 * excludes it. A probe checks the compute mode that an ordinary user's server
 * reports (probe.h).
 */
void turns_on_ready(struct server *server);

/* A probe has found the GPUs. */
void turns_on_probe(struct daemon *daemon);

/* The server that has to end before this slot can have its next one, or NULL. */
const struct server *turns_before(const struct slot *slot);

#endif
