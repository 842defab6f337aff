/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns a page fault of this process into a fault of the GPU: memory that was
 * unmapped or became read-only after it was looked up. A page of registered memory
 * that its file no longer has is an exception: it is pinned, so the GPU keeps it;
 * here a page without its bytes replaces it.
 *
 * The handler acts only on a thread inside guard_run(); every other signal goes to
 * the previous handler.
 */

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

#include "memory.h"
#include "tests/softgpu/driver/stream/work.h"

static _Thread_local sigjmp_buf *guard;
static struct sigaction before[2];

/* The faulting thread accesses memory, so it does not hold the lock of the ranges. */
static bool page_keep(uintptr_t address)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *start = (void *)(address & ~(page - 1));

	return range_is_registered(address) &&
	       mmap(start, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		       -1, 0) == start;
}

static void on_fault(int signo, siginfo_t *info, void *ucontext)
{
	const struct sigaction *old = &before[signo == SIGBUS];

	if (guard && signo == SIGBUS && page_keep((uintptr_t)info->si_addr))
		return;
	if (guard)
		siglongjmp(*guard, 1);
	if (old->sa_flags & SA_SIGINFO) {
		old->sa_sigaction(signo, info, ucontext);
	} else if (old->sa_handler != SIG_DFL && old->sa_handler != SIG_IGN) {
		old->sa_handler(signo);
	} else {
		/* On return, the access is repeated and ends the process. */
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
