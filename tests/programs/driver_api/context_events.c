/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Events of a whole context: a record covers all streams; a context that waits for an
 * event blocks all its streams, including later ones.
 */

#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define NAME "context_events"
#include "../helpers/driver_program.h"

/* A semaphore that a stream waits for and the host writes. */
static volatile uint32_t *gate;

static void close_gate(CUstream stream)
{
	*gate = 0;
	CHECK(cuStreamWaitValue32(
		stream, (CUdeviceptr)(uintptr_t)gate, 1, CU_STREAM_WAIT_VALUE_EQ));
}

static CUevent event_new(void)
{
	CUevent event = NULL;

	CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	return event;
}

static CUstream stream_new(void)
{
	CUstream stream = NULL;

	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	return stream;
}

static void recorded(CUcontext context, CUstream a, CUstream b, CUdeviceptr memory)
{
	CUevent event = event_new(), later = event_new();

	CHECK(cuCtxRecordEvent(context, event));
	CHECK(cuEventSynchronize(event));
	close_gate(a);
	CHECK(cuMemsetD32Async(memory, 1, 16, b));
	CHECK(cuCtxRecordEvent(context, event));
	/* Later work is not included. */
	CHECK(cuEventRecord(later, b));
	usleep(3000);
	expect(cuEventQuery(event) == CUDA_ERROR_NOT_READY, "one stream is blocked");
	CHECK(cuEventSynchronize(later));
	*gate = 1;
	CHECK(cuEventSynchronize(event));
	CHECK(cuCtxSynchronize());
	CHECK(cuEventDestroy(event));
	CHECK(cuEventDestroy(later));
}

static uint32_t word_at(const uint32_t *words, unsigned i)
{
	return __atomic_load_n(&words[i], __ATOMIC_ACQUIRE);
}

/* Each of three streams writes a word of pinned memory; the third is created during the wait. */
static void held(CUcontext context, CUstream a, CUstream b, uint32_t *words)
{
	CUdeviceptr at = (CUdeviceptr)(uintptr_t)words;
	CUevent event = event_new();
	CUstream c;

	for (unsigned i = 0; i < 3; i++)
		words[i] = 0;
	close_gate(a);
	CHECK(cuEventRecord(event, a));
	CHECK(cuCtxWaitEvent(context, event));
	/* The wait is for the recorded work, not for the event. */
	CHECK(cuEventDestroy(event));
	c = stream_new();
	CHECK(cuStreamWriteValue32(a, at, 1, 0));
	CHECK(cuStreamWriteValue32(b, at + 4, 2, 0));
	CHECK(cuStreamWriteValue32(c, at + 8, 3, 0));
	usleep(5000);
	expect(word_at(words, 0) == 0 && word_at(words, 1) == 0, "the streams there are wait");
	expect(word_at(words, 2) == 0, "a new stream waits");
	*gate = 1;
	CHECK(cuStreamSynchronize(a));
	CHECK(cuStreamSynchronize(b));
	CHECK(cuStreamSynchronize(c));
	expect(word_at(words, 0) == 1 && word_at(words, 1) == 2 && word_at(words, 2) == 3,
		"they go on");
	CHECK(cuStreamDestroy(c));
	c = stream_new();
	CHECK(cuStreamWriteValue32(c, at + 8, 4, 0));
	CHECK(cuStreamSynchronize(c));
	expect(word_at(words, 2) == 4, "later streams do not wait");
	CHECK(cuStreamDestroy(c));
}

/* A capture in one context does not affect another context. */
static void beside_capture(CUcontext context, CUstream stream, CUdevice device)
{
	CUcontext other = NULL;
	CUevent event;
	CUgraph graph = NULL;

	CHECK(cuCtxCreate(&other, NULL, 0, device));
	event = event_new();
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	CHECK(cuCtxRecordEvent(other, event));
	CHECK(cuCtxWaitEvent(other, event));
	CHECK(cuStreamEndCapture(stream, &graph));
	CHECK(cuGraphDestroy(graph));
	CHECK(cuCtxDestroy(other));
	CHECK(cuCtxSetCurrent(context));
}

static void errors(CUcontext context, CUstream stream)
{
	CUevent event = event_new();
	CUgraph graph = NULL;

	expect(cuCtxRecordEvent(NULL, event) == CUDA_ERROR_INVALID_CONTEXT, "a context is needed");
	expect(cuCtxWaitEvent(NULL, event) == CUDA_ERROR_INVALID_CONTEXT, "a context is needed");
	expect(cuCtxRecordEvent(context, NULL) == CUDA_ERROR_INVALID_HANDLE, "an event is needed");
	expect(cuCtxWaitEvent(context, NULL) == CUDA_ERROR_INVALID_HANDLE, "an event is needed");
	CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	expect(cuCtxRecordEvent(context, event) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
		"nothing of a context that captures is recorded");
	expect(cuStreamEndCapture(stream, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
		"which ends the capture");
	CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	expect(cuCtxWaitEvent(context, event) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
		"nor does it wait");
	expect(cuStreamEndCapture(stream, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
		"which ends the capture too");
	CHECK(cuEventDestroy(event));
}

int main(void)
{
	CUdevice device = 0;
	CUcontext context = NULL;
	CUdeviceptr memory = 0;
	CUstream a, b;
	uint32_t *pinned = NULL;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuMemAlloc(&memory, 64));
	CHECK(cuMemHostAlloc((void **)&pinned, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
	gate = pinned;
	a = stream_new();
	b = stream_new();
	recorded(context, a, b, memory);
	for (unsigned i = 0; i < 20; i++)
		held(context, a, b, pinned + 64);
	beside_capture(context, a, device);
	errors(context, a);
	recorded(context, b, a, memory);
	CHECK(cuStreamDestroy(a));
	CHECK(cuStreamDestroy(b));
	CHECK(cuMemFreeHost(pinned));
	CHECK(cuMemFree(memory));
	CHECK(cuDevicePrimaryCtxRelease(device));
	printf(NAME ": ok\n");
	return 0;
}
