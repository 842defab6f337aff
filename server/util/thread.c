/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Starts threads. Any thread.
 *
 * Invariant: only the loop's thread takes signals, except those that a thread causes itself.
 */

#include "thread.h"

#include <signal.h>

int thread_start(pthread_t *ret_thread, const char *name, void *(*run)(void *), void *arg)
{
	sigset_t all, before;
	int r;

	sigfillset(&all);
	/*
	 * If SIGBUS were blocked, a page that a client has cut off its file would end the server
	 * (sigbus_guard.c).
	 */
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(ret_thread, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r == 0)
		pthread_setname_np(*ret_thread, name);
	return -r;
}
