/* SPDX-License-Identifier: Apache-2.0 */

/*
 * In a host function, the program's own handlers run for the errors of the function's
 * instructions, as in the program's threads.
 */

#define NAME "host_errors"

#include <setjmp.h>
#include <signal.h>

#include "../helpers/graph_driver.h"

enum {
	ROUNDS = 5
};

static sigjmp_buf resume;
static volatile sig_atomic_t caught;
static volatile int numerator = 7, zero;

static void on_error(int number)
{
	caught = number;
	siglongjmp(resume, 1);
}

static void divide_by_zero(void *arg)
{
	if (sigsetjmp(resume, 1) == 0)
		*(volatile int *)arg = numerator / zero;
}

static void run_unknown_instruction(void *arg)
{
	(void)arg;
	if (sigsetjmp(resume, 1) == 0)
		__builtin_trap();
}

/* The handler of a signal that the function causes runs, as in a thread of the program. */
static void handle_own_errors(void)
{
	struct sigaction action = {.sa_handler = on_error}, saved;
	int unused = 0;

	for (int i = 0; i < ROUNDS; i++) {
		sigaction(SIGFPE, &action, &saved);
		caught = 0;
		CHECK(cuLaunchHostFunc(stream, divide_by_zero, &unused));
		CHECK(cuStreamSynchronize(stream));
		must(caught == SIGFPE, "SIGFPE in a host function", __LINE__);
		sigaction(SIGFPE, &saved, NULL);
		sigaction(SIGILL, &action, &saved);
		CHECK(cuLaunchHostFunc(stream, run_unknown_instruction, NULL));
		CHECK(cuStreamSynchronize(stream));
		must(caught == SIGILL, "SIGILL in a host function", __LINE__);
		sigaction(SIGILL, &saved, NULL);
	}
}

int main(void)
{
	setup();
	handle_own_errors();
	return finish();
}
