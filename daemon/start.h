/* SPDX-License-Identifier: Apache-2.0 */
#ifndef START_H
#define START_H

/* Whether a slot may have a server started now, and the start. Loop thread. */

#include "base.h"

struct slot;

/*
 * Starts a server for those who wait; or they are told why there is none; or
 * the start waits for its turn and slots_progress() follows.
 */
void start_server_for(struct slot *slot);

/* Restarts after bad ends that still count. */
unsigned start_count_restarts(struct slot *slot);

#endif
