/* SPDX-License-Identifier: Apache-2.0 */
/* The software GPU: which SMs kernels run on, in green contexts and elsewhere. */

#include "softgpu_child.h"

#define SMS 20u
#define ALL (((uint64_t)1 << SMS) - 1)

/* where: sets [seen + 4 * %smid] to 1; spins while the word at `flag' is 0. */
static const char image[] = ".version 8.0\n.target sm_50\n.address_size 64\n"
			    ".visible .entry where(.param .u64 seen, .param .u64 flag)\n"
			    "{\n"
			    "	.reg .pred %p<2>;\n	.reg .b32 %r<4>;\n	.reg .b64 %rd<6>;\n"
			    "	ld.param.u64 %rd1, [seen];\n	ld.param.u64 %rd2, [flag];\n"
			    "AGAIN:\n"
			    "	ld.volatile.global.u32 %r1, [%rd2];\n	setp.eq.u32 %p1, %r1, 0;\n"
			    "	@%p1 bra AGAIN;\n"
			    "	mov.u32 %r2, %smid;\n	mul.wide.u32 %rd3, %r2, 4;\n"
			    "	add.s64 %rd4, %rd1, %rd3;\n	mov.u32 %r3, 1;\n"
			    "	st.global.u32 [%rd4], %r3;\n	ret;\n"
			    "}\n";

struct bench {
	CUcontext primary;
	CUlibrary library;
	CUkernel kernel;
	CUmodule module;
	CUfunction function;
	CUdeviceptr seen;
	uint64_t *flag;
	CUdeviceptr flag_address;
	void *params[2];
};

static struct bench bench;

static void bench_open(void)
{
	bench.primary = context_open();
	OK(CU(cuLibraryLoadData)(&bench.library, image, NULL, NULL, 0, NULL, NULL, 0));
	OK(CU(cuLibraryGetKernel)(&bench.kernel, bench.library, "where"));
	OK(CU(cuModuleLoadData)(&bench.module, image));
	OK(CU(cuModuleGetFunction)(&bench.function, bench.module, "where"));
	OK(CU(cuMemAlloc)(&bench.seen, SMS * sizeof(uint32_t)));
	bench.flag = words_new(1);
	bench.flag_address = device_of(bench.flag);
	bench.params[0] = &bench.seen;
	bench.params[1] = &bench.flag_address;
	store(bench.flag, 1);
}

static void forget(void)
{
	OK(CU(cuMemsetD32)(bench.seen, 0, SMS));
	OK(CU(cuCtxSynchronize)());
}

/* The SMs that were used since forget(), as bits. */
static uint64_t used(void)
{
	uint32_t marks[SMS];
	uint64_t set = 0;

	OK(CU(cuMemcpyDtoH)(marks, bench.seen, sizeof(marks)));
	for (unsigned i = 0; i < SMS; i++)
		set |= (uint64_t)marks[i] << i;
	return set;
}

static uint64_t run(CUstream stream)
{
	forget();
	OK(launch(bench.function, 2 * SMS, 1, stream, bench.params));
	OK(CU(cuStreamSynchronize)(stream));
	return used();
}

static CUdevResource all_sms(void)
{
	CUdevResource all;

	OK(CU(cuDeviceGetDevResource)(0, &all, CU_DEV_RESOURCE_TYPE_SM));
	return all;
}

