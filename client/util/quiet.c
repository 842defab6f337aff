/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Signals of this library's own system calls. Any thread of the application.
 *
 * Invariant: a signal that was pending before stays pending, and the thread's mask is unchanged.
 */

#include "quiet.h"

#include <time.h>

#include "base.h"

static const int signals[] = {SIGPIPE, SIGXFSZ};

void quiet_begin(struct quiet *quiet)
{
	int saved = errno;
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		sigaddset(&set, signals[i]);
	/* Not pthread_sigmask(), which is in libpthread too; on Linux both do the same. */
	sigprocmask(SIG_BLOCK, &set, &quiet->before);
	sigpending(&quiet->pending);
	errno = saved;
}

void quiet_end(struct quiet *quiet)
{
	const struct timespec now = {0};
	int saved = errno;
	sigset_t set, pending;

	sigemptyset(&set);
	sigpending(&pending);
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		if (sigismember(&pending, signals[i]) && !sigismember(&quiet->pending, signals[i]))
			sigaddset(&set, signals[i]);
	while (sigtimedwait(&set, NULL, &now) > 0)
		continue;
	sigprocmask(SIG_SETMASK, &quiet->before, NULL);
	errno = saved;
}
