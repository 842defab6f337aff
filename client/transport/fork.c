/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Runs in a forked child, in its only thread, before fork() returns there.
 *
 * Invariant: the rings are not mapped in the child (MADV_DONTFORK), so nothing may
 * use `server' after this.
 */

#include "fork.h"

#include <pthread.h>
#include <stdbool.h>

#include "route.h"

static bool is_watched;

void fork_watch(void)
{
	/* The child inherits the handlers, and may connect to a server itself. */
	if (!is_watched)
		is_watched = pthread_atfork(NULL, NULL, route_forked) == 0;
}
