/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The handler of SIGBUS. Any thread.
 *
 * Invariant: the handler acts only in the host space, where files of clients are mapped. Any
 * other SIGBUS ends the process, as without the handler.
 */

#include "sigbus_guard.h"

#include <signal.h>
#include <sys/mman.h>

#include "layout.h"

/* A part of a huge page cannot be replaced, so all of it is. */
static bool sigbus_guard_cover(uint64_t address)
{
	static const uint64_t sizes[] = {4096, 2u << 20, 1u << 30};

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		void *start = (void *)(uintptr_t)(address & ~(sizes[i] - 1));

		if (mmap(start, sizes[i], PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
			    0) == start)
			return true;
	}
	return false;
}

static void on_bus(int signo, siginfo_t *info, _unused_ void *ucontext)
{
	uint64_t address = (uintptr_t)info->si_addr;
	int saved = errno;

	/* The access is repeated on return, and ends the process if nothing has changed. */
	if (info->si_code != BUS_ADRERR || address < HOST_SPACE || address >= HOST_SPACE_END ||
		!sigbus_guard_cover(address))
		signal(signo, SIG_DFL);
	errno = saved;
}

void sigbus_guard_init(void)
{
	struct sigaction action = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO};

	sigemptyset(&action.sa_mask);
	sigaction(SIGBUS, &action, NULL);
}
