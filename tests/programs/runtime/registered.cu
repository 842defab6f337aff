/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Registered host memory: pages of the program, copied to and from in stream order, while another
 * thread writes beside them.
 */

#define NAME "registered"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../helpers/program.h"

#define N (1 << 18)

static __global__ void twice(int *x, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		x[i] *= 2;
}

static volatile int is_done;

static void fail(const char *what, long i)
{
	printf(NAME ": %s, element %ld\n", what, i);
	exit(1);
}

static void *count_up(void *arg)
{
	volatile int *counter = (volatile int *)arg;

	while (!is_done)
		++*counter;
	return NULL;
}

/* Another thread writes its last element meanwhile: registering moves no page. */
static void both_ways(void)
{
	int *x = (int *)malloc((N + 1) * sizeof(int)), *device, before;
	cudaStream_t stream;
	pthread_t thread;

	x[N] = 0;
	is_done = 0;
	if (pthread_create(&thread, NULL, count_up, x + N) != 0)
		fail("thread", 0);
	for (int i = 0; i < N; i++)
		x[i] = i;
	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaMalloc(&device, N * sizeof(int)));
	CHECK(cudaHostRegister(x, (N + 1) * sizeof(int), cudaHostRegisterDefault));
	for (int k = 0; k < 3; k++) {
		CHECK(cudaMemcpyAsync(device, x, N * sizeof(int), cudaMemcpyHostToDevice, stream));
		twice<<<N / 256, 256, 0, stream>>>(device, N);
		CHECK(cudaMemcpyAsync(x, device, N * sizeof(int), cudaMemcpyDeviceToHost, stream));
	}
	CHECK(cudaStreamSynchronize(stream));
	for (int i = 0; i < N; i++)
		if (x[i] != 8 * i)
			fail("value", i);
	before = x[N];
	for (double until = now_s() + 10; x[N] == before && now_s() < until;)
		usleep(1000);
	if (*(volatile int *)&x[N] == before)
		fail("the other thread's", before);
	is_done = 1;
	pthread_join(thread, NULL);
	CHECK(cudaHostUnregister(x));
	CHECK(cudaFree(device));
	CHECK(cudaStreamDestroy(stream));
	free(x);
}

/* A child has a separate copy of the pages. */
static void forked(void)
{
	int *x = (int *)malloc(N * sizeof(int)), *device, status = 0;
	pid_t child;

	CHECK(cudaMalloc(&device, N * sizeof(int)));
	for (int i = 0; i < N; i++)
		x[i] = i;
	CHECK(cudaHostRegister(x, N * sizeof(int), cudaHostRegisterPortable));
	child = fork();
	if (child == 0) {
		for (int i = 0; i < N; i++)
			if (x[i] != i)
				_exit(1);
		memset(x, 0xff, N * sizeof(int));
		_exit(0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
		fail("child", status);
	CHECK(cudaMemcpy(device, x, N * sizeof(int), cudaMemcpyHostToDevice));
	memset(x, 0, N * sizeof(int));
	CHECK(cudaMemcpy(x, device, N * sizeof(int), cudaMemcpyDeviceToHost));
	for (int i = 0; i < N; i++)
		if (x[i] != i)
			fail("after fork", i);
	CHECK(cudaHostUnregister(x));
	CHECK(cudaFree(device));
	free(x);
}

static void expect(cudaError_t got, cudaError_t wanted, const char *what)
{
	if (got != wanted) {
		printf(NAME ": %s: %s\n", what, cudaGetErrorName(got));
		exit(1);
	}
	cudaGetLastError();
}

static void errors(void)
{
	cudaPointerAttributes is;
	static char x[8192];

	CHECK(cudaHostRegister(x, 4096, cudaHostRegisterMapped));
	expect(cudaHostRegister(x, 4096, 0), cudaErrorHostMemoryAlreadyRegistered, "twice");
	expect(cudaHostRegister(x + 4096, 0, 0), cudaErrorInvalidValue, "no bytes");
	expect(cudaHostUnregister(x + 4096), cudaErrorHostMemoryNotRegistered, "another's");
	CHECK(cudaPointerGetAttributes(&is, x + 1));
	if (is.type != cudaMemoryTypeHost || is.hostPointer != x + 1)
		fail("attributes", is.type);
	CHECK(cudaHostUnregister(x));
	expect(cudaHostUnregister(x), cudaErrorHostMemoryNotRegistered, "unregistered");
	CHECK(cudaPointerGetAttributes(&is, x));
	if (is.type != cudaMemoryTypeUnregistered)
		fail("attributes after", is.type);
}

/* Whether the GPU may write is none of the flags that come back. */
static void flags(void)
{
	static char x[8192];
	unsigned got;

	CHECK(cudaHostRegister(x, 8192, cudaHostRegisterReadOnly));
	CHECK(cudaHostGetFlags(&got, x));
	if (got != cudaHostAllocMapped)
		fail("flags of memory to read", got);
	CHECK(cudaHostUnregister(x));
	CHECK(cudaHostRegister(x, 8192, cudaHostRegisterPortable));
	CHECK(cudaHostGetFlags(&got, x));
	if (got != (cudaHostAllocPortable | cudaHostAllocMapped))
		fail("flags of portable memory", got);
	CHECK(cudaHostUnregister(x));
}

int main(int argc, char **argv)
{
	struct options options = options_read(argc, argv);
	double until = now_s() + options.seconds;
	long round = 0;

	do {
		both_ways();
		forked();
		errors();
		flags();
	} while (++round < options.rounds || now_s() < until);
	printf(NAME ": ok\n");
	return 0;
}
