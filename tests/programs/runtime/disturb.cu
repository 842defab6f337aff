/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Repeats work that may delay other clients: `disturb jit' compiles PTX that was never compiled
 * before, `load' loads and unloads an image, `pin' pins and frees host memory, `copy' copies
 * 256 MiB of pageable memory both ways, `copy_pinned' of pinned memory, `free' allocates and
 * frees device memory, `launch' enqueues kernels without waiting for them.
 *
 *   disturb WHAT SECONDS
 *
 * Prints `disturb: running' after the first time. SIGTERM ends it earlier.
 *
 * Runs: for a test of its own
 */

#define NAME "disturb"
#include <signal.h>

#include "../helpers/program.h"

#define MIB ((size_t)1 << 20)

enum {
	KERNELS = 40,
	STEPS = 60,
	PTX_MAX = 1 << 20,
	BURST = 64
};

static char ptx[PTX_MAX];
static char *host, *device;
static volatile sig_atomic_t is_ended;

static __global__ void empty(void)
{
}

/* Kernels that take the compiler some time; `salt' makes them new. */
static void write_ptx(unsigned salt)
{
	size_t n = 0;

	n += (size_t)snprintf(ptx, PTX_MAX, ".version 7.0\n.target sm_75\n.address_size 64\n");
	for (unsigned k = 0; k < KERNELS; k++) {
		n += (size_t)snprintf(ptx + n, PTX_MAX - n,
			".visible .entry k%u(.param .u64 p)\n{\n.reg .u32 %%r<2>;\n"
			".reg .u64 %%d<2>;\nld.param.u64 %%d1, [p];\nmov.u32 %%r1, %u;\n",
			k, salt);
		for (unsigned i = 0; i < STEPS; i++)
			n += (size_t)snprintf(ptx + n, PTX_MAX - n,
				"mad.lo.u32 %%r1, %%r1, %u, %u;\nst.global.u32 [%%d1+%u], %%r1;\n",
				salt + i, k * i + 1, 4 * i);
		n += (size_t)snprintf(ptx + n, PTX_MAX - n, "ret;\n}\n");
	}
}

/* Registers the image and makes the driver compile it: the attributes of a kernel need its code. */
static void load(unsigned salt)
{
	cudaFuncAttributes attributes;
	cudaLibrary_t library;
	cudaKernel_t kernel;

	if (salt > 0)
		write_ptx(salt);
	CHECK(cudaLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
	CHECK(cudaLibraryGetKernel(&kernel, library, "k1"));
	CHECK(cudaFuncGetAttributes(&attributes, (const void *)kernel));
	CHECK(cudaLibraryUnload(library));
}

static void pin(void)
{
	void *memory;

	CHECK(cudaMallocHost(&memory, 256 * MIB));
	CHECK(cudaFreeHost(memory));
}

static void copy(void)
{
	CHECK(cudaMemcpy(device, host, 256 * MIB, cudaMemcpyHostToDevice));
	CHECK(cudaMemcpy(host, device, 256 * MIB, cudaMemcpyDeviceToHost));
}

static void copy_pinned(void)
{
	static char *pinned;

	if (!pinned)
		CHECK(cudaMallocHost(&pinned, 256 * MIB));
	CHECK(cudaMemcpy(device, pinned, 256 * MIB, cudaMemcpyHostToDevice));
	CHECK(cudaMemcpy(pinned, device, 256 * MIB, cudaMemcpyDeviceToHost));
}

static void free_memory(void)
{
	void *memory;

	CHECK(cudaMalloc(&memory, 1024 * MIB));
	CHECK(cudaFree(memory));
}

static void launch(void)
{
	for (int i = 0; i < BURST; i++)
		empty<<<1, 1>>>();
}

static void on_end(int)
{
	is_ended = 1;
}

static bool disturb(const char *what, unsigned turn)
{
	if (!strcmp(what, "jit"))
		load(turn + (unsigned)(now_s() * 1e3));
	else if (!strcmp(what, "load"))
		load(turn == 1 ? 1 : 0);
	else if (!strcmp(what, "pin"))
		pin();
	else if (!strcmp(what, "copy"))
		copy();
	else if (!strcmp(what, "copy_pinned"))
		copy_pinned();
	else if (!strcmp(what, "free"))
		free_memory();
	else if (!strcmp(what, "launch"))
		launch();
	else
		return false;
	return true;
}

int main(int argc, char **argv)
{
	double end_s = now_s() + (argc > 2 ? atof(argv[2]) : 0);
	unsigned turn = 0;

	signal(SIGTERM, on_end);
	host = (char *)malloc(256 * MIB);
	memset(host, 1, 256 * MIB);
	CHECK(cudaMalloc(&device, 256 * MIB));
	do {
		if (argc < 2 || !disturb(argv[1], ++turn)) {
			printf("usage: " NAME
			       " jit|load|pin|copy|copy_pinned|free|launch SECONDS\n");
			return 2;
		}
		if (turn == 1) {
			printf(NAME ": running\n");
			fflush(stdout);
		}
	} while (!is_ended && now_s() < end_s);
	CHECK(cudaDeviceSynchronize());
	printf("turns=%u\n", turn);
	printf(NAME ": ok\n");
	return 0;
}
