/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Starting threads. Any thread.
 *
 * Invariant: no thread but the loop's takes a signal, except what it has done itself.
 */

#include <signal.h>

#include "thread.h"

int thread_start(pthread_t *ret_thread, const char *name, void *(*run)(void *), void *arg)
{
	sigset_t all, before;
	int r;

	sigfillset(&all);
	/* Blocked, a page that a client has cut off its file would end the server: see
	 * sigbus_guard.c. */
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(ret_thread, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r == 0)
		pthread_setname_np(*ret_thread, name);
	return -r;
}
