/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MANAGED_THINGS_H
#define MANAGED_THINGS_H

/*
 * __managed__ variables, which kernels and the host reach at one address: by name, by pointer,
 * through pointers to them, with and without initial values, of several kinds and sizes. The
 * programs differ in how nvcc builds them. Each program defines NAME.
 */

#include "program.h"

enum {
	COUNT = 1000,
	BIG = 1 << 20,
};

struct node {
	struct node *next;
	int value;
};

struct settings {
	double scale;
	int offset;
	char name[12];
};

static __managed__ int counter = 5;
__device__ __managed__ int sums[COUNT];
__managed__ struct settings settings = {1.5, 7, "first"};
static __managed__ struct node *list;
static __managed__ float big[BIG];
static __managed__ unsigned char odd = 3;
__device__ int plain = 11;

static __device__ __noinline__ int offset_of(int i)
{
	return settings.offset + i;
}

static __global__ void add(int a, int b)
{
	sums[threadIdx.x] = a + b + (int)threadIdx.x;
}

static __global__ void count(int *pointer)
{
	if (threadIdx.x == 0) {
		counter += plain;
		*pointer += 10;
		odd++;
	}
}

static __global__ void gather(int *out)
{
	atomicAdd(&sums[0], offset_of((int)threadIdx.x));
	if (threadIdx.x == 0)
		for (const struct node *node = list; node; node = node->next)
			*out += node->value;
}

static __global__ void scale(void)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

	big[i] = (float)(settings.scale * big[i]);
}

static inline void check_first_values(void)
{
	if (counter != 5 || settings.scale != 1.5 || settings.offset != 7 ||
		strcmp(settings.name, "first") != 0 || odd != 3 || list || big[BIG - 1] != 0 ||
		sums[COUNT - 1] != 0)
		FAIL("a first value is wrong");
}

/* The first example of the programming guide. */
static inline void check_by_name(void)
{
	add<<<1, COUNT>>>(10, 100);
	CHECK(cudaDeviceSynchronize());
	for (int i = 0; i < COUNT; i++)
		if (sums[i] != 110 + i)
			FAIL("sum %d is %d", i, sums[i]);
}

static inline void check_by_pointer(void)
{
	int *pointer = &counter;

	count<<<1, 32>>>(pointer);
	CHECK(cudaDeviceSynchronize());
	if (counter != 26 || *pointer != 26 || odd != 4)
		FAIL("the counter is %d, the odd byte %d", counter, odd);
	*pointer = -100;
	count<<<1, 32>>>(pointer);
	CHECK(cudaDeviceSynchronize());
	if (counter != -79)
		FAIL("the counter is %d afterwards", counter);
}

/* Pointers in them mean the same on both sides. */
static inline void check_through_pointers(void)
{
	struct node *nodes;
	int *out, want = 0;

	CHECK(cudaMallocManaged(&nodes, 10 * sizeof(*nodes)));
	CHECK(cudaMallocManaged(&out, sizeof(*out)));
	for (int i = 0; i < 10; i++) {
		nodes[i].next = list;
		nodes[i].value = i * i;
		list = &nodes[i];
		want += i * i;
	}
	*out = 0;
	sums[0] = 1;
	settings.offset = -3;
	gather<<<1, 64>>>(out);
	CHECK(cudaDeviceSynchronize());
	if (*out != want || sums[0] != 1 + 64 * -3 + 63 * 32)
		FAIL("the list has %d instead of %d, the sum is %d", *out, want, sums[0]);
	CHECK(cudaFree(nodes));
	CHECK(cudaFree(out));
}

static inline void check_big(void)
{
	settings.scale = -2;
	for (int i = 0; i < BIG; i++)
		big[i] = (float)i;
	scale<<<BIG / 256, 256>>>();
	CHECK(cudaDeviceSynchronize());
	for (int i = 0; i < BIG; i++)
		if (big[i] != -2.0f * (float)i)
			FAIL("element %d is %g", i, big[i]);
}

/* Through the runtime's functions. */
static inline void check_symbols(void)
{
	cudaPointerAttributes attributes;
	void *address = NULL;
	int value = 77, got = 0;
	size_t size = 0;

	CHECK(cudaGetSymbolAddress(&address, counter));
	CHECK(cudaGetSymbolSize(&size, sums));
	if (address != &counter || size != sizeof(sums))
		FAIL("a symbol is at %p instead of %p, another has %zu bytes", address,
			(void *)&counter, size);
	CHECK(cudaMemcpyToSymbol(counter, &value, sizeof(value)));
	CHECK(cudaMemcpyFromSymbol(&got, counter, sizeof(got)));
	if (got != 77 || counter != 77)
		FAIL("copied by name it is %d, %d", got, counter);
	CHECK(cudaPointerGetAttributes(&attributes, &counter));
	if (attributes.type != cudaMemoryTypeManaged || attributes.hostPointer != &counter ||
		attributes.devicePointer != &counter)
		FAIL("its attributes are those of another kind of memory");
	if (cudaFree(&counter) == cudaSuccess || counter != 77)
		FAIL("it can be freed");
	(void)cudaGetLastError();
	CHECK(cudaMemcpyFromSymbol(&got, plain, sizeof(got)));
	if (got != 11)
		FAIL("a plain variable beside them is %d", got);
}

static inline int managed_main(void)
{
	check_first_values();
	check_by_name();
	check_by_pointer();
	check_through_pointers();
	check_big();
	check_symbols();
	printf(NAME ": ok\n");
	return 0;
}

#endif
