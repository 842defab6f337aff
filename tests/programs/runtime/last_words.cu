/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Calls CUDA while a program ends: `last_words atexit' in a handler and in a destructor of a
 * library-wide object, `thread' in a thread that works when the process ends, `quick' and `abort'
 * during work. The last three run without handlers, because those of the static runtime leave
 * such a thread nothing to work with. The process ends with 0 (`abort': by SIGABRT) and does not
 * hang.
 *
 * Runs: for a test of its own
 */

#define NAME "last_words"
#include <pthread.h>
#include <unistd.h>

#include "../helpers/program.h"

enum {
	WORDS = 1 << 16
};

static unsigned *data;

static __global__ void add(unsigned *words, unsigned value)
{
	words[blockIdx.x * blockDim.x + threadIdx.x] += value;
}

/* The right result, or an error: the runtime may be ending. */
static void work(void)
{
	unsigned word = 0;

	add<<<WORDS / 256, 256>>>(data, 1);
	if (cudaMemcpy(&word, data, sizeof(word), cudaMemcpyDeviceToHost) != cudaSuccess)
		return;
	if (word)
		return;
	printf(NAME ": a kernel did nothing\n");
	fflush(stdout);
	_exit(1);
}

static void at_exit(void)
{
	work();
	cudaFree(data);
}

struct last {
	bool is_wanted;
	~last()
	{
		if (is_wanted)
			work();
	}
};

static struct last last;

static void *run(void *arg)
{
	for (;;)
		work();
	return arg;
}

static void say_ok(void)
{
	printf(NAME ": ok\n");
	fflush(stdout);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	pthread_t thread;

	CHECK(cudaMalloc(&data, WORDS * sizeof(*data)));
	CHECK(cudaMemset(data, 0, WORDS * sizeof(*data)));
	work();
	add<<<WORDS / 256, 256>>>(data, 1);
	CHECK(cudaGetLastError());
	if (!strcmp(how, "atexit")) {
		last.is_wanted = true;
		atexit(at_exit);
	} else if (!strcmp(how, "thread")) {
		if (pthread_create(&thread, NULL, run, NULL))
			return 1;
		usleep(20000);
		say_ok();
		_exit(0);
	} else if (!strcmp(how, "quick")) {
		say_ok();
		_exit(0);
	} else if (!strcmp(how, "abort")) {
		say_ok();
		abort();
	} else {
		fprintf(stderr, "usage: " NAME " atexit|thread|quick|abort\n");
		return 2;
	}
	say_ok();
	return 0;
}
