/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Streams that wait for a semaphore, and beside them streams that wait only for each other:
 * the latter finish first, in any number, whichever other streams wait.
 *
 *   waits_beside [FILE]
 *
 * continues from the former to the latter when the file exists.
 */

#include <unistd.h>

#define NAME "waits_beside"
#include "../helpers/driver_program.h"

enum {
	BESIDE = 5,
	POLL_US = 1000,
};

struct word {
	volatile uint32_t *host;
	CUdeviceptr device;
};

static CUstream stream(void)
{
	CUstream made = NULL;

	CHECK(cuStreamCreate(&made, CU_STREAM_NON_BLOCKING));
	return made;
}

static CUevent record(CUstream on)
{
	CUevent made = NULL;

	CHECK(cuEventCreate(&made, CU_EVENT_DISABLE_TIMING));
	CHECK(cuEventRecord(made, on));
	return made;
}

/* Before that, no stream that waits for the semaphore may have finished. */
static void beside(const struct word *word)
{
	CUstream first = stream(), others[BESIDE];
	CUevent event = NULL, ends[BESIDE];

	CHECK(cuStreamWriteValue32(first, word->device + 4, 7, 0));
	event = record(first);
	for (unsigned i = 0; i < BESIDE; i++) {
		others[i] = stream();
		CHECK(cuStreamWaitEvent(others[i], event, 0));
		CHECK(cuStreamWriteValue32(
			others[i], word->device + 8 + 4 * (CUdeviceptr)i, i + 1, 0));
		ends[i] = record(others[i]);
	}
	for (unsigned i = 0; i < BESIDE; i++) {
		CHECK(cuEventSynchronize(ends[i]));
		MUST(word->host[1] == 7 && word->host[2 + i] == i + 1);
		CHECK(cuEventDestroy(ends[i]));
		CHECK(cuStreamDestroy(others[i]));
	}
	CHECK(cuEventDestroy(event));
	CHECK(cuStreamDestroy(first));
}

int main(int argc, char **argv)
{
	CUcontext context = NULL;
	CUstream waiting, behind;
	struct word word = {NULL, 0};
	size_t n_free, total;
	CUdevice device;
	CUevent event;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuMemHostAlloc((void **)&word.host, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
	CHECK(cuMemHostGetDevicePointer(&word.device, (void *)(uintptr_t)word.host, 0));
	for (unsigned i = 0; i < 2 + BESIDE; i++)
		word.host[i] = 0;
	waiting = stream();
	behind = stream();
	CHECK(cuStreamWaitValue32(waiting, word.device, 1, CU_STREAM_WAIT_VALUE_EQ));
	event = record(waiting);
	CHECK(cuStreamWaitEvent(behind, event, 0));
	if (argc > 1) {
		/* The server replies in order: the wait is then on the GPU. */
		CHECK(cuMemGetInfo(&n_free, &total));
		printf(NAME ": waiting\n");
		fflush(stdout);
		while (access(argv[1], F_OK) < 0)
			usleep(POLL_US);
	}
	beside(&word);
	EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(waiting));
	EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(behind));
	word.host[0] = 1;
	CHECK(cuStreamSynchronize(behind));
	CHECK(cuEventDestroy(event));
	CHECK(cuStreamDestroy(waiting));
	CHECK(cuStreamDestroy(behind));
	CHECK(cuMemFreeHost((void *)(uintptr_t)word.host));
	CHECK(cuDevicePrimaryCtxRelease(device));
	printf(NAME ": ok\n");
	return 0;
}
