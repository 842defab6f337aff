/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DRIVER_GRAPHS_H
#define DRIVER_GRAPHS_H

/* A server's uses of graphs; driver_things.h has the other calls. */

#include "driver_things.h"

enum {
	KERNELS = 1,
	MEMSET = 2,
	COPY = 4,
	OPS = 8,
	RECORD = 16,
	APART = 32, /* nodes that are independent of each other */
	CHAIN = 64, /* like launches in a row */
};

/* Of one kind, or of several. */
static void make_graph(unsigned kinds)
{
	const CUDA_KERNEL_NODE_PARAMS of_kernel = node_of(function);
	const CUDA_MEMSET_NODE_PARAMS of_memset = {
		.dst = memory, .elementSize = 1, .width = 64, .height = 1};
	const CUDA_MEMCPY3D of_copy = box(CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE);
	CUstreamBatchMemOpParams op = {.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32,
					       .address = memory,
					       .value = 1}};
	const CUDA_BATCH_MEM_OP_NODE_PARAMS of_ops = {context, 1, &op, 0};
	unsigned n_kernels = kinds & CHAIN     ? CHAIN_NODES
			     : kinds & APART   ? 4
			     : kinds & KERNELS ? 2
					       : 0;
	CUgraphNode node;

	CHECK(cuGraphCreate(&graph, 0));
	for (unsigned i = 0; i < n_kernels; i++)
		CHECK(cuGraphAddKernelNode(
			&node, graph, &node, i > 0 && !(kinds & APART), &of_kernel));
	if (kinds & MEMSET)
		CHECK(cuGraphAddMemsetNode(&node, graph, NULL, 0, &of_memset, context));
	if (kinds & COPY)
		CHECK(cuGraphAddMemcpyNode(&node, graph, NULL, 0, &of_copy, context));
	if (kinds & OPS)
		CHECK(cuGraphAddBatchMemOpNode(&node, graph, NULL, 0, &of_ops));
	if (kinds & RECORD)
		CHECK(cuGraphAddEventRecordNode(&node, graph, NULL, 0, event));
}

static void graphs_of(unsigned kinds)
{
	for (unsigned i = 0; i < GRAPHS / TIMES; i++) {
		make_graph(kinds);
		CHECK(cuGraphInstantiate(&exec, graph, 0));
		CHECK(cuGraphLaunch(exec, stream));
		back();
	}
}

static void graphs_of_kernels(void)
{
	graphs_of(KERNELS);
}

static void graphs_of_chains(void)
{
	graphs_of(CHAIN);
}

static void graphs_of_kernels_apart(void)
{
	graphs_of(APART);
}

static void graphs_of_memsets(void)
{
	graphs_of(MEMSET);
}

static void graphs_of_copies(void)
{
	graphs_of(COPY);
}

static void graphs_of_ops(void)
{
	graphs_of(OPS);
}

static void graphs_of_records(void)
{
	graphs_of(RECORD);
}

static void graphs_made(void)
{
	for (unsigned i = 0; i < GRAPHS / TIMES; i++) {
		make_graph(KERNELS | MEMSET | COPY | OPS | RECORD);
		CHECK(cuGraphInstantiate(&exec, graph, 0));
		back();
	}
}

static CUgraphExec made_before[GRAPHS];

static void make_graphs_of(unsigned kinds)
{
	for (unsigned i = 0; i < GRAPHS; i++) {
		make_graph(kinds);
		CHECK(cuGraphInstantiate(&made_before[i], graph, 0));
	}
}

static void make_graphs(void)
{
	make_graphs_of(KERNELS | MEMSET | COPY | OPS | RECORD);
}

/* Makes the driver have room for as many. */
static void make_room_of(unsigned kinds)
{
	make_graphs_of(kinds);
	for (unsigned i = 0; i < GRAPHS; i++) {
		CHECK(cuGraphLaunch(made_before[i], stream));
		CHECK(cuStreamSynchronize(stream));
		CHECK(cuGraphExecDestroy(made_before[i]));
	}
}

