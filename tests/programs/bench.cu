/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Times what a service may not make slow: the start, from the first CUDA call
 * to the first result on the host, and a launch with its synchronise.
 *
 *   bench [--seconds S] [--rounds N] [--at T]
 *
 * prints key=value lines. `--at T' begins the launches at second T of the
 * epoch, so that several processes measure the same time.
 *
 * Runs: for a test of its own
 */

#define NAME "bench"
#include "program.h"
#include <unistd.h>

enum {
	SAMPLES_MAX = 1 << 22
};

static __global__ void store(int *where, int value)
{
	*where = value;
}

static __global__ void empty(void)
{
}

static int compare(const void *left, const void *right)
{
	float a = *(const float *)left, b = *(const float *)right;

	return (a > b) - (a < b);
}

/* The first result: memory, an image, a launch and a copy back. */
static double start_ms(void)
{
	double began = now_s();
	int *data = NULL, result = 0;

	CHECK(cudaMalloc(&data, sizeof(*data)));
	store<<<1, 1>>>(data, 42);
	CHECK(cudaMemcpy(&result, data, sizeof(result), cudaMemcpyDeviceToHost));
	if (result != 42) {
		printf(NAME ": the first result is %d, not 42\n", result);
		exit(1);
	}
	CHECK(cudaFree(data));
	return (now_s() - began) * 1e3;
}

static void wait_until(double epoch_s)
{
	struct timespec ts;

	do {
		usleep(1000);
		clock_gettime(CLOCK_REALTIME, &ts);
	} while ((double)ts.tv_sec + (double)ts.tv_nsec * 1e-9 < epoch_s);
}

static void launches(double seconds, long rounds)
{
	float *samples = (float *)malloc(SAMPLES_MAX * sizeof(*samples));
	double began = now_s(), before = began, after;
	long n = 0;

	do {
		empty<<<1, 1>>>();
		CHECK(cudaDeviceSynchronize());
		after = now_s();
		samples[n] = (float)((after - before) * 1e6);
		before = after;
	} while (++n < SAMPLES_MAX && (n < rounds || after - began < seconds));
	qsort(samples, (size_t)n, sizeof(*samples), compare);
	printf("launch_sync_us=%.2f\n", samples[n / 2]);
	printf("launch_sync_p99_us=%.2f\n", samples[n * 99 / 100]);
	printf("launch_sync_per_s=%.0f\n", (double)n / (after - began));
	free(samples);
}

int main(int argc, char **argv)
{
	double seconds = 0, at = 0;
	long rounds = 0;

	for (int i = 1; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--seconds"))
			seconds = atof(argv[i + 1]);
		else if (!strcmp(argv[i], "--rounds"))
			rounds = atol(argv[i + 1]);
		else if (!strcmp(argv[i], "--at"))
			at = atof(argv[i + 1]);
	}
	printf("start_ms=%.3f\n", start_ms());
	fflush(stdout);
	if (at > 0)
		wait_until(at);
	if (seconds > 0 || rounds > 0) {
		for (int i = 0; i < 20; i++)
			empty<<<1, 1>>>();
		CHECK(cudaDeviceSynchronize());
		launches(seconds, rounds);
	}
	printf(NAME ": ok\n");
	return 0;
}
