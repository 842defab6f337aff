/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Managed memory: host and kernels take turns on the same pointers, with the
 * advice and prefetching that programs give.
 */

#define NAME "managed"

#include "../helpers/program.h"

#define N (1 << 16)

struct list {
	struct list *next;
	int value;
};

static __global__ void add(const int *a, const int *b, int *sum, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		sum[i] = a[i] + b[i];
}

static __global__ void walk(struct list *first, int *ret_sum)
{
	for (struct list *at = first; at; at = at->next)
		*ret_sum += at->value++;
}

static void fail(const char *what, int i)
{
	printf(NAME ": %s, element %d\n", what, i);
	exit(1);
}

static cudaError_t advise(void *p, size_t size, enum cudaMemoryAdvise advice, bool is_device)
{
	struct cudaMemLocation location = {
		is_device ? cudaMemLocationTypeDevice : cudaMemLocationTypeHost, 0};

	return cudaMemAdvise(p, size, advice, location);
}

static int attribute(void *p, enum cudaMemRangeAttribute name)
{
	int value = -77;

	CHECK(cudaMemRangeGetAttribute(&value, sizeof(value), name, p, N * sizeof(int)));
	return value;
}

/* What was advised is read back. */
static void read_back(void *read, void *written)
{
	if (attribute(read, cudaMemRangeAttributeReadMostly) != 1 ||
		attribute(read, cudaMemRangeAttributeLastPrefetchLocation) != 0 ||
		attribute(written, cudaMemRangeAttributeReadMostly) != 0 ||
		attribute(written, cudaMemRangeAttributePreferredLocation) != 0 ||
		attribute(written, cudaMemRangeAttributeAccessedBy) != cudaCpuDeviceId ||
		attribute(written, cudaMemRangeAttributeLastPrefetchLocation) != cudaCpuDeviceId)
		fail("advice", 0);
}

static void arrays(void)
{
	struct cudaMemLocation device = {cudaMemLocationTypeDevice, 0};
	struct cudaMemLocation host = {cudaMemLocationTypeHost, 0};
	int *a, *b, *sum, *plain = (int *)malloc(N * sizeof(int));

	CHECK(cudaMallocManaged(&a, N * sizeof(int)));
	CHECK(cudaMallocManaged(&b, N * sizeof(int), cudaMemAttachHost));
	CHECK(cudaMallocManaged(&sum, N * sizeof(int)));
	for (int i = 0; i < N; i++) {
		a[i] = i;
		b[i] = 3 * i;
	}
	CHECK(advise(a, N * sizeof(int), cudaMemAdviseSetReadMostly, true));
	CHECK(advise(sum, N * sizeof(int), cudaMemAdviseSetPreferredLocation, true));
	CHECK(advise(sum, N * sizeof(int), cudaMemAdviseSetAccessedBy, false));
	CHECK(cudaStreamAttachMemAsync(0, b, 0, cudaMemAttachGlobal));
	CHECK(cudaMemPrefetchAsync(a, N * sizeof(int), device, 0, 0));
	add<<<N / 256, 256>>>(a, b, sum, N);
	CHECK(cudaMemPrefetchAsync(sum, N * sizeof(int), host, 0, 0));
	CHECK(cudaDeviceSynchronize());
	read_back(a, sum);
	for (int i = 0; i < N; i++)
		if (sum[i] != 4 * i)
			fail("sum", i);
	CHECK(cudaMemcpy(plain, sum, N * sizeof(int), cudaMemcpyDefault));
	CHECK(cudaMemcpy(b, plain, N * sizeof(int), cudaMemcpyDefault));
	if (memcmp(b, sum, N * sizeof(int)) != 0 || memcmp(plain, sum, N * sizeof(int)) != 0)
		fail("copy", 0);
	CHECK(cudaFree(a));
	CHECK(cudaFree(b));
	CHECK(cudaFree(sum));
	free(plain);
}

/* Pointers in the memory mean the same on both sides. */
static void linked(void)
{
	struct list *first = NULL, *at;
	int *sum, wanted = 0;

	CHECK(cudaMallocManaged(&sum, sizeof(*sum)));
	*sum = 0;
	for (int i = 0; i < 100; i++) {
		CHECK(cudaMallocManaged(&at, sizeof(*at)));
		at->next = first;
		at->value = i;
		first = at;
		wanted += i;
	}
	walk<<<1, 1>>>(first, sum);
	CHECK(cudaDeviceSynchronize());
	if (*sum != wanted)
		fail("list", *sum);
	for (int i = 99; first; i--) {
		at = first->next;
		if (first->value != i + 1)
			fail("value", i);
		CHECK(cudaFree(first));
		first = at;
	}
	CHECK(cudaFree(sum));
}

static void errors(void)
{
	cudaPointerAttributes is;
	int managed = 0;
	char *p;

	CHECK(cudaDeviceGetAttribute(&managed, cudaDevAttrManagedMemory, 0));
	if (!managed)
		fail("attribute", managed);
	CHECK(cudaMallocManaged(&p, 100));
	CHECK(cudaPointerGetAttributes(&is, p));
	if (is.type != cudaMemoryTypeManaged || is.hostPointer != p || is.devicePointer != p)
		fail("pointer's attributes", is.type);
	if (cudaFreeHost(p) != cudaErrorInvalidValue)
		fail("freed as host memory", 0);
	cudaGetLastError();
	CHECK(cudaFree(p));
	if (cudaMallocManaged(&p, 100, 77) != cudaErrorInvalidValue)
		fail("flags", 77);
	cudaGetLastError();
}

int main(int argc, char **argv)
{
	struct options options = options_read(argc, argv);
	double until = now_s() + options.seconds;
	long round = 0;

	do {
		arrays();
		linked();
		errors();
	} while (++round < options.rounds || now_s() < until);
	printf(NAME ": ok\n");
	return 0;
}
