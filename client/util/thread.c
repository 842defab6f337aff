/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Starts threads. Any thread of the application.
 *
 * Invariant: the caller's mask of signals is as before.
 */

#include "thread.h"

#include <signal.h>
#include <sys/prctl.h>

#include "base.h"
#include "compat.h"

/* For the program's functions, also where RLIMIT_STACK gives threads less. */
#define STACK_MIN ((size_t)1 << 20)

/* What an instruction of a thread causes: a blocked one would end the process. */
static const int own_errors[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};

static int create_detached(void *(*thread_main)(void *arg), void *arg)
{
	pthread_attr_t attr;
	pthread_t thread;
	size_t size = 0;
	int r;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (pthread_attr_getstacksize(&attr, &size) == 0 && size < STACK_MIN)
		pthread_attr_setstacksize(&attr, STACK_MIN);
	r = pthread_create(&thread, &attr, thread_main, arg);
	pthread_attr_destroy(&attr);
	return -r;
}

int thread_start(void *(*thread_main)(void *arg), void *arg)
{
	sigset_t blocked, before;
	int r;

	/* Before glibc 2.34, a program without libpthread cannot have threads. */
	if (!pthread_create || !pthread_attr_getstacksize || !pthread_attr_setstacksize)
		return -ENOSYS;
	sigfillset(&blocked);
	for (size_t i = 0; i < ARRAY_SIZE(own_errors); i++)
		sigdelset(&blocked, own_errors[i]);
	/* Not pthread_sigmask(), which is in libpthread too; on Linux both do the same. */
	sigprocmask(SIG_SETMASK, &blocked, &before);
	r = create_detached(thread_main, arg);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return r;
}

void thread_set_name(const char *name)
{
	prctl(PR_SET_NAME, name, 0, 0, 0);
}
