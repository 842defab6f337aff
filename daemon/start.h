/* SPDX-License-Identifier: Apache-2.0 */
#ifndef START_H
#define START_H

/*
 * Whether a tenant may have a server started now, and the start. Loop thread.
 */

#include "base.h"

struct tenant;

/*
 * Starts a server for those who wait; or they are told why there is none; or
 * the start waits for its turn and tenants_progress() follows.
 */
void start_server_for(struct tenant *tenant);

/* Restarts after bad ends that still count. */
unsigned start_count_restarts(struct tenant *tenant);

#endif
