/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A thread without a current context, such as the one that pins memory for PyTorch's loader: calls
 * that name a stream or an event work, calls that name none return CUDA_ERROR_INVALID_CONTEXT, and
 * no call makes a context current. The runtime's calls then make the primary context current.
 *
 * Builds with: -Xcompiler -pthread
 */

#define NAME "pinning_thread"

#include <pthread.h>

#include "../helpers/entry.h"
#include "../helpers/program.h"

#define INVALID CUDA_ERROR_INVALID_CONTEXT

enum {
	ROUNDS = 50,
	SIZE = 1 << 16
};

/* Made by the main thread. */
static cudaStream_t stream, second;
static cudaEvent_t event, begin;
static unsigned char *device, *pinned;

static void expect_no_context(void)
{
	CUcontext context = (CUcontext)&context;

	DRIVER(CUDA_SUCCESS, cuCtxGetCurrent, &context);
	if (context)
		FAIL("a context is current");
}

static void expect_bytes(int value)
{
	for (int i = 0; i < SIZE; i++)
		if (pinned[i] != value)
			FAIL("byte %d is %d, not %d", i, pinned[i], value);
}

static void wait_event(void)
{
	decltype(&cuEventQuery) query = (decltype(&cuEventQuery))entry("cuEventQuery");
	CUresult result;

	while ((result = query(event)) == CUDA_ERROR_NOT_READY)
		usleep(100);
	if (result != CUDA_SUCCESS)
		FAIL("cuEventQuery: %d", result);
}

/* Fills on one stream, and copies on another one behind it. */
static void use_objects(int round)
{
	CUdeviceptr address = (CUdeviceptr)device;
	float milliseconds;

	DRIVER(CUDA_SUCCESS, cuEventRecord, begin, stream);
	DRIVER(CUDA_SUCCESS, cuMemsetD8Async, address, round, SIZE, stream);
	DRIVER(CUDA_SUCCESS, cuEventRecord, event, stream);
	DRIVER(CUDA_SUCCESS, cuStreamWaitEvent, second, event, 0);
	DRIVER(CUDA_SUCCESS, cuMemcpyDtoHAsync, pinned, address, SIZE, second);
	DRIVER(CUDA_SUCCESS, cuStreamSynchronize, second);
	DRIVER(CUDA_SUCCESS, cuStreamQuery, second);
	expect_bytes(round);
	DRIVER(CUDA_SUCCESS, cuEventSynchronize, event);
	wait_event();
	DRIVER(CUDA_SUCCESS, cuEventElapsedTime, &milliseconds, begin, event);
	expect_no_context();
}

static void need_context(void)
{
	CUdeviceptr address = (CUdeviceptr)device;
	CUdeviceptr made;
	CUstream stream_made;
	CUevent event_made;
	void *host;

	DRIVER(INVALID, cuStreamSynchronize, NULL);
	DRIVER(INVALID, cuStreamQuery, CU_STREAM_PER_THREAD);
	DRIVER(INVALID, cuMemcpyDtoH, pinned, address, SIZE);
	DRIVER(INVALID, cuMemsetD8, address, 1, SIZE);
	DRIVER(INVALID, cuCtxSynchronize);
	DRIVER(INVALID, cuStreamCreate, &stream_made, 0);
	DRIVER(INVALID, cuEventCreate, &event_made, 0);
	DRIVER(INVALID, cuMemAlloc, &made, SIZE);
	DRIVER(INVALID, cuMemHostAlloc, &host, SIZE, 0);
	DRIVER(INVALID, cuMemHostRegister, &made, sizeof(made), 0);
	expect_no_context();
}

static void pin_by_runtime(void)
{
	void *more;

	CHECK(cudaEventQuery(event));
	CHECK(cudaHostAlloc(&more, SIZE, cudaHostAllocDefault));
	memset(more, 7, SIZE);
	CHECK(cudaMemcpyAsync(device, more, SIZE, cudaMemcpyHostToDevice, stream));
	CHECK(cudaEventRecord(event, stream));
	CHECK(cudaEventSynchronize(event));
	CHECK(cudaFreeHost(more));
	CHECK(cudaMemcpy(pinned, device, SIZE, cudaMemcpyDeviceToHost));
	expect_bytes(7);
}

static void *run(void *arg)
{
	(void)arg;
	expect_no_context();
	wait_event();
	for (int round = 0; round < ROUNDS; round++)
		use_objects(round);
	need_context();
	pin_by_runtime();
	return NULL;
}

int main(void)
{
	pthread_t thread;

	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	CHECK(cudaStreamCreate(&second));
	CHECK(cudaEventCreate(&event));
	CHECK(cudaEventCreate(&begin));
	CHECK(cudaMalloc(&device, SIZE));
	CHECK(cudaHostAlloc(&pinned, SIZE, cudaHostAllocDefault));
	CHECK(cudaMemsetAsync(device, 1, SIZE, stream));
	CHECK(cudaEventRecord(event, stream));
	if (pthread_create(&thread, NULL, run, NULL) || pthread_join(thread, NULL))
		FAIL("no thread");
	puts(NAME ": ok");
	return 0;
}