static CUgreenCtx green_of(CUdevResource *resource)
{
	CUdevResourceDesc desc;
	CUgreenCtx green;

	OK(CU(cuDevResourceGenerateDesc)(&desc, resource, 1));
	OK(CU(cuGreenCtxCreate)(&green, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
	return green;
}

/* The second of two groups of 8. */
static CUgreenCtx green_new(void)
{
	CUdevResource all = all_sms(), groups[2];
	unsigned n = 2;

	OK(CU(cuDevSmResourceSplitByCount)(groups, &n, &all, NULL, 0, 8));
	CHECK(n == 2);
	return green_of(&groups[1]);
}

static CUcontext context_of(CUgreenCtx green)
{
	CUcontext context;

	OK(CU(cuCtxFromGreenCtx)(&context, green));
	return context;
}

static uint64_t sms_of(CUdevResource *resource)
{
	CUgreenCtx green = green_of(resource);
	CUstream stream;
	uint64_t sms;

	OK(CU(cuGreenCtxStreamCreate)(&stream, green, CU_STREAM_NON_BLOCKING, 0));
	sms = run(stream);
	OK(CU(cuStreamDestroy)(stream));
	OK(CU(cuGreenCtxDestroy)(green));
	return sms;
}

static void split_child(void)
{
	CUdevResource all, groups[3], rest;
	unsigned n;

	bench_open();
	all = all_sms();
	CHECK(all.sm.smCount == SMS);
	CHECK(run(NULL) == ALL);
	/* Each division begins with the first SMs again. */
	for (unsigned i = 0; i < 2; i++) {
		n = 3;
		OK(CU(cuDevSmResourceSplitByCount)(groups, &n, &all, &rest, 0, 5));
		CHECK(n == 2 && groups[0].sm.smCount == 8 && rest.sm.smCount == 4);
		CHECK(sms_of(&groups[0]) == 0xff);
		CHECK(sms_of(&groups[1]) == 0xff00);
		CHECK(sms_of(&rest) == 0xf0000);
	}
	n = 3;
	OK(CU(cuDevSmResourceSplitByCount)(
		groups, &n, &all, &rest, CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING, 5));
	CHECK(n == 3 && groups[2].sm.smCount == 6 && rest.sm.smCount == 2);
	CHECK(sms_of(&groups[1]) == 0xfc0);
}
CHILD(split, "SOFTGPU_SMS=20")

static void current_child(void)
{
	unsigned long long id, primary_id;
	CUcontext context, got;
	CUgreenCtx green, found;
	CUdevResource has;
	CUstream made, plain;
	int value, block;

	bench_open();
	green = green_new();
	context = context_of(green);
	plain = stream_new(CU_STREAM_NON_BLOCKING);
	OK(CU(cuCtxGetId)(bench.primary, &primary_id));
	OK(CU(cuCtxPushCurrent)(context));
	OK(CU(cuCtxGetCurrent)(&got));
	CHECK(got == context);
	OK(CU(cuCtxGetId)(NULL, &id));
	CHECK(id != primary_id);
	CHECK(run(NULL) == 0xff00);
	EXPECT(CUDA_ERROR_INVALID_HANDLE, CU(cuStreamQuery)(CU_STREAM_PER_THREAD));
	CHECK(run(plain) == ALL);
	made = stream_new(CU_STREAM_NON_BLOCKING);
	CHECK(run(made) == 0xff00);
	OK(CU(cuCtxGetDevResource)(context, &has, CU_DEV_RESOURCE_TYPE_SM));
	CHECK(has.sm.smCount == 8);
	OK(CU(cuDeviceGetAttribute)(&value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
	CHECK(value == SMS);
	OK(CU(cuOccupancyMaxPotentialBlockSize)(&value, &block, bench.function, NULL, 0, 1024));
	CHECK(value == 8 * 2048 / block);
	OK(CU(cuStreamGetCtx_v2)(made, &got, &found));
	CHECK(got == bench.primary && found == green);
	OK(CU(cuCtxPopCurrent)(&got));
	CHECK(got == context);
	CHECK(run(made) == 0xff00);
	CHECK(run(NULL) == ALL);
	OK(CU(cuGreenCtxDestroy)(green));
	EXPECT(CUDA_ERROR_CONTEXT_IS_DESTROYED, CU(cuStreamQuery)(made));
	EXPECT(CUDA_ERROR_INVALID_CONTEXT, CU(cuCtxPushCurrent)(context));
	EXPECT(CUDA_ERROR_CONTEXT_IS_DESTROYED, CU(cuStreamDestroy)(made));
}
CHILD(current, "SOFTGPU_SMS=20")

/* A wait of one green context affects only that context. */
static void apart_child(void)
{
	CUgreenCtx green;
	CUstream other;

	bench_open();
	green = green_new();
	other = stream_new(CU_STREAM_NON_BLOCKING);
	forget();
	store(bench.flag, 0);
	OK(launch(bench.function, 1, 1, other, bench.params));
	OK(CU(cuCtxPushCurrent)(context_of(green)));
	OK(CU(cuCtxSynchronize)());
	EXPECT(CUDA_ERROR_NOT_READY, CU(cuStreamQuery)(other));
	store(bench.flag, 1);
	OK(CU(cuCtxPopCurrent)(NULL));
	OK(CU(cuCtxSynchronize)());
	OK(CU(cuStreamQuery)(other));
	CHECK(used() == 1);
	OK(CU(cuDevicePrimaryCtxReset)(0));
	EXPECT(CUDA_ERROR_INVALID_CONTEXT, CU(cuGreenCtxDestroy)(green));
}
CHILD(apart, "SOFTGPU_SMS=20")

static CUDA_KERNEL_NODE_PARAMS node_params(CUfunction function, CUkernel kernel, CUcontext context)
{
	return (CUDA_KERNEL_NODE_PARAMS){.func = function,
		.kern = kernel,
		.ctx = context,
		.gridDimX = 2 * SMS,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = 1,
		.blockDimY = 1,
		.blockDimZ = 1,
		.kernelParams = bench.params};
}

static uint64_t run_graph(CUgraph graph, CUstream stream)
{
	CUgraphExec exec;

	forget();
	OK(CU(cuGraphInstantiate)(&exec, graph, 0));
	OK(CU(cuGraphLaunch)(exec, stream));
	OK(CU(cuStreamSynchronize)(stream));
	OK(CU(cuGraphExecDestroy)(exec));
	OK(CU(cuGraphDestroy)(graph));
	return used();
}

static uint64_t run_node(CUDA_KERNEL_NODE_PARAMS params, CUstream stream)
{
	CUgraphNode node;
	CUgraph graph;

	OK(CU(cuGraphCreate)(&graph, 0));
	OK(CU(cuGraphAddKernelNode)(&node, graph, NULL, 0, &params));
	return run_graph(graph, stream);
}

/* As measured with driver 580: a function's node has the current context, a kernel's its own. */
static void graphs_child(void)
{
	CUcontext context;
	CUgreenCtx green;
	CUstream in_green, plain;
	CUgraph graph;

	bench_open();
	green = green_new();
	context = context_of(green);
	plain = stream_new(CU_STREAM_NON_BLOCKING);
	OK(CU(cuGreenCtxStreamCreate)(&in_green, green, CU_STREAM_NON_BLOCKING, 0));
	CHECK(run_node(node_params(bench.function, NULL, NULL), in_green) == ALL);
	CHECK(run_node(node_params(bench.function, NULL, context), in_green) == ALL);
	CHECK(run_node(node_params(NULL, bench.kernel, NULL), in_green) == ALL);
	CHECK(run_node(node_params(NULL, bench.kernel, context), plain) == 0xff00);
	OK(CU(cuCtxPushCurrent)(context));
	CHECK(run_node(node_params(bench.function, NULL, NULL), plain) == 0xff00);
	CHECK(run_node(node_params(bench.function, NULL, bench.primary), plain) == 0xff00);
	CHECK(run_node(node_params(NULL, bench.kernel, bench.primary), in_green) == ALL);
	OK(CU(cuCtxPopCurrent)(NULL));
	OK(CU(cuStreamBeginCapture)(in_green, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(launch(bench.function, 2 * SMS, 1, in_green, bench.params));
	OK(CU(cuStreamEndCapture)(in_green, &graph));
	CHECK(run_graph(graph, plain) == 0xff00);
}
CHILD(graphs, "SOFTGPU_SMS=20")

static uint64_t run_exec(CUgraphExec exec, CUstream stream)
{
	forget();
	OK(CU(cuGraphLaunch)(exec, stream));
	OK(CU(cuStreamSynchronize)(stream));
	return used();
}

/* As measured with driver 580: the node of an executable graph keeps the SMs that it has. */
static void set_node_child(void)
{
	CUDA_KERNEL_NODE_PARAMS params, got;
	CUcontext context;
	CUgraphNode node;
	CUgraphExec exec;
	CUgraph graph;
	CUstream plain;

	bench_open();
	context = context_of(green_new());
	plain = stream_new(CU_STREAM_NON_BLOCKING);
	params = node_params(NULL, bench.kernel, context);
	OK(CU(cuGraphCreate)(&graph, 0));
	OK(CU(cuGraphAddKernelNode)(&node, graph, NULL, 0, &params));
	OK(CU(cuGraphKernelNodeGetParams)(node, &got));
	CHECK(got.kern == bench.kernel && got.ctx == context);
	OK(CU(cuGraphInstantiate)(&exec, graph, 0));
	params = node_params(bench.function, NULL, NULL);
	EXPECT(CUDA_ERROR_INVALID_VALUE, CU(cuGraphExecKernelNodeSetParams)(exec, node, &params));
	params.ctx = context;
	EXPECT(CUDA_ERROR_INVALID_VALUE, CU(cuGraphExecKernelNodeSetParams)(exec, node, &params));
	CHECK(run_exec(exec, plain) == 0xff00);
	OK(CU(cuCtxPushCurrent)(context));
	params.ctx = bench.primary;
	OK(CU(cuGraphExecKernelNodeSetParams)(exec, node, &params));
	CHECK(run_exec(exec, plain) == 0xff00);
}
CHILD(set_node, "SOFTGPU_SMS=20")

/* The node of a clone gets the SMs of the context that is current when it is set. */
static void clone_child(void)
{
	CUDA_KERNEL_NODE_PARAMS params;
	CUgraphNode node, in_clone;
	CUgraphExec exec, exec_clone;
	CUgraph graph, clone;
	CUcontext context;
	CUstream plain;

	bench_open();
	context = context_of(green_new());
	plain = stream_new(CU_STREAM_NON_BLOCKING);
	params = node_params(bench.function, NULL, NULL);
	OK(CU(cuGraphCreate)(&graph, 0));
	OK(CU(cuGraphAddKernelNode)(&node, graph, NULL, 0, &params));
	OK(CU(cuGraphInstantiate)(&exec, graph, 0));
	OK(CU(cuGraphClone)(&clone, graph));
	OK(CU(cuGraphNodeFindInClone)(&in_clone, node, clone));
	OK(CU(cuGraphKernelNodeGetParams)(node, &params));
	OK(CU(cuCtxPushCurrent)(context));
	OK(CU(cuGraphKernelNodeSetParams)(in_clone, &params));
	OK(CU(cuGraphInstantiate)(&exec_clone, clone, 0));
	OK(CU(cuCtxPopCurrent)(NULL));
	CHECK(run_exec(exec_clone, plain) == 0xff00);
	CHECK(run_exec(exec, plain) == ALL);
}
CHILD(clone, "SOFTGPU_SMS=20")

/* A cooperative launch that fits on the GPU does not fit into the green context. */
static void cooperative_clone_child(void)
{
	const CUkernelNodeAttrValue cooperative = {.cooperative = 1};
	CUDA_KERNEL_NODE_PARAMS params;
	CUgraphNode node, in_clone;
	CUgraph graph, clone;

	bench_open();
	params = node_params(bench.function, NULL, NULL);
	params.blockDimX = 1024;
	OK(CU(cuGraphCreate)(&graph, 0));
	OK(CU(cuGraphAddKernelNode)(&node, graph, NULL, 0, &params));
	OK(CU(cuGraphKernelNodeSetAttribute)(node, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &cooperative));
	OK(CU(cuGraphClone)(&clone, graph));
	OK(CU(cuGraphNodeFindInClone)(&in_clone, node, clone));
	OK(CU(cuGraphKernelNodeSetParams)(in_clone, &params));
	OK(CU(cuCtxPushCurrent)(context_of(green_new())));
	EXPECT(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
		CU(cuGraphKernelNodeSetParams)(in_clone, &params));
	params.gridDimX = 16;
	OK(CU(cuGraphKernelNodeSetParams)(in_clone, &params));
}
CHILD(cooperative_clone, "SOFTGPU_SMS=20")

static CUresult cooperate(unsigned grid, CUstream stream)
{
	return CU(cuLaunchCooperativeKernel)(
		bench.function, grid, 1, 1, 1024, 1, 1, 0, stream, bench.params);
}

/* The stream decides, not the current context; but NULL is the current context's stream. */
static void cooperative_child(void)
{
	CUgreenCtx green;
	CUstream in_green, plain;

	bench_open();
	green = green_new();
	plain = stream_new(CU_STREAM_NON_BLOCKING);
	OK(CU(cuGreenCtxStreamCreate)(&in_green, green, CU_STREAM_NON_BLOCKING, 0));
	for (unsigned i = 0; i < 2; i++) {
		OK(cooperate(16, in_green));
		EXPECT(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, cooperate(17, in_green));
		OK(cooperate(40, plain));
		EXPECT(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, cooperate(41, plain));
		EXPECT(i == 0 ? CUDA_SUCCESS : CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
			cooperate(17, NULL));
		OK(CU(cuCtxPushCurrent)(context_of(green)));
	}
	OK(CU(cuStreamSynchronize)(in_green));
	OK(CU(cuStreamSynchronize)(plain));
	OK(CU(cuCtxSynchronize)());
}
CHILD(cooperative, "SOFTGPU_SMS=20")

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(split),
		cmocka_unit_test(current),
		cmocka_unit_test(apart),
		cmocka_unit_test(graphs),
		cmocka_unit_test(set_node),
		cmocka_unit_test(clone),
		cmocka_unit_test(cooperative_clone),
		cmocka_unit_test(cooperative),
	};

	return library_find(argc, argv) ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
