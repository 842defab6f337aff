/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Copies within host memory, alone and in graphs, on a stream that waits for a semaphore. Another
 * thread's call writes the semaphore: if a worker of the service waited in the driver for such a
 * copy, it would never get to that call.
 *
 * Builds with: -pthread
 */

#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#define NAME "blocked_copies"
#include "../helpers/driver_program.h"

enum {
	BYTES = 8192,
	ROWS = 100, /* more than the server queues with one call */
	PITCH = 64,
	WIDTH = 40,
	HELD_US = 20000,
	HUNG_S = 30,
};

enum kind {
	PINNED,
	MANAGED,
	PAGEABLE,
	KINDS
};

struct memory {
	unsigned char *host;
	CUdeviceptr device;
};

struct job {
	const struct memory *dst, *src;
	CUstream stream;
	CUcontext context;
	CUresult (*copy)(struct job *job);
	CUgraphExec exec; /* the graph that it has launched */
	CUresult result;
};

static CUresult line(struct job *job)
{
	return cuMemcpyAsync(job->dst->device, job->src->device, BYTES, job->stream);
}

static CUresult line_in(struct job *job)
{
	return cuMemcpyHtoDAsync(job->dst->device, job->src->host, BYTES, job->stream);
}

static CUresult line_out(struct job *job)
{
	return cuMemcpyDtoHAsync(job->dst->host, job->src->device, BYTES, job->stream);
}

static CUDA_MEMCPY3D box(const struct job *job, size_t width, size_t height, size_t depth)
{
	size_t pitch = width > PITCH ? width : PITCH;

	return (CUDA_MEMCPY3D){
		.dstMemoryType = CU_MEMORYTYPE_UNIFIED,
		.dstDevice = job->dst->device,
		.dstPitch = pitch,
		.dstHeight = height,
		.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
		.srcDevice = job->src->device,
		.srcPitch = pitch,
		.srcHeight = height,
		.WidthInBytes = width,
		.Height = height,
		.Depth = depth,
	};
}

static CUresult rows(struct job *job)
{
	const CUDA_MEMCPY2D copy = {
		.dstMemoryType = CU_MEMORYTYPE_UNIFIED,
		.dstDevice = job->dst->device,
		.dstPitch = PITCH,
		.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
		.srcDevice = job->src->device,
		.srcPitch = PITCH,
		.WidthInBytes = WIDTH,
		.Height = ROWS,
	};

	return cuMemcpy2DAsync(&copy, job->stream);
}

static CUresult slices(struct job *job)
{
	const CUDA_MEMCPY3D copy = box(job, WIDTH, ROWS / 2, 2);

	return cuMemcpy3DAsync(&copy, job->stream);
}

/* Launches a graph of that copy, instantiated with `first'. */
static CUresult launch(struct job *job, const CUDA_MEMCPY3D *first, const CUDA_MEMCPY3D *copy)
{
	CUgraph graph = NULL;
	CUgraphNode node;

	CHECK(cuGraphCreate(&graph, 0));
	CHECK(cuGraphAddMemcpyNode(&node, graph, NULL, 0, first, job->context));
	CHECK(cuGraphInstantiate(&job->exec, graph, 0));
	if (copy != first)
		CHECK(cuGraphExecMemcpyNodeSetParams(job->exec, node, copy, job->context));
	CHECK(cuGraphDestroy(graph));
	return cuGraphLaunch(job->exec, job->stream);
}

static CUresult graph_line(struct job *job)
{
	const CUDA_MEMCPY3D copy = box(job, BYTES, 1, 1);

	return launch(job, &copy, &copy);
}

static CUresult graph_line_set(struct job *job)
{
	const CUDA_MEMCPY3D first = box(job, BYTES / 2 + 1, 1, 1), copy = box(job, BYTES, 1, 1);

	return launch(job, &first, &copy);
}

static CUresult graph_slices(struct job *job)
{
	const CUDA_MEMCPY3D copy = box(job, WIDTH, ROWS / 2, 2);

	return launch(job, &copy, &copy);
}

