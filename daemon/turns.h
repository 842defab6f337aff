/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TURNS_H
#define TURNS_H

/*
 * A GPU whose compute mode is EXCLUSIVE_PROCESS admits one process. Servers then
 * take turns: a server starts when the one before has ended, which it does when
 * its clients have left; who came first is served first. Loop thread.
 */

#include "base.h"

struct daemon;
struct server;
struct slot;

/* Whether the slot may have a server now. If not, it is tried again when one has ended. */
bool turns_allow(struct slot *slot);

/*
 * The server has told of its GPUs and is ready: it ends if another one has them alone. What an
 * ordinary user's server says of the compute mode is checked by a probe (probe.h).
 */
void turns_on_ready(struct server *server);

/* A probe has found the GPUs. */
void turns_on_probe(struct daemon *daemon);

/* The server that has to end before this slot can have its next one; NULL: there is none. */
const struct server *turns_before(const struct slot *slot);

#endif
