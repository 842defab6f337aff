/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Forks while CUDA is in use: the child gets "not initialised", as always; its parent continues
 * undisturbed; and a child that executes a program (`forker PROGRAM') starts anew.
 */

#define NAME "forker"
#include <sys/wait.h>
#include <unistd.h>

#include "../helpers/program.h"

static __global__ void store(int *where, int value)
{
	*where = value;
}

static void work(int *data, int value)
{
	int result = 0;

	store<<<1, 1>>>(data, value);
	CHECK(cudaGetLastError());
	CHECK(cudaMemcpy(&result, data, sizeof(result), cudaMemcpyDeviceToHost));
	if (result == value)
		return;
	printf(NAME ": a kernel stored %d, not %d\n", result, value);
	exit(1);
}

/* In the child; the exit code is its result. */
static void child_run(const char *program)
{
	void *data = NULL;

	if (program) {
		execl(program, program, (char *)NULL);
		_exit(127);
	}
	_exit(cudaMalloc(&data, 16));
}

static int child_wait(pid_t pid)
{
	int status = 0;

	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int main(int argc, char **argv)
{
	int want = argc > 1 ? 0 : cudaErrorInitializationError, got;
	int *data = NULL;
	pid_t pid;

	CHECK(cudaMalloc(&data, 4096));
	work(data, 1);
	pid = fork();
	if (pid == 0)
		child_run(argc > 1 ? argv[1] : NULL);
	work(data, 2);
	got = child_wait(pid);
	if (got != want) {
		printf(NAME ": the child ended with %d, not %d\n", got, want);
		return 1;
	}
	work(data, 3);
	printf(NAME ": ok\n");
	return 0;
}
