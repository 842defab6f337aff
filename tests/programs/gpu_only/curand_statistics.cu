/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cuRAND: uniform and normal numbers from the host API and from a kernel of the program;
 * their means and variances, and the same numbers again from the same seed.
 * Runs: on a GPU
 * Builds with: -lcurand
 */

#define NAME "curand_statistics"
#include <curand.h>
#include <curand_kernel.h>
#include <math.h>

#include "../helpers/program.h"

#define RAND(call) rand_check((call), #call, __LINE__)

enum {
	COUNT = 1 << 18,
	THREADS = 256
};

static float host[COUNT], again[COUNT];

static void rand_check(curandStatus_t status, const char *what, int line)
{
	if (status != CURAND_STATUS_SUCCESS)
		FAIL("line %d: %s: %d", line, what, (int)status);
}

static __global__ void draw(float *out, unsigned long long seed)
{
	unsigned i = blockIdx.x * THREADS + threadIdx.x;
	curandStatePhilox4_32_10_t state;
	float4 four;

	curand_init(seed, i, 0, &state);
	four = curand_normal4(&state);
	out[4 * i] = four.x;
	out[4 * i + 1] = four.y;
	out[4 * i + 2] = four.z;
	out[4 * i + 3] = four.w;
}

/* Seven standard errors of the mean and of the variance. */
static void verify(const float *data, double mean, double variance, const char *what)
{
	double sum = 0, squares = 0;

	CHECK(cudaMemcpy(host, data, sizeof(host), cudaMemcpyDeviceToHost));
	for (int i = 0; i < COUNT; i++)
		sum += host[i];
	sum /= COUNT;
	for (int i = 0; i < COUNT; i++)
		squares += (host[i] - sum) * (host[i] - sum);
	squares /= COUNT;
	if (fabs(sum - mean) > 7 * sqrt(variance / COUNT))
		FAIL("%s: the mean is %g, not %g", what, sum, mean);
	if (fabs(squares - variance) > 7 * variance * sqrt(2.0 / COUNT))
		FAIL("%s: the variance is %g, not %g", what, squares, variance);
}

static void try_generator(float *data, curandRngType_t type, const char *what)
{
	curandGenerator_t generator;

	RAND(curandCreateGenerator(&generator, type));
	RAND(curandSetPseudoRandomGeneratorSeed(generator, 1234));
	RAND(curandGenerateUniform(generator, data, COUNT));
	verify(data, 0.5, 1.0 / 12, what);
	memcpy(again, host, sizeof(again));
	RAND(curandGenerateNormal(generator, data, COUNT, 3, 2));
	verify(data, 3, 4, what);
	RAND(curandSetPseudoRandomGeneratorSeed(generator, 1234));
	RAND(curandSetGeneratorOffset(generator, 0));
	RAND(curandGenerateUniform(generator, data, COUNT));
	CHECK(cudaMemcpy(host, data, sizeof(host), cudaMemcpyDeviceToHost));
	if (memcmp(host, again, sizeof(host)))
		FAIL("%s: the same seed gives other numbers", what);
	RAND(curandDestroyGenerator(generator));
}

int main(void)
{
	float *data = NULL;

	CHECK(cudaMalloc(&data, sizeof(host)));
	try_generator(data, CURAND_RNG_PSEUDO_XORWOW, "XORWOW");
	try_generator(data, CURAND_RNG_PSEUDO_PHILOX4_32_10, "Philox");
	draw<<<COUNT / 4 / THREADS, THREADS>>>(data, 99);
	verify(data, 0, 1, "in a kernel");
	CHECK(cudaFree(data));
	printf(NAME ": ok\n");
	return 0;
}
