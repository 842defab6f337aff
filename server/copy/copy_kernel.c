/* SPDX-License-Identifier: Apache-2.0 */

#include "copy_kernel.h"

#include "lock.h"
#include "server/util/log.h"
#include "server/device/device.h"

/* This many blocks and threads keep the bus busy. */
#define BLOCKS_MAX 32
#define THREADS 256

/* Each thread copies one unit, then steps by the number of threads. */
#define ENTRY(name, shift, load, store, registers)                                                 \
	".visible .entry " name "(.param .u64 dst, .param .u64 src,\n"                             \
	"	.param .u64 dst_pitch, .param .u64 src_pitch,\n"                                         \
	"	.param .u64 dst_slice, .param .u64 src_slice,\n"                                         \
	"	.param .u64 width, .param .u64 height, .param .u64 n_units)\n"                           \
	"{\n"                                                                                      \
	"	.reg .pred %done;\n"                                                                     \
	"	.reg .b32 %block, %threads, %blocks, %thread;\n"                                         \
	"	.reg .b32 %v<4>;\n"                                                                      \
	"	.reg .b64 %i, %step, %width, %height, %n, %row, %x, %y, %z, %at, %to, %from;\n"          \
	"	mov.u32 %block, %ctaid.x;\n"                                                             \
	"	mov.u32 %blocks, %nctaid.x;\n"                                                           \
	"	mov.u32 %thread, %tid.x;\n"                                                              \
	"	mov.u32 %threads, %ntid.x;\n"                                                            \
	"	mul.wide.u32 %i, %block, %threads;\n"                                                    \
	"	cvt.u64.u32 %x, %thread;\n"                                                              \
	"	add.u64 %i, %i, %x;\n"                                                                   \
	"	mul.wide.u32 %step, %blocks, %threads;\n"                                                \
	"	ld.param.u64 %width, [width];\n"                                                         \
	"	ld.param.u64 %height, [height];\n"                                                       \
	"	ld.param.u64 %n, [n_units];\n"                                                           \
	"next:\n"                                                                                  \
	"	setp.ge.u64 %done, %i, %n;\n"                                                            \
	"	@%done bra end;\n"                                                                       \
	"	div.u64 %row, %i, %width;\n"                                                             \
	"	mul.lo.u64 %x, %row, %width;\n"                                                          \
	"	sub.u64 %x, %i, %x;\n"                                                                   \
	"	shl.b64 %x, %x, " shift ";\n"                                                      \
	"	div.u64 %z, %row, %height;\n"                                                            \
	"	mul.lo.u64 %y, %z, %height;\n"                                                           \
	"	sub.u64 %y, %row, %y;\n"                                                                 \
	"	ld.param.u64 %from, [src];\n"                                                            \
	"	ld.param.u64 %at, [src_pitch];\n"                                                        \
	"	mad.lo.u64 %from, %y, %at, %from;\n"                                                     \
	"	ld.param.u64 %at, [src_slice];\n"                                                        \
	"	mad.lo.u64 %from, %z, %at, %from;\n"                                                     \
	"	add.u64 %from, %from, %x;\n"                                                             \
	"	ld.param.u64 %to, [dst];\n"                                                              \
	"	ld.param.u64 %at, [dst_pitch];\n"                                                        \
	"	mad.lo.u64 %to, %y, %at, %to;\n"                                                         \
	"	ld.param.u64 %at, [dst_slice];\n"                                                        \
	"	mad.lo.u64 %to, %z, %at, %to;\n"                                                         \
	"	add.u64 %to, %to, %x;\n"                                                                 \
	"	" load " " registers ", [%from];\n"                                                \
	"	" store " [%to], " registers ";\n"                                                 \
	"	add.u64 %i, %i, %step;\n"                                                                \
	"	bra next;\n"                                                                             \
	"end:\n"                                                                                   \
	"	ret;\n"                                                                                  \
	"}\n"

const char copy_kernel_image[] =
	".version 6.0\n"
	".target sm_50\n"
	".address_size 64\n" ENTRY("copy_bytes", "0", "ld.global.u8", "st.global.u8", "%v0")
		ENTRY("copy_vectors", "4", "ld.global.v4.u32", "st.global.v4.u32",
			"{%v0, %v1, %v2, %v3}");

#define VECTOR 16

static const char *const names[] = {"copy_bytes", "copy_vectors"};

/* Written under the lock while a GPU's context is made, before a worker on that GPU reads it. */
static struct lock lock = LOCK_INIT(COPY_KERNELS);
static CUlibrary library; /* NULL: not loaded yet */
static CUkernel kernels[ARRAY_SIZE(names)];

/* The result of an earlier call does not change, because workers on other GPUs read it. */
static CUresult load_library(void)
{
	CUresult result = CUDA_SUCCESS;

	if (!library)
		result = cuda.cuLibraryLoadData(
			&library, copy_kernel_image, NULL, NULL, 0, NULL, NULL, 0);
	for (unsigned i = 0; i < ARRAY_SIZE(names) && result == CUDA_SUCCESS; i++)
		if (!kernels[i])
			result = cuda.cuLibraryGetKernel(&kernels[i], library, names[i]);
	return result;
}