static const struct {
	CUresult (*copy)(struct job *job);
	enum kind dst, src;
} copies[] = {
	{line, PINNED, PINNED},
	{line, PINNED, MANAGED},
	{line, MANAGED, MANAGED},
	{line_in, PINNED, PINNED},
	{line_in, PINNED, PAGEABLE},
	{line_out, PINNED, PINNED},
	{line_out, PAGEABLE, PINNED},
	{rows, PINNED, PINNED},
	{rows, MANAGED, MANAGED},
	{slices, PINNED, PINNED},
	{graph_line, PINNED, PINNED},
	{graph_line, MANAGED, PINNED},
	{graph_line_set, PINNED, PINNED},
	{graph_slices, PINNED, PINNED},
	{graph_slices, MANAGED, MANAGED},
};

static struct memory memory_make(enum kind kind)
{
	struct memory made = {NULL, 0};

	if (kind == PINNED) {
		CHECK(cuMemHostAlloc((void **)&made.host, BYTES, CU_MEMHOSTALLOC_DEVICEMAP));
	} else if (kind == MANAGED) {
		CHECK(cuMemAllocManaged(&made.device, BYTES, CU_MEM_ATTACH_GLOBAL));
		made.host = (unsigned char *)(uintptr_t)made.device;
	} else {
		made.host = malloc(BYTES);
	}
	MUST(made.host != NULL);
	made.device = (CUdeviceptr)(uintptr_t)made.host;
	return made;
}

static void *work(void *argument)
{
	struct job *job = argument;

	CHECK(cuCtxSetCurrent(job->context));
	job->result = job->copy(job);
	CHECK(cuStreamSynchronize(job->stream));
	if (job->exec)
		CHECK(cuGraphExecDestroy(job->exec));
	return NULL;
}

/* The result of the copy; between rows, the destination's bytes stay. */
static unsigned char byte_wanted(const struct job *job, unsigned at, unsigned n)
{
	bool is_box = job->copy == rows || job->copy == slices || job->copy == graph_slices;
	bool is_copied = !is_box || (at % PITCH < WIDTH && at / PITCH < ROWS);

	return is_copied ? (unsigned char)(at + n) : 0;
}

static void run(struct job *job, const struct memory *word, CUstream beside, unsigned n)
{
	pthread_t thread;

	for (unsigned i = 0; i < BYTES; i++)
		job->src->host[i] = (unsigned char)(i + n);
	memset(job->dst->host, 0, BYTES);
	CHECK(cuStreamWaitValue32(job->stream, word->device, n, CU_STREAM_WAIT_VALUE_EQ));
	MUST(pthread_create(&thread, NULL, work, job) == 0);
	usleep(HELD_US);
	CHECK(cuStreamWriteValue32(beside, word->device, n, 0));
	pthread_join(thread, NULL);
	CHECK(job->result);
	for (unsigned i = 0; i < BYTES; i++)
		MUST(job->dst->host[i] == byte_wanted(job, i, n));
}

int main(void)
{
	struct memory word, memories[2][KINDS];
	CUcontext context = NULL;
	CUstream streams[2];
	CUdevice device;

	alarm(HUNG_S);
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	word = memory_make(PINNED);
	memset(word.host, 0, BYTES);
	for (unsigned i = 0; i < 2; i++) {
		CHECK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
		for (enum kind kind = 0; kind < KINDS; kind++)
			memories[i][kind] = memory_make(kind);
	}
	for (unsigned i = 0; i < sizeof(copies) / sizeof(copies[0]); i++) {
		struct job job = {.dst = &memories[0][copies[i].dst],
			.src = &memories[1][copies[i].src],
			.stream = streams[0],
			.context = context,
			.copy = copies[i].copy};

		run(&job, &word, streams[1], i + 1);
	}
	CHECK(cuDevicePrimaryCtxRelease(device));
	printf(NAME ": ok\n");
	return 0;
}
