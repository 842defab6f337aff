/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Runs in a forked child, in its only thread, before fork() returns there.
 *
 * Invariant: the rings are not mapped in the child (MADV_DONTFORK), so nothing
 * may be reached through `server' after this.
 */

#include <pthread.h>
#include <stdbool.h>

#include "fork.h"
#include "route.h"

static bool is_watched;

void fork_watch(void)
{
	/* Handlers stay in a child, which may meet a server of its own. */
	if (!is_watched)
		is_watched = pthread_atfork(NULL, NULL, route_forked) == 0;
}
