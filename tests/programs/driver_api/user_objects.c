/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Objects of the program that graphs keep alive. Their end functions are called in the call
 * that drops the last reference, or, if work has used them, in a thread of the driver when
 * the work has ended. Then the program makes no call: it only sleeps, as programs do that
 * wait for such a function.
 */

#define NAME "user_objects"
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "../helpers/driver_program.h"

#define WAIT_US 1000
#define WAITS 20000
#define RUN_US 200000

static const char image[] = ".version 7.0\n"
			    ".target sm_75\n"
			    ".address_size 64\n" ENTRY_OF_SPIN;

static CUcontext context;
static CUfunction spin;
static CUstream stream;
static volatile unsigned *word; /* pinned: kernels run until it is not 0 */
static atomic_int n_ended;
static _Thread_local int n_ended_here;

static void setup(void)
{
	CUmodule module;
	CUdevice device;
	void *pinned;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuModuleLoadData(&module, image));
	CHECK(cuModuleGetFunction(&spin, module, "spin"));
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CHECK(cuMemHostAlloc(&pinned, sizeof(*word), CU_MEMHOSTALLOC_PORTABLE));
	word = pinned;
}

static void end(void *arg)
{
	CUdevice device;

	EXPECT(CUDA_ERROR_NOT_PERMITTED, cuCtxGetDevice(&device));
	n_ended_here += *(int *)arg;
	atomic_fetch_add(&n_ended, *(int *)arg);
}

/* Of objects that work has used. */
static void wait_for_ends(int n)
{
	int n_here = n_ended_here;

	for (int i = 0; i < WAITS && atomic_load(&n_ended) < n; i++)
		usleep(WAIT_US);
	MUST(atomic_load(&n_ended) == n && n_ended_here == n_here);
}

/* Of other objects. */
static void must_have_ended(int n, int n_here)
{
	MUST(atomic_load(&n_ended) == n && n_ended_here == n_here);
}

