/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Looks for data that other programs have left, and tries to access their memory.
 *
 * `spy plant' fills memory of each kind and variables with a pattern, and ends without freeing.
 * `spy look' checks that new memory does not have that pattern, and that its variables have their
 * initial values. `spy hold FILE' prints the addresses of its memory, blocks its NULL stream
 * until FILE exists, and then checks that its memory is unchanged. `spy touch ADDRESS' copies,
 * sets and frees there, and gets an error each time.
 *
 * Runs: for a test of its own
 */

#define NAME "spy"
#include <unistd.h>

#include "../helpers/program.h"

#define PATTERN 0x5ec2e75eu

enum {
	KINDS = 4, /* kinds of memory: device, stream-ordered, pinned, managed */
	WORDS = 256,
	ROWS = 100, /* of an array */
	HELD_MIB = 3
};

static const size_t sizes[] = {4096, 1 << 20, 3 << 20, 32 << 20};
static __device__ unsigned zeros[WORDS];
static __device__ unsigned numbers[4] = {1, 2, 3, 4};
static __constant__ unsigned table[WORDS];

static __global__ void add_to_all(unsigned value)
{
	zeros[threadIdx.x] += value;
	if (threadIdx.x < 4)
		numbers[threadIdx.x] += value;
}

static void fail(const char *what)
{
	printf(NAME ": %s\n", what);
	exit(1);
}

static void *get(int kind, size_t size)
{
	void *data = NULL;

	switch (kind) {
	case 0:
		CHECK(cudaMalloc(&data, size));
		break;
	case 1:
		CHECK(cudaMallocAsync(&data, size, 0));
		break;
	case 2:
		CHECK(cudaMallocHost(&data, size));
		break;
	default:
		CHECK(cudaMallocManaged(&data, size));
	}
	return data;
}

static cudaArray_t array_new(void)
{
	cudaChannelFormatDesc format = cudaCreateChannelDesc<unsigned>();
	cudaArray_t array;

	CHECK(cudaMallocArray(&array, &format, WORDS, ROWS));
	return array;
}

static void plant_array(const unsigned *words)
{
	cudaArray_t array = array_new();

	for (int y = 0; y < ROWS; y++)
		CHECK(cudaMemcpy2DToArray(array, 0, y, words, WORDS * sizeof(unsigned),
			WORDS * sizeof(unsigned), 1, cudaMemcpyHostToDevice));
}

static void look_at_array(void)
{
	static unsigned words[ROWS][WORDS];

	CHECK(cudaMemcpy2DFromArray(words, sizeof(words[0]), array_new(), 0, 0, sizeof(words[0]),
		ROWS, cudaMemcpyDeviceToHost));
	for (int y = 0; y < ROWS; y++)
		for (int x = 0; x < WORDS; x++)
			if (words[y][x] == PATTERN)
				fail("an array that is new has what another left");
}

static void plant(void)
{
	static unsigned words[WORDS];

	for (int i = 0; i < WORDS; i++)
		words[i] = PATTERN;
	for (int kind = 0; kind < KINDS; kind++)
		for (size_t size : sizes) {
			unsigned *data = (unsigned *)get(kind, size);

			for (size_t at = 0; at < size; at += sizeof(words))
				CHECK(cudaMemcpyAsync(data + at / sizeof(unsigned), words,
					sizeof(words), cudaMemcpyDefault, 0));
		}
	plant_array(words);
	CHECK(cudaMemcpyToSymbol(zeros, words, sizeof(words)));
	CHECK(cudaMemcpyToSymbol(table, words, sizeof(words)));
	add_to_all<<<1, WORDS>>>(1);
	CHECK(cudaDeviceSynchronize());
}

