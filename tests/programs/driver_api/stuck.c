/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Blocks until it is killed, while the GPU waits for it. `stuck call' blocks in a host
 * function; `stuck word' has streams that wait for semaphores which are never written;
 * `stuck load' has one such stream beside a kernel that must be loaded; `stuck flood' has
 * one with more work behind it than a queue of the GPU takes; `stuck kernel' runs a kernel
 * for ever (`stuck kernel MIB' with so much memory), `stuck busy' one kernel after the other, and
 * `stuck steady' long ones, so that it has work at every moment.
 * `stuck slow' is in a host function for two seconds and then ends normally; `stuck idle' waits
 * after its host functions. Prints `stuck: running' at that point.
 *
 * Runs: for a test of its own
 */

#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME "stuck"
#include "../helpers/driver_program.h"

enum {
	STREAMS = 8,
	EACH = 20,
	FLOOD = 5000,
	AHEAD = 16,
	SLOW_S = 2
};

static const char image[] = IMAGE_OF_NOTHING;

static void say_running(void)
{
	printf(NAME ": running\n");
	fflush(stdout);
}

/* The server replies in order: earlier work is then on the GPU. */
static void say_waiting(void)
{
	size_t n_free, total;

	CHECK(cuMemGetInfo(&n_free, &total));
	say_running();
}

static void call(void *data)
{
	const char *how = data;

	if (!strcmp(how, "idle"))
		return;
	say_running();
	if (!strcmp(how, "slow"))
		sleep(SLOW_S);
	else
		for (;;)
			pause();
}

static void nothing(void *data)
{
	(void)data;
}

/* Each of many streams has waits in a row, some on the same semaphore. */
static void wait_for_words(CUdeviceptr words, const CUstream *streams)
{
	CHECK(cuStreamWaitValue32(streams[0], words, 1, CU_STREAM_WAIT_VALUE_EQ));
	say_waiting();
	for (unsigned i = 0; i < EACH; i++)
		for (unsigned s = 0; s < STREAMS; s++)
			CHECK(cuStreamWaitValue32(streams[s], words + 4ull * (s / 2), i + 1,
				CU_STREAM_WAIT_VALUE_EQ));
}

/* The driver does not load code beside a blocked stream, nor does the service. */
static void load(CUdeviceptr words, const CUstream *streams)
{
	CUmodule module;
	CUfunction function;

	CHECK(cuStreamWaitValue32(streams[0], words, 1, CU_STREAM_WAIT_VALUE_EQ));
	say_waiting();
	CHECK(cuModuleLoadData(&module, image));
	CHECK(cuModuleGetFunction(&function, module, "nothing"));
	CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, streams[1], NULL, NULL));
}

/* A call of the driver waits while a queue is full, and delays every other call. */
static void flood(CUdeviceptr words, const CUstream *streams)
{
	CHECK(cuStreamWaitValue32(streams[0], words, 1, CU_STREAM_WAIT_VALUE_EQ));
	say_waiting();
	for (unsigned i = 0; i < FLOOD; i++)
		CHECK(cuMemsetD32Async(words + 4, i, 1, streams[0]));
}

static const char image_of_forever[] = ".version 7.0\n"
				       ".target sm_75\n"
				       ".address_size 64\n"
				       ".visible .entry forever()\n"
				       "{\n"
				       "again:\n"
				       "	bra again;\n"
				       "}\n";

static void run_for_ever(CUstream stream)
{
	CUmodule module;
	CUfunction function;

	CHECK(cuModuleLoadData(&module, image_of_forever));
	CHECK(cuModuleGetFunction(&function, module, "forever"));
	CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
	say_waiting();
	CHECK(cuCtxSynchronize());
}

static const char image_of_a_while[] = ".version 7.0\n"
				       ".target sm_75\n"
				       ".address_size 64\n"
				       ".visible .entry nothing()\n"
				       "{\n"
				       "	.reg .u32 %n;\n"
				       "	.reg .pred %p;\n"
				       "	mov.u32 %n, 300000;\n"
				       "again:\n"
				       "	sub.u32 %n, %n, 1;\n"
				       "	setp.ne.u32 %p, %n, 0;\n"
				       "	@%p bra again;\n"
				       "	ret;\n"
				       "}\n";

/* The next ones are queued long before the last has ended. */
static void launch_for_ever(CUstream stream, const char *ptx)
{
	CUmodule module;
	CUfunction function;
	CUevent events[AHEAD];

	CHECK(cuModuleLoadData(&module, ptx));
	CHECK(cuModuleGetFunction(&function, module, "nothing"));
	for (unsigned i = 0; i < AHEAD; i++)
		CHECK(cuEventCreate(&events[i], CU_EVENT_DISABLE_TIMING));
	for (unsigned i = 0;; i++) {
		CHECK(cuEventSynchronize(events[i % AHEAD]));
		CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
		CHECK(cuEventRecord(events[i % AHEAD], stream));
		if (i == AHEAD)
			say_running();
	}
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	CUdevice device = 0;
	CUcontext context = NULL;
	CUdeviceptr words = 0, more;
	CUstream streams[STREAMS];

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuMemAlloc(&words, 64));
	CHECK(cuMemsetD8(words, 0, 64));
	if (argc > 2)
		CHECK(cuMemAlloc(&more, strtoul(argv[2], NULL, 10) << 20));
	for (unsigned s = 0; s < STREAMS; s++)
		CHECK(cuStreamCreate(&streams[s], CU_STREAM_NON_BLOCKING));
	if (!strcmp(how, "word"))
		wait_for_words(words, streams);
	else if (!strcmp(how, "load"))
		load(words, streams);
	else if (!strcmp(how, "flood"))
		flood(words, streams);
	else if (!strcmp(how, "kernel"))
		run_for_ever(streams[0]);
	else if (!strcmp(how, "busy"))
		launch_for_ever(streams[0], image);
	else if (!strcmp(how, "steady"))
		launch_for_ever(streams[0], image_of_a_while);
	else
		CHECK(cuLaunchHostFunc(streams[0], call, (void *)how));
	for (unsigned s = 0; s < STREAMS; s++)
		for (unsigned i = 0; i < EACH; i++)
			CHECK(cuLaunchHostFunc(streams[s], nothing, NULL));
	CHECK(cuCtxSynchronize());
	if (!strcmp(how, "idle")) {
		say_running();
		pause();
	}
	printf(NAME ": ok\n");
	return 0;
}
