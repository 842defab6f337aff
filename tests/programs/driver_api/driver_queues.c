/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Whether work of one stream goes into the hardware queue of another stream that waits
 * for a semaphore of the host, while all queues of the GPU are in use. The driver gives an
 * idle stream one of its few queues with the stream's next kernel or copy. Work behind the
 * wait ends only when the semaphore is written. A process has 8 queues; with
 * CUDA_DEVICE_MAX_CONNECTIONS=32, like the server, 32.
 *
 *   driver_queues [ROUNDS]
 *
 * Prints `KIND busy=N blocked=M behind=K of ROUNDS' for some numbers of streams.
 *
 * Runs: for a test of its own
 */

#define NAME "driver_queues"
#include <pthread.h>
#include <stdint.h>
#include <unistd.h>

#include "../helpers/driver_program.h"

enum {
	BUSY_MAX = 96,
	BLOCKED_MAX = 8,
	LOOKERS = 16,
	ENOUGH = 10, /* rounds in which work was behind a wait */
	N_KINDS = 3,
	COPY_BYTES = 1 << 20,
	LONG_US = 300000, /* for work of some microseconds, or of a millisecond beside other work */
	LOOK_US = 1000,
	SPIN = 400000, /* a fifth of a millisecond */
};

static const char image[] = ".version 7.0\n"
			    ".target sm_75\n"
			    ".address_size 64\n"
			    ".visible .entry spin(.param .u32 times)\n"
			    "{\n"
			    "	.reg .pred %p<2>;\n"
			    "	.reg .b32 %r<4>;\n"
			    "	ld.param.u32 %r1, [times];\n"
			    "	mov.u32 %r2, %clock;\n"
			    "AGAIN:\n"
			    "	mov.u32 %r3, %clock;\n"
			    "	sub.u32 %r3, %r3, %r2;\n"
			    "	setp.lt.u32 %p1, %r3, %r1;\n"
			    "	@%p1 bra AGAIN;\n"
			    "	ret;\n"
			    "}\n";

static CUfunction spin;
static CUdeviceptr memory;
static CUstream blocked[BLOCKED_MAX], busy[BUSY_MAX], lookers[LOOKERS];
static void *pinned;
static volatile uint32_t *word;

/* For the watching thread: when the current round began. */
static volatile unsigned round_now, n_behind;
static volatile int is_waiting;

static CUstream stream(void)
{
	CUstream made = NULL;

	CHECK(cuStreamCreate(&made, CU_STREAM_NON_BLOCKING));
	return made;
}

/* Releases all streams when a round takes long, and counts it. */
static void *watch(void *arg)
{
	unsigned last = 0, us = 0;

	(void)arg;
	for (;;) {
		usleep(LOOK_US);
		us = is_waiting && round_now == last ? us + LOOK_US : 0;
		last = round_now;
		if (us < LONG_US)
			continue;
		us = 0;
		n_behind++;
		*word = 1;
	}
	return NULL;
}

static void launch(CUstream on)
{
	unsigned times = SPIN;
	void *params[] = {&times};

	CHECK(cuLaunchKernel(spin, 1, 1, 1, 32, 1, 1, 0, on, params, NULL));
}

/* As the server does: first a copy of some bytes, then work that stays in the stream's queue. */
static void put_small(CUstream on)
{
	CHECK(cuMemcpyDtoDAsync(memory, memory + 64, 8, on));
	CHECK(cuMemsetD32Async(memory + 128, 7, 16, on));
	CHECK(cuStreamWriteValue32(on, memory + 256, 1, 0));
}

static void put_copies(CUstream on)
{
	CHECK(cuMemcpyHtoDAsync(memory, pinned, COPY_BYTES, on));
	CHECK(cuMemcpyDtoHAsync(pinned, memory, COPY_BYTES, on));
}

static void put_kernel(CUstream on)
{
	launch(on);
}

static const struct kind {
	const char *name;
	void (*put)(CUstream on);
} kinds[] = {{"small", put_small}, {"copies", put_copies}, {"kernel", put_kernel}};

static void look(const struct kind *kind, CUstream on)
{
	is_waiting = 1;
	kind->put(on);
	CHECK(cuStreamSynchronize(on));
	is_waiting = 0;
	round_now++;
}

static void block_streams(unsigned n)
{
	*word = 0;
	for (unsigned i = 0; i < n; i++) {
		CHECK(cuMemcpyDtoDAsync(memory, memory + 64, 8, blocked[i]));
		CHECK(cuStreamWaitValue32(
			blocked[i], (CUdeviceptr)(uintptr_t)word, 1, CU_STREAM_WAIT_VALUE_EQ));
	}
}

static void try_it(const struct kind *kind, unsigned n_busy, unsigned n_blocked, unsigned rounds)
{
	unsigned round;

	n_behind = 0;
	for (round = 0; round < rounds && n_behind < ENOUGH; round++) {
		if (round % 32 == 0 || *word == 1) {
			*word = 1;
			CHECK(cuCtxSynchronize());
			block_streams(n_blocked);
		}
		for (unsigned i = 0; i < n_busy; i++)
			launch(busy[i]);
		look(kind, lookers[round % LOOKERS]);
	}
	*word = 1;
	CHECK(cuCtxSynchronize());
	printf("%s busy=%u blocked=%u behind=%u of %u\n", kind->name, n_busy, n_blocked, n_behind,
		round);
	fflush(stdout);
}

static void setup(void)
{
	CUcontext context;
	CUdevice device;
	CUmodule module;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuModuleLoadData(&module, image));
	CHECK(cuModuleGetFunction(&spin, module, "spin"));
	CHECK(cuMemAlloc(&memory, COPY_BYTES));
	CHECK(cuMemHostAlloc(&pinned, COPY_BYTES, 0));
	CHECK(cuMemHostAlloc((void **)&word, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
	*word = 1;
	for (unsigned i = 0; i < BLOCKED_MAX; i++)
		blocked[i] = stream();
	for (unsigned i = 0; i < BUSY_MAX; i++) {
		busy[i] = stream();
		launch(busy[i]);
	}
	for (unsigned i = 0; i < LOOKERS; i++) {
		lookers[i] = stream();
		look(&kinds[i % N_KINDS], lookers[i]);
	}
	CHECK(cuCtxSynchronize());
}

int main(int argc, char **argv)
{
	static const unsigned n_busy[] = {0, 24, 32, 96};
	unsigned rounds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 300;
	pthread_t thread;

	setup();
	MUST(pthread_create(&thread, NULL, watch, NULL) == 0);
	for (unsigned k = 0; k < N_KINDS; k++)
		for (unsigned i = 0; i < sizeof(n_busy) / sizeof(n_busy[0]); i++)
			for (unsigned n = 1; n <= BLOCKED_MAX; n *= 2)
				try_it(&kinds[k], n_busy[i], n, rounds);
	printf(NAME ": ok\n");
	return 0;
}
