/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Measures the times that a service must not increase: the start, from the first CUDA call
 * to the first result on the host; a launch with its synchronise; bursts of 64 launches;
 * copies; allocations.
 *
 *   bench [--seconds S] [--rounds N] [--at T] [--bursts N] [--copies N] [--allocs N]
 *
 * prints key=value lines: medians of N rounds, GB/s of copies. `--at T' begins
 * the launches at second T of the epoch, so that several processes measure the
 * same time.
 *
 * Runs: for a test of its own
 */

#define NAME "bench"
#include "../helpers/program.h"

enum {
	SAMPLES_MAX = 1 << 22,
	BURST = 64
};

#define MIB ((size_t)1 << 20)

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

/* The time to the first result: memory, an image, a launch and a copy back. */
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

/* The median of `n' samples; sorts them. */
static double median(float *samples, long n)
{
	qsort(samples, (size_t)n, sizeof(*samples), compare);
	return samples[n / 2];
}

/* The time that the launching thread spends on a burst, and that until its end. */
static void bursts(long rounds)
{
	float *launching = (float *)malloc((size_t)rounds * sizeof(float));
	float *whole = (float *)malloc((size_t)rounds * sizeof(float));

	for (long n = 0; n < rounds; n++) {
		double began = now_s(), launched;

		for (int i = 0; i < BURST; i++)
			empty<<<1, 1>>>();
		launched = now_s();
		CHECK(cudaDeviceSynchronize());
		launching[n] = (float)((launched - began) * 1e6 / BURST);
		whole[n] = (float)((now_s() - began) * 1e6 / BURST);
	}
	printf("burst_launch_us=%.3f\n", median(launching, rounds));
	printf("burst_whole_us=%.3f\n", median(whole, rounds));
	free(launching);
	free(whole);
}

static void copy(const char *name, char *host, char *device, size_t size, long rounds)
{
	float *in = (float *)malloc((size_t)rounds * sizeof(float));
	float *out = (float *)malloc((size_t)rounds * sizeof(float));

	for (long n = 0; n < rounds; n++) {
		double began = now_s(), middle;

		CHECK(cudaMemcpy(device, host, size, cudaMemcpyHostToDevice));
		middle = now_s();
		CHECK(cudaMemcpy(host, device, size, cudaMemcpyDeviceToHost));
		in[n] = (float)((double)size / (middle - began) / 1e9);
		out[n] = (float)((double)size / (now_s() - middle) / 1e9);
	}
	printf("%s_%zu_in_gbs=%.3f\n", name, size / MIB, median(in, rounds));
	printf("%s_%zu_out_gbs=%.3f\n", name, size / MIB, median(out, rounds));
	free(in);
	free(out);
}

static void copies(long rounds)
{
	const size_t size = 256 * MIB;
	char *device, *pinned, *pageable = (char *)malloc(size);

	CHECK(cudaMalloc(&device, size));
	CHECK(cudaMallocHost(&pinned, size));
	memset(pageable, 1, size);
	memset(pinned, 2, size);
	copy("pinned", pinned, device, MIB, 20 * rounds);
	copy("pinned", pinned, device, 16 * MIB, 4 * rounds);
	copy("pinned", pinned, device, size, rounds);
	copy("pageable", pageable, device, MIB, 20 * rounds);
	copy("pageable", pageable, device, size, rounds);
	CHECK(cudaFreeHost(pinned));
	CHECK(cudaFree(device));
	free(pageable);
}

static void allocs(long rounds)
{
	float *samples = (float *)malloc((size_t)rounds * sizeof(float));

	for (long n = 0; n < rounds; n++) {
		double began = now_s();
		void *memory;

		CHECK(cudaMalloc(&memory, MIB));
		CHECK(cudaFree(memory));
		samples[n] = (float)((now_s() - began) * 1e6);
	}
	printf("alloc_free_us=%.3f\n", median(samples, rounds));
	free(samples);
}

int main(int argc, char **argv)
{
	double seconds = 0, at = 0;
	long rounds = 0, n_bursts = 0, n_copies = 0, n_allocs = 0;

	for (int i = 1; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--seconds"))
			seconds = atof(argv[i + 1]);
		else if (!strcmp(argv[i], "--rounds"))
			rounds = atol(argv[i + 1]);
		else if (!strcmp(argv[i], "--at"))
			at = atof(argv[i + 1]);
		else if (!strcmp(argv[i], "--bursts"))
			n_bursts = atol(argv[i + 1]);
		else if (!strcmp(argv[i], "--copies"))
			n_copies = atol(argv[i + 1]);
		else if (!strcmp(argv[i], "--allocs"))
			n_allocs = atol(argv[i + 1]);
	}
	printf("start_ms=%.3f\n", start_ms());
	fflush(stdout);
	if (at > 0)
		sleep_until(at);
	for (int i = 0; i < 20; i++)
		empty<<<1, 1>>>();
	CHECK(cudaDeviceSynchronize());
	if (seconds > 0 || rounds > 0)
		launches(seconds, rounds);
	if (n_bursts > 0)
		bursts(n_bursts);
	if (n_copies > 0)
		copies(n_copies);
	if (n_allocs > 0)
		allocs(n_allocs);
	printf(NAME ": ok\n");
	return 0;
}
