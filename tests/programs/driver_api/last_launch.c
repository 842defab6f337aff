/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Launches one thing after another: a kernel, a graph, a kernel whose module it then unloads. After
 * each step it says which, and waits for a line of its input.
 *
 * Runs: for a test of its own
 */

#define NAME "last_launch"
#include "../helpers/driver_program.h"

/* void n::scale<int>() */
#define SCALE "_ZN1n5scaleIiEEvv"

static const char image[] = ".version 7.0\n"
			    ".target sm_75\n"
			    ".address_size 64\n"
			    ".visible .entry " SCALE "() { ret; }\n";

static void wait_for_line(const char *step)
{
	char line[16];

	CHECK(cuCtxSynchronize());
	printf(NAME ": %s\n", step);
	fflush(stdout);
	MUST(fgets(line, sizeof(line), stdin) != NULL);
}

static void launch(CUfunction scale)
{
	CHECK(cuLaunchKernel(scale, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
}

static void launch_graph(void)
{
	CUgraph graph;
	CUgraphNode node;
	CUgraphExec exec;

	CHECK(cuGraphCreate(&graph, 0));
	CHECK(cuGraphAddEmptyNode(&node, graph, NULL, 0));
	CHECK(cuGraphInstantiate(&exec, graph, 0));
	CHECK(cuGraphLaunch(exec, NULL));
	CHECK(cuCtxSynchronize());
	CHECK(cuGraphExecDestroy(exec));
	CHECK(cuGraphDestroy(graph));
}

int main(void)
{
	CUcontext context;
	CUmodule module;
	CUfunction scale;

	CHECK(cuInit(0));
	CHECK(cuDevicePrimaryCtxRetain(&context, 0));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuModuleLoadData(&module, image));
	CHECK(cuModuleGetFunction(&scale, module, SCALE));
	wait_for_line("nothing");
	launch(scale);
	wait_for_line("kernel");
	launch_graph();
	wait_for_line("graph");
	launch(scale);
	CHECK(cuModuleUnload(module));
	wait_for_line("unloaded");
	CHECK(cuDevicePrimaryCtxRelease(0));
	printf(NAME ": ok\n");
	return 0;
}