static void look(void)
{
	unsigned *copy = (unsigned *)malloc(sizes[3]), words[WORDS];

	for (int kind = 0; kind < KINDS; kind++)
		for (size_t size : sizes) {
			CHECK(cudaMemcpy(copy, get(kind, size), size, cudaMemcpyDefault));
			for (size_t i = 0; i < size / sizeof(unsigned); i++)
				if (copy[i] == PATTERN)
					fail("memory that is new has what another left");
		}
	free(copy);
	look_at_array();
	CHECK(cudaMemcpyFromSymbol(words, zeros, sizeof(words)));
	for (int i = 0; i < WORDS; i++)
		if (words[i])
			fail("a variable without a value has one");
	CHECK(cudaMemcpyFromSymbol(words, table, sizeof(words)));
	for (int i = 0; i < WORDS; i++)
		if (words[i])
			fail("a constant without a value has one");
	CHECK(cudaMemcpyFromSymbol(words, numbers, 4 * sizeof(unsigned)));
	for (unsigned i = 0; i < 4; i++)
		if (words[i] != i + 1)
			fail("a variable has another value than it was compiled with");
}

static void wait_for_file(void *path)
{
	while (access((const char *)path, F_OK))
		usleep(1000);
}

static void hold(char *path)
{
	size_t size = (size_t)HELD_MIB << 20;
	unsigned *data = (unsigned *)get(0, size), *copy = (unsigned *)malloc(size);

	CHECK(cudaMemset(data, 0x77, size));
	add_to_all<<<1, WORDS>>>(10);
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaLaunchHostFunc(0, wait_for_file, path));
	add_to_all<<<1, WORDS>>>(10);
	printf(NAME ": holding %p\n", (void *)data);
	fflush(stdout);
	CHECK(cudaGetLastError());
	CHECK(cudaMemcpy(copy, data, size, cudaMemcpyDeviceToHost));
	for (size_t i = 0; i < size / sizeof(unsigned); i++)
		if (copy[i] != 0x77777777)
			fail("what it held has changed");
	CHECK(cudaMemcpyFromSymbol(copy, zeros, sizeof(zeros)));
	for (int i = 0; i < WORDS; i++)
		if (copy[i] != 20)
			fail("a variable has changed");
	CHECK(cudaFree(data));
	free(copy);
}

static void expect(const char *what, cudaError_t error)
{
	if (error != cudaErrorInvalidValue) {
		printf(NAME ": %s of another's memory returned %d\n", what, error);
		exit(1);
	}
	cudaGetLastError();
}

static void touch(char *theirs)
{
	char *mine = (char *)get(0, 1 << 20), host[4096];
	cudaPointerAttributes attributes;

	expect("a copy out", cudaMemcpy(host, theirs, 4096, cudaMemcpyDeviceToHost));
	expect("a copy in", cudaMemcpy(theirs, host, 4096, cudaMemcpyHostToDevice));
	expect("a long copy out",
		cudaMemcpyAsync(mine, theirs, 1 << 20, cudaMemcpyDeviceToDevice, 0));
	expect("a copy from mine", cudaMemcpy(theirs, mine, 4096, cudaMemcpyDeviceToDevice));
	expect("a copy of rows",
		cudaMemcpy2D(mine, 64, theirs, 64, 32, 8, cudaMemcpyDeviceToDevice));
	expect("a copy to the end of mine and on",
		cudaMemcpy(host, mine, (size_t)1 << 40, cudaMemcpyDeviceToHost));
	expect("a fill", cudaMemset(theirs, 1, 4096));
	expect("a fill in a stream", cudaMemsetAsync(theirs, 1, 4096, 0));
	expect("a fill of rows", cudaMemset2D(theirs, 64, 1, 32, 8));
	expect("freeing", cudaFree(theirs));
	CHECK(cudaPointerGetAttributes(&attributes, theirs));
	if (attributes.type != cudaMemoryTypeUnregistered)
		fail("another's memory is known");
	CHECK(cudaMemset(mine, 1, 1 << 20));
	CHECK(cudaFree(mine));
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";

	if (!strcmp(how, "plant"))
		plant();
	else if (!strcmp(how, "look"))
		look();
	else if (!strcmp(how, "hold") && argc > 2)
		hold(argv[2]);
	else if (!strcmp(how, "touch") && argc > 2)
		touch((char *)strtoull(argv[2], NULL, 0));
	else
		fail("plant, look, hold FILE or touch ADDRESS?");
	printf(NAME ": ok\n");
	return 0;
}
