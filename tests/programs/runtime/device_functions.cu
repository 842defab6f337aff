/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Functions on the GPU that cannot be inlined: recursion with its stack, pointers to functions
 * in tables and in memory, virtual functions of objects created on the GPU, templates, and
 * lambdas passed to a kernel.
 * Builds with: --extended-lambda
 */

#define NAME "device_functions"
#include "../helpers/program.h"

enum {
	COUNT = 128,
	SHAPES = 3
};

/* Ackermann's function, small enough for every stack. */
static __device__ __noinline__ int ackermann(int m, int n)
{
	if (m == 0)
		return n + 1;
	if (n == 0)
		return ackermann(m - 1, 1);
	return ackermann(m - 1, ackermann(m, n - 1));
}

typedef int operation(int, int);

static __device__ __noinline__ int plus(int a, int b)
{
	return a + b;
}

static __device__ __noinline__ int minus(int a, int b)
{
	return a - b;
}

static __device__ __noinline__ int times(int a, int b)
{
	return a * b;
}

static __device__ operation *const table[] = {plus, minus, times};
static __device__ operation *chosen = minus;

static __global__ void pick(operation **ret_operation, int which)
{
	*ret_operation = table[which];
}

static __global__ void call(operation *given, int *out)
{
	int i = threadIdx.x;

	out[i] = table[i % 3](i, 7) * 1000 + given(i, 3) + (*chosen)(i, 1) * 1000000;
}

static __global__ void recurse(int *out)
{
	out[threadIdx.x] = ackermann(threadIdx.x % 3, threadIdx.x % 3);
}

struct shape {
	__device__ virtual float area() const = 0;
	__device__ virtual ~shape()
	{
	}
};

struct square : shape {
	float side;

	__device__ explicit square(float s) : side(s)
	{
	}
	__device__ float area() const override
	{
		return side * side;
	}
};

struct box : square {
	float height;

	__device__ box(float s, float h) : square(s), height(h)
	{
	}
	__device__ float area() const override
	{
		return 2 * square::area() + 4 * side * height;
	}
};

static __global__ void make_shapes(shape **shapes)
{
	shapes[0] = new square(3);
	shapes[1] = new box(2, 5);
	shapes[2] = new square(0.5f);
}

static __global__ void measure(shape *const *shapes, float *areas)
{
	areas[threadIdx.x] = shapes[threadIdx.x % SHAPES]->area();
}

static __global__ void drop_shapes(shape *const *shapes)
{
	delete shapes[threadIdx.x];
}

template <typename F> static __global__ void for_each(F f, int n)
{
	for (int i = threadIdx.x; i < n; i += blockDim.x)
		f(i);
}

template <int N> struct fibonacci {
	static __device__ int value(int *steps)
	{
		++*steps;
		return fibonacci<N - 1>::value(steps) + fibonacci<N - 2>::value(steps);
	}
};
template <> struct fibonacci<1> {
	static __device__ int value(int *)
	{
		return 1;
	}
};
template <> struct fibonacci<0> {
	static __device__ int value(int *)
	{
		return 0;
	}
};

static void try_calls(int *data)
{
	operation **slot = NULL, *given = NULL;
	int got[COUNT];

	CHECK(cudaMalloc(&slot, sizeof(operation *)));
	pick<<<1, 1>>>(slot, 2);
	CHECK(cudaMemcpy(&given, slot, sizeof(given), cudaMemcpyDeviceToHost));
	call<<<1, COUNT>>>(given, data);
	CHECK(cudaMemcpy(got, data, sizeof(got), cudaMemcpyDeviceToHost));
	for (int i = 0; i < COUNT; i++) {
		int by_table = i % 3 == 0 ? i + 7 : i % 3 == 1 ? i - 7 : i * 7;

		if (got[i] != by_table * 1000 + i * 3 + (i - 1) * 1000000)
			FAIL("call %d gives %d", i, got[i]);
	}
	CHECK(cudaFree(slot));
}

static void try_recursion(int *data)
{
	static const int want[3] = {1, 3, 7};
	int got[COUNT];

	CHECK(cudaDeviceSetLimit(cudaLimitStackSize, 8192));
	recurse<<<1, COUNT>>>(data);
	CHECK(cudaMemcpy(got, data, sizeof(got), cudaMemcpyDeviceToHost));
	for (int i = 0; i < COUNT; i++)
		if (got[i] != want[i % 3])
			FAIL("recursion %d gives %d", i, got[i]);
}

static void try_shapes(void)
{
	static const float want[SHAPES] = {9, 48, 0.25f};
	shape **shapes = NULL;
	float got[COUNT], *areas = NULL;

	CHECK(cudaMalloc(&shapes, SHAPES * sizeof(*shapes)));
	CHECK(cudaMalloc(&areas, sizeof(got)));
	make_shapes<<<1, 1>>>(shapes);
	measure<<<1, COUNT>>>(shapes, areas);
	drop_shapes<<<1, SHAPES>>>(shapes);
	CHECK(cudaMemcpy(got, areas, sizeof(got), cudaMemcpyDeviceToHost));
	for (int i = 0; i < COUNT; i++)
		if (got[i] != want[i % SHAPES])
			FAIL("shape %d has an area of %g", i, got[i]);
	CHECK(cudaFree(shapes));
	CHECK(cudaFree(areas));
}

static void try_lambdas(int *data)
{
	int factor = 17, got[COUNT];

	for_each<<<1, 32>>>(
		[=] __device__(int i) {
			int steps = 0;

			data[i] = i * factor + fibonacci<10>::value(&steps) + steps * 10000;
		},
		COUNT);
	CHECK(cudaMemcpy(got, data, sizeof(got), cudaMemcpyDeviceToHost));
	for (int i = 0; i < COUNT; i++)
		if (got[i] != i * factor + 55 + 880000)
			FAIL("lambda %d gives %d", i, got[i]);
}

int main(void)
{
	int *data = NULL;

	CHECK(cudaMalloc(&data, COUNT * sizeof(*data)));
	try_calls(data);
	try_recursion(data);
	try_shapes();
	try_lambdas(data);
	CHECK(cudaFree(data));
	printf(NAME ": ok\n");
	return 0;
}