static void make_room(void)
{
	make_room_of(KERNELS | MEMSET | COPY | OPS | RECORD);
}

static void make_room_of_chains(void)
{
	make_room_of(CHAIN);
}

static void graphs_uploaded(void)
{
	for (unsigned i = 0; i < GRAPHS / TIMES; i++)
		CHECK(cuGraphUpload(made_before[turn * (GRAPHS / TIMES) + i], stream));
}

static void graphs_launched(void)
{
	for (unsigned i = 0; i < GRAPHS / TIMES; i++)
		CHECK(cuGraphLaunch(made_before[turn * (GRAPHS / TIMES) + i], stream));
}

static CUfunction large;
static uint8_t large_params[4000];
static CUgraphNode chain_nodes[GRAPHS][CHAIN_NODES];

static CUDA_KERNEL_NODE_PARAMS of_large_kernel(void)
{
	static size_t size = sizeof(large_params);
	static void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, large_params,
		CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
	CUDA_KERNEL_NODE_PARAMS params;
	CUkernel found;

	CHECK(cuLibraryGetKernel(&found, library, "large"));
	CHECK(cuKernelGetFunction(&large, found));
	params = node_of(large);
	params.extra = extra;
	return params;
}

static void graphs_of_large(void)
{
	CUDA_KERNEL_NODE_PARAMS params = of_large_kernel();
	CUgraphNode node;

	for (unsigned i = 0; i < GRAPHS / TIMES; i++) {
		CHECK(cuGraphCreate(&graph, 0));
		for (unsigned k = 0; k < CHAIN_NODES; k++)
			CHECK(cuGraphAddKernelNode(&node, graph, &node, k > 0, &params));
		CHECK(cuGraphInstantiate(&exec, graph, 0));
		CHECK(cuGraphLaunch(exec, stream));
		back();
	}
}

static void make_chains(void)
{
	size_t n = CHAIN_NODES;

	for (unsigned i = 0; i < GRAPHS; i++) {
		make_graph(CHAIN);
		CHECK(cuGraphGetNodes(graph, chain_nodes[i], &n));
		CHECK(cuGraphInstantiate(&made_before[i], graph, 0));
		CHECK(cuGraphLaunch(made_before[i], stream));
	}
}

/* Parameters that need more memory than the earlier ones. */
static void chains_set(void)
{
	CUDA_KERNEL_NODE_PARAMS params = of_large_kernel();
	unsigned each = GRAPHS / TIMES;

	for (unsigned i = turn * each; i < (turn + 1) * each; i++) {
		for (unsigned k = 0; k < CHAIN_NODES; k++)
			CHECK(cuGraphExecKernelNodeSetParams(
				made_before[i], chain_nodes[i][k], &params));
		CHECK(cuGraphLaunch(made_before[i], stream));
		back();
	}
}

/* Like a server at its start, without a kernel. */
static void make_room_of_records(void)
{
	make_graph(RECORD);
	for (unsigned i = 0; i < GRAPHS; i++)
		CHECK(cuGraphInstantiate(&made_before[i], graph, 0));
	for (unsigned i = 0; i < GRAPHS; i++)
		CHECK(cuGraphExecDestroy(made_before[i]));
	CHECK(cuGraphDestroy(graph));
}

static void graphs(void)
{
	make_graph(KERNELS | MEMSET | COPY | OPS | RECORD);
	CHECK(cuGraphInstantiate(&exec, graph, 0));
	CHECK(cuGraphUpload(exec, stream));
	CHECK(cuGraphLaunch(exec, stream));
	CHECK(cuGraphLaunch(exec, stream));
}

static void graph_ends(void)
{
	graphs();
	CHECK(cuStreamSynchronize(stream));
	CHECK(cuGraphExecDestroy(exec));
	CHECK(cuGraphDestroy(graph));
}

#endif
