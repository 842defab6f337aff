/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Uses resources of which the driver may have to create more, beside other work on the
 * GPU: streams, graphs, code.
 *
 *   resources [streams N FILE | graphs N FILE | attribute N FILE]
 *
 * streams and graphs: N, each used once, and all kept until the end; attribute: of a kernel
 * that has not run yet. Begins when the file exists. Without arguments: some of each, at
 * once.
 */

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME "resources"
#include "../helpers/driver_program.h"

enum {
	MANY = 1000,
	SOME = 60,
	BRANCHES = 5,
	SHARED_BYTES = 60000,
	POLL_US = 1000,
};

static CUkernel kernel;
static CUfunction function;
static CUstream streams[MANY];
static CUgraph graphs[MANY];
static CUgraphExec execs[MANY];

static void take_streams(int n)
{
	for (int i = 0; i < n; i++) {
		CHECK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
		CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, streams[i], NULL, NULL));
	}
	for (int i = 0; i < n; i++)
		CHECK(cuStreamSynchronize(streams[i]));
	for (int i = 0; i < n; i++)
		CHECK(cuStreamDestroy(streams[i]));
}

/* Of independent branches. */
static void take_graphs(int n)
{
	const CUDA_KERNEL_NODE_PARAMS params = node_of(function);
	CUgraphNode node;
	CUstream stream;

	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (int i = 0; i < n; i++) {
		CHECK(cuGraphCreate(&graphs[i], 0));
		for (int k = 0; k < BRANCHES; k++) {
			CHECK(cuGraphAddKernelNode(&node, graphs[i], NULL, 0, &params));
			CHECK(cuGraphAddKernelNode(&node, graphs[i], &node, 1, &params));
		}
		CHECK(cuGraphInstantiate(&execs[i], graphs[i], 0));
		CHECK(cuGraphLaunch(execs[i], stream));
	}
	CHECK(cuStreamSynchronize(stream));
	for (int i = 0; i < n; i++) {
		CHECK(cuGraphExecDestroy(execs[i]));
		CHECK(cuGraphDestroy(graphs[i]));
	}
	CHECK(cuStreamDestroy(stream));
}

static void change_attribute(CUdevice device)
{
	int bytes = 0;

	CHECK(cuKernelSetAttribute(
		CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, SHARED_BYTES, kernel, device));
	CHECK(cuKernelGetAttribute(
		&bytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, kernel, device));
	MUST(bytes == SHARED_BYTES);
}

static void load(void)
{
	CHECK(cuKernelGetFunction(&function, kernel));
	CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	CHECK(cuCtxSynchronize());
}

static void wait_for_file(const char *path)
{
	printf(NAME ": waiting\n");
	fflush(stdout);
	while (access(path, F_OK) < 0)
		usleep(POLL_US);
}

int main(int argc, char **argv)
{
	const char *what = argc == 4 ? argv[1] : "";
	int n = argc == 4 ? atoi(argv[2]) : SOME;
	CUcontext context;
	CUlibrary library;
	CUdevice device;

	MUST(n >= 0 && n <= MANY);
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuLibraryLoadData(&library, IMAGE_OF_NOTHING, NULL, NULL, 0, NULL, NULL, 0));
	CHECK(cuLibraryGetKernel(&kernel, library, "nothing"));
	if (*what && strcmp(what, "attribute") != 0)
		load();
	if (*what)
		wait_for_file(argv[3]);
	if (!*what || !strcmp(what, "attribute")) {
		change_attribute(device);
		load();
	}
	if (!*what || !strcmp(what, "streams"))
		take_streams(n);
	if (!*what || !strcmp(what, "graphs"))
		take_graphs(n);
	CHECK(cuLibraryUnload(library));
	CHECK(cuDevicePrimaryCtxRelease(device));
	printf(NAME ": ok\n");
	return 0;
}
