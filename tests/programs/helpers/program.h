/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROGRAM_H
#define PROGRAM_H

/*
 * Shared by the example programs: options, the check of a runtime call, time.
 *
 * A program verifies its own results on the host, prints `NAME: ok' or one line with the
 * error, and exits with 0 or 1.
 */

#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct options {
	double seconds; /* run for at least so long ... */
	long rounds;    /* ... and at least so many rounds */
};

static inline double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* Several processes begin at the same moment so. */
static inline void sleep_until(double epoch_s)
{
	struct timespec ts;

	for (;;) {
		clock_gettime(CLOCK_REALTIME, &ts);
		if ((double)ts.tv_sec + (double)ts.tv_nsec * 1e-9 >= epoch_s)
			return;
		usleep(200);
	}
}

/* Reads `--seconds S' and `--rounds N'; for any other argument, the program ends with its usage. */
static inline struct options options_read(int argc, char **argv)
{
	struct options options = {0, 1};
	int i;

	for (i = 1; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--seconds"))
			options.seconds = atof(argv[i + 1]);
		else if (!strcmp(argv[i], "--rounds"))
			options.rounds = atol(argv[i + 1]);
		else
			break;
	}
	if (i < argc) {
		fprintf(stderr, "usage: %s [--seconds S] [--rounds N]\n", argv[0]);
		exit(2);
	}
	return options;
}

static inline void cuda_check(const char *name, cudaError_t error, const char *what, int line)
{
	if (error == cudaSuccess)
		return;
	printf("%s: line %d: %s: %s (%d)\n", name, line, what, cudaGetErrorString(error), error);
	exit(1);
}

/* Each program defines NAME. */
#define CHECK(call) cuda_check(NAME, (call), #call, __LINE__)

/* Ends the program with one line that has the error. */
#define FAIL(...)                                                                                  \
	do {                                                                                       \
		printf(NAME ": " __VA_ARGS__);                                                     \
		putchar('\n');                                                                     \
		exit(1);                                                                           \
	} while (0)

/* Pseudo-random input, the same in every run; `*state' is not 0. */
static inline unsigned next_random(unsigned *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

#endif