/* Otherwise the driver would load the code at the first use, and wait for what runs on the GPU. */
static CUresult load_code(CUkernel kernel)
{
	CUfunction function = NULL;
	CUresult result = cuda.cuKernelGetFunction(&function, kernel);

	return result == CUDA_SUCCESS ? cuda.cuFuncLoad(function) : result;
}

/* Loads the kernel, and its code on the GPU whose context is current. */
static CUresult copy_kernel_load(void)
{
	lock_hold(&lock);
	CUresult result = load_library();

	for (unsigned i = 0; i < ARRAY_SIZE(names) && result == CUDA_SUCCESS; i++)
		result = load_code(kernels[i]);
	return result;
}

/*
 * Runs while the context is made, because later it would wait for running work. A driver
 * that cannot compile the kernel can serve everything else: graphs that copy within host
 * memory are refused then. After any other failure, the next client tries to make the
 * context again.
 */
static CUresult copy_kernel_open(struct device *device)
{
	CUresult result = copy_kernel_load();

	switch (result) {
	case CUDA_ERROR_INVALID_PTX:
	case CUDA_ERROR_NO_BINARY_FOR_GPU:
	case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
	case CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
	case CUDA_ERROR_JIT_COMPILATION_DISABLED:
		log_line("Device %u (%s): the driver cannot compile the kernel for copies within "
			 "host memory: %s. Graphs with such copies are refused",
			device->ordinal, device->facts.name, result_name(result));
		return CUDA_SUCCESS;
	default:
		return result;
	}
}

static void copy_kernel_close(void)
{
	if (library)
		cuda.cuLibraryUnload(library);
	library = NULL;
	for (unsigned i = 0; i < ARRAY_SIZE(names); i++)
		kernels[i] = NULL;
}

static bool is_vectors(const struct copy_kernel_params *params)
{
	const uint64_t all = params->dst | params->src | params->dst_pitch | params->src_pitch |
			     params->dst_slice | params->src_slice | params->width;

	return all % VECTOR == 0;
}

/* The width is in bytes at first. */
static struct copy_kernel_params copy_kernel_describe(
	const struct box_end *dst, const struct box_end *src, const struct box_size *size)
{
	return (struct copy_kernel_params){
		.dst = dst->at.address,
		.src = src->at.address,
		.dst_pitch = dst->pitch,
		.src_pitch = src->pitch,
		.dst_slice = dst->pitch * dst->rows,
		.src_slice = src->pitch * src->rows,
		.width = size->width,
		.height = size->height,
	};
}

/* Sets up a launch for that many units. `launch' contains the parameters. */
static void fill_in(struct copy_kernel_launch *launch, uint64_t n_units)
{
	const uint64_t blocks = (n_units + THREADS - 1) / THREADS;

	launch->params.n_units = n_units;
	launch->node = (CUDA_KERNEL_NODE_PARAMS_v2){
		.gridDimX = (unsigned)MIN(MAX(blocks, 1u), BLOCKS_MAX),
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = THREADS,
		.blockDimY = 1,
		.blockDimZ = 1,
		.extra = kernel_extra(&launch->extra, &launch->params, sizeof(launch->params)),
	};
}

CUresult copy_kernel_make(const struct box_end *dst, const struct box_end *src,
	const struct box_size *size, struct copy_kernel_launch *ret_launch)
{
	bool has_vectors;
	CUkernel kernel;

	*ret_launch = (struct copy_kernel_launch){.params = copy_kernel_describe(dst, src, size)};
	has_vectors = is_vectors(&ret_launch->params);
	kernel = kernels[has_vectors];
	if (!kernel)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (has_vectors)
		ret_launch->params.width /= VECTOR;
	fill_in(ret_launch, ret_launch->params.width * size->height * size->depth);
	return cuda.cuKernelGetFunction(&ret_launch->node.func, kernel);
}

/* The kernel with no unit to copy. */
static CUresult copy_kernel_add_node(CUgraph graph, CUgraphNode after, CUgraphNode *ret_node)
{
	struct copy_kernel_launch launch = {0};
	CUresult result;

	if (!kernels[0])
		return CUDA_ERROR_NOT_SUPPORTED;
	fill_in(&launch, 0);
	result = cuda.cuKernelGetFunction(&launch.node.func, kernels[0]);
	return result == CUDA_SUCCESS ? cuda.cuGraphAddKernelNode_v2(ret_node, graph, &after,
						after ? 1 : 0, &launch.node)
				      : result;
}

const struct device_part copy_kernel_part = {
	.open = copy_kernel_open,
	.add_node = copy_kernel_add_node,
	.close = copy_kernel_close,
};
