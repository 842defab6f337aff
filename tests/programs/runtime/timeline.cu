/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Runs small kernels, one after the other, and notes when the GPU worked on them: for the demo,
 * which draws the notes of two such programs.
 *
 *	timeline --calibrate                   prints the steps of a kernel of 5 ms
 *	timeline KERNELS STEPS FILE [EPOCH]    begins at the time EPOCH (seconds), and writes to
 *	                                       FILE the GPU's time of each note, in nanoseconds
 *
 * Runs: for a test of its own
 */

#define NAME "timeline"
#include "../helpers/program.h"

enum {
	NOTES = 32, /* in one kernel */
	MIN_STEPS = 64
};

static const double kernel_s = 0.005;

/* One thread: the smallest part of a GPU. */
static __global__ void work(unsigned long long *notes, long steps, float *value)
{
	float x = *value;

	for (int i = 0; i < NOTES; i++) {
		for (long step = 0; step < steps / NOTES; step++)
			x = x * 0.5f + 1.0f;
		asm volatile("mov.u64 %0, %globaltimer;" : "=l"(notes[i]) : : "memory");
	}
	*value = x;
}

static double run_s(unsigned long long *notes, long steps, float *value)
{
	double began = now_s();

	work<<<1, 1>>>(notes, steps, value);
	CHECK(cudaDeviceSynchronize());
	return now_s() - began;
}

/* The shortest of a few runs: other programs may disturb the others. */
static double shortest_s(unsigned long long *notes, long steps, float *value)
{
	double shortest = run_s(notes, steps, value);

	for (int i = 0; i < 4; i++)
		shortest = fmin(shortest, run_s(notes, steps, value));
	return shortest;
}

static void calibrate(unsigned long long *notes, float *value)
{
	long steps = MIN_STEPS;
	double s = shortest_s(notes, steps, value);

	for (; s < kernel_s; s = shortest_s(notes, steps, value))
		steps *= 2;
	printf("%ld\n", (long)((double)steps * kernel_s / s));
}

static void save(const char *path, const unsigned long long *notes, long n)
{
	FILE *file = fopen(path, "w");
	long i;

	if (!file)
		FAIL("cannot write %s", path);
	for (i = 0; i < n; i++)
		fprintf(file, "%llu\n", notes[i]);
	if (fclose(file) != 0)
		FAIL("cannot write %s", path);
}

int main(int argc, char **argv)
{
	long kernels = argc > 2 ? atol(argv[1]) : 1, steps = argc > 3 ? atol(argv[2]) : 0, i;
	unsigned long long *notes = NULL;
	float *value = NULL;
	double began;

	CHECK(cudaMallocManaged(&notes, (size_t)kernels * NOTES * sizeof(*notes)));
	CHECK(cudaMallocManaged(&value, sizeof(*value)));
	*value = 0;
	if (argc == 2 && !strcmp(argv[1], "--calibrate")) {
		calibrate(notes, value);
		return 0;
	}
	if (kernels < 1 || steps < MIN_STEPS)
		FAIL("usage: timeline --calibrate, or timeline KERNELS STEPS FILE [EPOCH]");
	CHECK(cudaDeviceSynchronize());
	if (argc > 4)
		sleep_until(atof(argv[4]));
	began = now_s();
	for (i = 0; i < kernels; i++)
		run_s(notes + i * NOTES, steps, value);
	printf("%.2f\n", now_s() - began);
	if (*value < 1.9f)
		FAIL("the kernels computed %g, not 2", *value);
	save(argv[3], notes, kernels * NOTES);
	return 0;
}
