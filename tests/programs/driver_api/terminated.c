/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Works until a call fails with CUDA_ERROR_MPS_CLIENT_TERMINATED, and then expects that
 * of every call, in this thread and in another that sleeps in a wait. Prints `terminated:
 * running' once it has work and memory, `terminated: ok' when all calls have failed as
 * they should, and then stays until its standard input ends. `terminated unused' calls
 * only cuInit() before its standard input ends.
 *
 * Runs: for a test of its own
 */

#include <cuda.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME "terminated"
#include "../helpers/driver_program.h"

#define GONE CUDA_ERROR_MPS_CLIENT_TERMINATED

enum {
	BYTES = 64 << 20,
	NAP_US = 2000
};

static const char image[] = IMAGE_OF_NOTHING;

struct work {
	CUcontext context;
	CUmodule module;
	CUfunction function;
	CUdeviceptr data;
	CUstream stream, stands;
	CUevent event;
};

static void say(const char *what)
{
	printf(NAME ": %s\n", what);
	fflush(stdout);
}

static void stay(void)
{
	char byte;

	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
}

static void *sleep_in_a_wait(void *arg)
{
	const struct work *work = arg;

	CHECK(cuCtxSetCurrent(work->context));
	EXPECT(GONE, cuStreamSynchronize(work->stands));
	return NULL;
}

static void begin(struct work *work)
{
	CUdevice device;

	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&work->context, device));
	CHECK(cuCtxSetCurrent(work->context));
	CHECK(cuModuleLoadData(&work->module, image));
	CHECK(cuModuleGetFunction(&work->function, work->module, "nothing"));
	CHECK(cuMemAlloc(&work->data, BYTES));
	CHECK(cuMemsetD8(work->data, 0, BYTES));
	CHECK(cuStreamCreate(&work->stream, CU_STREAM_NON_BLOCKING));
	CHECK(cuStreamCreate(&work->stands, CU_STREAM_NON_BLOCKING));
	CHECK(cuEventCreate(&work->event, CU_EVENT_DEFAULT));
	CHECK(cuLaunchKernel(work->function, 1, 1, 1, 1, 1, 1, 0, work->stream, NULL, NULL));
	CHECK(cuStreamSynchronize(work->stream));
	CHECK(cuStreamWaitValue32(work->stands, work->data, 1, CU_STREAM_WAIT_VALUE_EQ));
}

static CUresult go_round(const struct work *work)
{
	CUresult result =
		cuLaunchKernel(work->function, 1, 1, 1, 1, 1, 1, 0, work->stream, NULL, NULL);

	return result == CUDA_SUCCESS ? cuStreamSynchronize(work->stream) : result;
}

static void expect_all(struct work *work)
{
	CUdeviceptr more;
	CUstream stream;
	CUmodule module;
	char byte = 1;
	void *host;

	EXPECT(GONE, cuLaunchKernel(work->function, 1, 1, 1, 1, 1, 1, 0, work->stream, NULL, NULL));
	EXPECT(GONE, cuStreamSynchronize(work->stream));
	EXPECT(GONE, cuStreamQuery(work->stream));
	EXPECT(GONE, cuEventRecord(work->event, work->stream));
	EXPECT(GONE, cuEventSynchronize(work->event));
	EXPECT(GONE, cuCtxSynchronize());
	EXPECT(GONE, cuMemAlloc(&more, 1 << 20));
	EXPECT(GONE, cuMemAllocHost(&host, 4096));
	EXPECT(GONE, cuMemFree(work->data));
	EXPECT(GONE, cuMemcpyHtoD(work->data, &byte, 1));
	EXPECT(GONE, cuMemcpyDtoH(&byte, work->data, 1));
	EXPECT(GONE, cuMemsetD8(work->data, 0, 16));
	EXPECT(GONE, cuStreamCreate(&stream, CU_STREAM_DEFAULT));
	EXPECT(GONE, cuModuleLoadData(&module, image));
}

int main(int argc, char **argv)
{
	struct work work = {0};
	CUresult result = CUDA_SUCCESS;
	pthread_t sleeper;

	CHECK(cuInit(0));
	if (argc > 1 && !strcmp(argv[1], "unused")) {
		say("running");
		stay();
		EXPECT(GONE, cuDevicePrimaryCtxRetain(&work.context, 0));
		say("ok");
		return 0;
	}
	begin(&work);
	MUST(pthread_create(&sleeper, NULL, sleep_in_a_wait, &work) == 0);
	say("running");
	while (result == CUDA_SUCCESS) {
		usleep(NAP_US);
		result = go_round(&work);
	}
	MUST(result == GONE);
	expect_all(&work);
	pthread_join(sleeper, NULL);
	expect_all(&work);
	say("ok");
	stay();
	return 0;
}
