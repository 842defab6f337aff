/* SPDX-License-Identifier: Apache-2.0 */
#ifndef START_H
#define START_H

/* Decides whether a slot may start a server now, and starts it. Loop thread. */

#include "base.h"

struct slot;

/*
 * Starts a server for the waiting connections; or refuses them with an error;
 * or delays the start, and slots_progress() follows.
 */
void start_server_for(struct slot *slot);

#endif
