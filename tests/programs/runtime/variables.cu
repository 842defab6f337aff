/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What variables in global memory may hold and be: virtual tables, tables of functions, pointers
 * to other variables and behind their end, string literals, statics of files and of functions,
 * zeros. With the argument `placed', all addresses have to lie where the service has memory of
 * clients. With a second argument, the program pauses between its rounds. variables_linked.cu is
 * the same, built in another way.
 */

#ifndef NAME
#define NAME "variables"
#endif
#include <new>

#include "../helpers/program.h"

#define SPACE_START 0x200000000000ull
#define SPACE_END 0x400000000000ull

enum {
	THREADS = 32,
	RESULTS = 16,
	PAUSE_US = 100000,
};

struct shape {
	int size;

	__device__ shape(int size) : size(size)
	{
	}
	__device__ virtual int area() const = 0;
	__device__ virtual int corners() const
	{
		return 0;
	}
};

struct square : shape {
	__device__ square(int size) : shape(size)
	{
	}
	__device__ int area() const override
	{
		return size * size;
	}
	__device__ int corners() const override
	{
		return 4;
	}
};

struct strip : shape {
	__device__ strip(int size) : shape(size)
	{
	}
	__device__ int area() const override
	{
		return 3 * size;
	}
};

struct node {
	const struct node *next;
	int value;
};

static __device__ int zeros[100];
static __device__ int numbers[4] = {10, 20, 30, 40};
__device__ int *inside = &zeros[7];
__device__ const int *end = numbers + 4;
__device__ struct node third = {nullptr, 300};
__device__ struct node second = {&third, 20};
__device__ const struct node *first = &second;
__device__ const char *const words[2] = {"variable", "things"};
__constant__ const int *constant_pointer = &numbers[2];
__constant__ int factor = 3;
static __device__ unsigned long long address_of_table;

/* Makes one object of each kind in `memory', or uses those that an earlier launch has made. */
static __global__ void shapes(char *memory, int *out, int is_first)
{
	shape *a = (shape *)memory, *b = (shape *)(memory + 64);

	if (is_first) {
		new (memory) square(5);
		new (memory + 64) strip(7);
	}
	out[0] = a->area() + 1000 * a->corners();
	out[1] = b->area() + 1000 * b->corners();
	address_of_table = *(unsigned long long *)memory;
}

static __device__ __noinline__ int count_calls()
{
	static int n_calls = 100;

	return ++n_calls;
}

static __global__ void walk(int *out)
{
	int sum = 0, length = 0;

	for (const struct node *node = first; node; node = node->next)
		sum += node->value;
	for (const char *c = words[out[RESULTS - 1] & 1]; *c; c++)
		length++;
	*inside += 1;
	zeros[8] += 2;
	numbers[3]++;
	out[2] = sum;
	out[3] = length;
	out[4] = zeros[7] + zeros[8];
	out[5] = end[-1];
	out[6] = *constant_pointer * factor;
	out[7] = count_calls();
}

static void expect(const int *got, int round)
{
	const int want[] = {4025, 21, 320, 8, 3 * round, 40 + round, 90, 100 + round};

	for (unsigned i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		if (got[i] == want[i])
			continue;
		printf(NAME ": result %u is %d, not %d, in round %d\n", i, got[i], want[i], round);
		exit(1);
	}
}

static void expect_placed(unsigned long long address, const char *what)
{
	if (address >= SPACE_START && address < SPACE_END)
		return;
	printf(NAME ": %s lies at %#llx\n", what, address);
	exit(1);
}

/* Each GPU has variables of its own. */
static void use(int device, bool must_be_placed, bool pauses)
{
	int got[RESULTS] = {0}, *out = NULL, value = 0;
	unsigned long long table;
	void *address = NULL;
	char *memory = NULL;

	CHECK(cudaSetDevice(device));
	CHECK(cudaMalloc(&out, sizeof(got)));
	CHECK(cudaMalloc(&memory, 128));
	CHECK(cudaMemset(out, 0, sizeof(got)));
	for (int round = 1; round <= 3; round++) {
		shapes<<<1, 1>>>(memory, out, round == 1);
		walk<<<1, 1>>>(out);
		CHECK(cudaGetLastError());
		CHECK(cudaMemcpy(got, out, sizeof(got), cudaMemcpyDeviceToHost));
		expect(got, round);
		if (pauses)
			usleep(PAUSE_US);
	}
	CHECK(cudaMemcpyFromSymbol(&value, numbers, sizeof(value), 3 * sizeof(value)));
	CHECK(cudaMemcpyFromSymbol(&table, address_of_table, sizeof(table)));
	CHECK(cudaGetSymbolAddress(&address, zeros));
	if (value != 43) {
		printf(NAME ": the last number is %d\n", value);
		exit(1);
	}
	if (must_be_placed) {
		expect_placed((unsigned long long)address, "a variable");
		expect_placed(table, "a virtual table");
	}
	CHECK(cudaFree(memory));
	CHECK(cudaFree(out));
}

int main(int argc, char **argv)
{
	int n_devices = 0;

	(void)argv;
	CHECK(cudaGetDeviceCount(&n_devices));
	for (int device = 0; device < n_devices; device++)
		use(device, argc > 1, argc > 2);
	printf(NAME ": ok\n");
	return 0;
}