static CUuserObject object_new(int *counted, unsigned n_references)
{
	CUuserObject object;

	*counted = 1;
	CHECK(cuUserObjectCreate(
		&object, counted, end, n_references, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
	return object;
}

/* A graph with one kernel, which runs until the word is set. */
static CUgraph graph_new(void)
{
	CUDA_KERNEL_NODE_PARAMS params = node_of(spin);
	CUdeviceptr at = (CUdeviceptr)(size_t)word;
	void *args[] = {&at};
	CUgraphNode node;
	CUgraph graph;

	params.kernelParams = args;
	CHECK(cuGraphCreate(&graph, 0));
	CHECK(cuGraphAddKernelNode(&node, graph, NULL, 0, &params));
	return graph;
}

/* Ends the kernels after a while. Meanwhile no object has ended. */
static void *stop_kernels(void *arg)
{
	int n_before = atomic_load(&n_ended);

	(void)arg;
	usleep(RUN_US);
	MUST(atomic_load(&n_ended) == n_before);
	*word = 1;
	return NULL;
}

/* Everything that the graph needs is destroyed while it runs; that may wait for the kernel. */
static void *destroy_running(void *arg)
{
	pthread_t stopper;
	CUgraphExec exec;
	CUgraph graph;

	CHECK(cuCtxSetCurrent(context));
	graph = graph_new();
	CHECK(cuGraphRetainUserObject(graph, arg, 1, CU_GRAPH_USER_OBJECT_MOVE));
	CHECK(cuGraphInstantiate(&exec, graph, 0));
	CHECK(cuGraphDestroy(graph));
	*word = 0;
	CHECK(cuGraphLaunch(exec, stream));
	MUST(pthread_create(&stopper, NULL, stop_kernels, NULL) == 0);
	CHECK(cuGraphExecDestroy(exec));
	MUST(pthread_join(stopper, NULL) == 0);
	return NULL;
}

static void ended_by_work(void)
{
	int counted, n_before = atomic_load(&n_ended);
	pthread_t thread;

	destroy_running(object_new(&counted, 1));
	wait_for_ends(n_before + 1);
	/* The thread that destroyed the graph has ended. */
	MUST(pthread_create(&thread, NULL, destroy_running, object_new(&counted, 1)) == 0);
	MUST(pthread_join(thread, NULL) == 0);
	wait_for_ends(n_before + 2);
	CHECK(cuStreamSynchronize(stream));
}

/* Several executable graphs of one graph, destroyed while the first one runs. */
static void ended_in_turn(void)
{
	int counted, n_before = atomic_load(&n_ended);
	CUgraph graph = graph_new();
	pthread_t stopper;
	CUgraphExec execs[3];

	CHECK(cuGraphRetainUserObject(
		graph, object_new(&counted, 1), 1, CU_GRAPH_USER_OBJECT_MOVE));
	*word = 0;
	for (unsigned i = 0; i < 3; i++) {
		CHECK(cuGraphInstantiate(&execs[i], graph, 0));
		CHECK(cuGraphUpload(execs[i], stream));
	}
	for (unsigned i = 0; i < 3; i++)
		CHECK(cuGraphLaunch(execs[i], stream));
	MUST(pthread_create(&stopper, NULL, stop_kernels, NULL) == 0);
	for (unsigned i = 0; i < 3; i++)
		CHECK(cuGraphExecDestroy(execs[i]));
	CHECK(cuGraphDestroy(graph));
	MUST(pthread_join(stopper, NULL) == 0);
	wait_for_ends(n_before + 1);
	CHECK(cuStreamSynchronize(stream));
}

/* Without work: by the last reference of the program, of a graph, and of its clone. */
static void ended_by_calls(void)
{
	int counted, n = atomic_load(&n_ended), n_here = n_ended_here;
	CUgraph graph = graph_new(), clone;
	CUuserObject object = object_new(&counted, 1);
	CUgraphExec exec;

	CHECK(cuUserObjectRetain(object, 2));
	CHECK(cuUserObjectRelease(object, 2));
	must_have_ended(n, n_here);
	CHECK(cuUserObjectRelease(object, 1));
	must_have_ended(n + 1, n_here + 1);
	object = object_new(&counted, 1);
	CHECK(cuGraphRetainUserObject(graph, object, 3, 0));
	CHECK(cuUserObjectRelease(object, 1));
	CHECK(cuGraphReleaseUserObject(graph, object, 1));
	CHECK(cuGraphClone(&clone, graph));
	CHECK(cuGraphReleaseUserObject(graph, object, 2));
	must_have_ended(n + 1, n_here + 1);
	CHECK(cuGraphInstantiate(&exec, clone, 0));
	CHECK(cuGraphDestroy(clone));
	must_have_ended(n + 1, n_here + 1);
	CHECK(cuGraphExecDestroy(exec));
	must_have_ended(n + 2, n_here + 2);
	CHECK(cuGraphDestroy(graph));
}

/* The launch has ended long ago. */
static void ended_after_work(void)
{
	int counted, n_before = atomic_load(&n_ended);
	CUgraph graph = graph_new();
	CUgraphExec exec;

	CHECK(cuGraphRetainUserObject(
		graph, object_new(&counted, 1), 1, CU_GRAPH_USER_OBJECT_MOVE));
	CHECK(cuGraphInstantiate(&exec, graph, 0));
	CHECK(cuGraphDestroy(graph));
	*word = 1;
	CHECK(cuGraphLaunch(exec, stream));
	CHECK(cuStreamSynchronize(stream));
	MUST(atomic_load(&n_ended) == n_before);
	CHECK(cuGraphExecDestroy(exec));
	wait_for_ends(n_before + 1);
}

int main(void)
{
	setup();
	ended_by_calls();
	ended_after_work();
	for (int i = 0; i < 3; i++)
		ended_by_work();
	ended_in_turn();
	CHECK(cuStreamDestroy(stream));
	CHECK(cuDevicePrimaryCtxRelease(0));
	printf(NAME ": ok\n");
	return 0;
}
