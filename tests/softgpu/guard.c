/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a GPU answers with a fault is here a page fault of this process: memory
 * that went away, or became read-only, after it was looked up.
 *
 * The handler acts only on a thread that is inside guard_run(); every other
 * signal goes where it went before.
 */

#include "work.h"

#include <setjmp.h>
#include <signal.h>

static _Thread_local sigjmp_buf *guard;
static struct sigaction before[2];

static void on_fault(int signo, siginfo_t *info, void *ucontext)
{
	const struct sigaction *old = &before[signo == SIGBUS];

	if (guard)
		siglongjmp(*guard, 1);
	if (old->sa_flags & SA_SIGINFO) {
		old->sa_sigaction(signo, info, ucontext);
	} else if (old->sa_handler != SIG_DFL && old->sa_handler != SIG_IGN) {
		old->sa_handler(signo);
	} else {
		/* The access is made again on return, and then ends the process. */
		sigaction(signo, old, NULL);
	}
}

void guard_init(void)
{
	static bool is_done;
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};

	if (is_done)
		return;
	is_done = true;
	sigemptyset(&action.sa_mask);
	sigaction(SIGSEGV, &action, &before[0]);
	sigaction(SIGBUS, &action, &before[1]);
}

CUresult guard_run(CUresult (*fn)(struct work *work, struct stream *stream), struct work *work,
	struct stream *stream)
{
	sigjmp_buf buffer;
	CUresult result;

	if (sigsetjmp(buffer, 0) != 0) {
		guard = NULL;
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	}
	guard = &buffer;
	result = fn(work, stream);
	guard = NULL;
	return result;
}
