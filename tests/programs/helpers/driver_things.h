/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DRIVER_THINGS_H
#define DRIVER_THINGS_H

/*
 * A server's calls of the driver, for driver_waits.c: each function may be called TIMES times;
 * another function prepares what it needs.
 */

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "driver_program.h"

#define MIB ((size_t)1 << 20)

enum {
	TIMES = 20,
	STREAMS = 300,
	EVENTS = 3000,
	TEXTURES = 2000,
	MAPPINGS = 100,
	GRAPHS = 400,
	CHAIN_NODES = 32,
};

/* A kernel that is used at once, and one of each kind for a later first use. */
static const char image[] = ".version 7.0\n"
			    ".target sm_75\n"
			    ".address_size 64\n"
			    ".global .align 4 .u32 variable[64];\n"
			    ".visible .entry nothing()\n"
			    "{\n"
			    "	ret;\n"
			    "}\n" ENTRY_OF_SPIN ".visible .entry another()\n"
			    "{\n"
			    "	ret;\n"
			    "}\n"
			    ".visible .entry large(.param .align 8 .b8 value[4000])\n"
			    "{\n"
			    "	ret;\n"
			    "}\n"
			    ".visible .entry local(.param .u64 out)\n"
			    "{\n"
			    "	.local .align 16 .b8 room[65536];\n"
			    "	.reg .b64 %d<6>;\n"
			    "	.reg .b32 %r<3>;\n"
			    "	ld.param.u64 %d1, [out];\n"
			    "	mov.u64 %d2, room;\n"
			    "	and.b64 %d3, %d1, 65535;\n"
			    "	add.u64 %d4, %d2, %d3;\n"
			    "	st.local.u32 [%d4], 7;\n"
			    "	ld.local.u32 %r1, [%d2];\n"
			    "	st.global.u32 [%d1], %r1;\n"
			    "	ret;\n"
			    "}\n";

/* Separate kernels, because these calls change what loading does. */
static const char services[] =
	".version 7.0\n"
	".target sm_75\n"
	".address_size 64\n"
	".extern .func (.param .b64 at) malloc(.param .b64 size);\n"
	".extern .func free(.param .b64 at);\n"
	".extern .func (.param .b32 n) vprintf(.param .b64 format, .param .b64 values);\n"
	".global .align 1 .b8 text[4] = {46, 10, 0, 0};\n"
	".visible .entry allocate()\n"
	"{\n"
	"	.reg .b64 %d<2>;\n"
	"	{\n"
	"	.param .b64 size;\n"
	"	.param .b64 at;\n"
	"	st.param.b64 [size], 64;\n"
	"	call.uni (at), malloc, (size);\n"
	"	ld.param.b64 %d1, [at];\n"
	"	}\n"
	"	{\n"
	"	.param .b64 at;\n"
	"	st.param.b64 [at], %d1;\n"
	"	call.uni free, (at);\n"
	"	}\n"
	"	ret;\n"
	"}\n"
	".visible .entry print()\n"
	"{\n"
	"	.reg .b64 %d<3>;\n"
	"	.reg .b32 %r<2>;\n"
	"	mov.u64 %d1, text;\n"
	"	cvta.global.u64 %d2, %d1;\n"
	"	{\n"
	"	.param .b64 format;\n"
	"	.param .b64 values;\n"
	"	.param .b32 n;\n"
	"	st.param.b64 [format], %d2;\n"
	"	st.param.b64 [values], 0;\n"
	"	call.uni (n), vprintf, (format, values);\n"
	"	ld.param.b32 %r1, [n];\n"
	"	}\n"
	"	ret;\n"
	"}\n";

static CUdevice device;
static CUcontext context;
static CUlibrary library, fresh;
static CUkernel kernel;
static CUfunction function;
static CUstream stream;
static CUdeviceptr memory;
static uint8_t *pinned, *pageable;
static CUarray array, other_array;
static CUgreenCtx green;
static CUevent event;
static CUgraph graph;
static CUgraphExec exec;

static unsigned turn;

/* After each of the calls of one turn. */
static void back(void);

/* ---- what may wait */

static void streams(void)
{
	CUstream made;

	for (unsigned i = 0; i < STREAMS / TIMES; i++) {
		CHECK(cuStreamCreate(&made, CU_STREAM_NON_BLOCKING));
		CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, made, NULL, NULL));
		back();
	}
}

static void streams_of_priority(void)
{
	CUstream made;

	for (unsigned i = 0; i < STREAMS / TIMES; i++) {
		CHECK(cuStreamCreateWithPriority(&made, CU_STREAM_NON_BLOCKING, -1 - (int)(i % 5)));
		CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, made, NULL, NULL));
		back();
	}
}

/* Makes the driver have room for as many. */
static void make_streams(void)
{
	static CUstream made[STREAMS];

	for (unsigned i = 0; i < STREAMS; i++) {
		CHECK(cuStreamCreate(&made[i], CU_STREAM_NON_BLOCKING));
		CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, made[i], NULL, NULL));
	}
	for (unsigned i = 0; i < STREAMS; i++)
		CHECK(cuStreamDestroy(made[i]));
}

static void stream_ends(void)
{
	CUstreamAttrValue value = {.priority = -1 - (int)(turn % 2)};
	CUstream made;

	CHECK(cuStreamCreate(&made, CU_STREAM_NON_BLOCKING));
	CHECK(cuStreamSetAttribute(made, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
	CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, made, NULL, NULL));
	CHECK(cuStreamDestroy(made));
}

static void events(void)
{
	static CUevent made[EVENTS];
	unsigned each = EVENTS / TIMES;

	for (unsigned i = turn * each; i < (turn + 1) * each && i < EVENTS; i++) {
		CHECK(cuEventCreate(&made[i], i % 2 ? CU_EVENT_DISABLE_TIMING : CU_EVENT_DEFAULT));
		CHECK(cuEventRecord(made[i], stream));
		CHECK(cuStreamWaitEvent(NULL, made[i], 0));
	}
}

static void event_ends(void)
{
	CUevent made;

	CHECK(cuEventCreate(&made, turn % 2 ? CU_EVENT_DISABLE_TIMING : CU_EVENT_DEFAULT));
	CHECK(cuEventRecord(made, stream));
	CHECK(cuEventSynchronize(made));
	CHECK(cuEventDestroy(made));
}

/* An event behind all work of the context, as server/schedule/quiet.c records it. */
static void context_events(void)
{
	CHECK(cuCtxRecordEvent(context, event));
	MUST(cuEventQuery(event) == CUDA_ERROR_NOT_READY);
}

static const CUDA_ARRAY3D_DESCRIPTOR shape = {
	.Width = 128,
	.Height = 64,
	.Depth = 0,
	.Format = CU_AD_FORMAT_FLOAT,
	.NumChannels = 1,
	.Flags = CUDA_ARRAY3D_SURFACE_LDST,
};

static void make_arrays(void)
{
	CHECK(cuArray3DCreate(&array, &shape));
	CHECK(cuArray3DCreate(&other_array, &shape));
}

static void arrays(void)
{
	CUDA_ARRAY3D_DESCRIPTOR deep = shape;
	CUmipmappedArray mipmap;
	CUarray made;

	deep.Depth = 8;
	CHECK(cuArray3DCreate(&made, &shape));
	CHECK(cuArray3DCreate(&made, &deep));
	CHECK(cuMipmappedArrayCreate(&mipmap, &shape, 4));
	CHECK(cuMipmappedArrayGetLevel(&made, mipmap, 1));
}

static void array_ends(void)
{
	CUarray made;

	CHECK(cuArray3DCreate(&made, &shape));
	CHECK(cuArrayDestroy(made));
}

static void mipmap_ends(void)
{
	CUmipmappedArray made;

	CHECK(cuMipmappedArrayCreate(&made, &shape, 4));
	CHECK(cuMipmappedArrayDestroy(made));
}

static CUtexObject texture_of_array(void)
{
	CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY};
	CUDA_TEXTURE_DESC sampler = {.filterMode = CU_TR_FILTER_MODE_LINEAR};
	CUtexObject made;

	resource.res.array.hArray = array;
	CHECK(cuTexObjectCreate(&made, &resource, &sampler, NULL));
	return made;
}

static void textures(void)
{
	for (unsigned i = 0; i < TEXTURES / TIMES; i++)
		texture_of_array();
}

static void texture_ends(void)
{
	CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY};
	CUsurfObject surface;

	CHECK(cuTexObjectDestroy(texture_of_array()));
	resource.res.array.hArray = array;
	CHECK(cuSurfObjectCreate(&surface, &resource));
	CHECK(cuSurfObjectDestroy(surface));
}

static void linear_textures(void)
{
	CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_LINEAR};
	CUDA_TEXTURE_DESC sampler = {.filterMode = CU_TR_FILTER_MODE_POINT};
	CUtexObject made;

	resource.res.linear.devPtr = memory;
	resource.res.linear.format = CU_AD_FORMAT_FLOAT;
	resource.res.linear.numChannels = 1;
	resource.res.linear.sizeInBytes = MIB;
	CHECK(cuTexObjectCreate(&made, &resource, &sampler, NULL));
	resource.resType = CU_RESOURCE_TYPE_PITCH2D;
	resource.res.pitch2D.devPtr = memory;
	resource.res.pitch2D.format = CU_AD_FORMAT_FLOAT;
	resource.res.pitch2D.numChannels = 1;
	resource.res.pitch2D.width = 128;
	resource.res.pitch2D.height = 64;
	resource.res.pitch2D.pitchInBytes = 512;
	CHECK(cuTexObjectCreate(&made, &resource, &sampler, NULL));
}

/* Many sizes: the driver takes some from its memory, and maps others. */
static void allocations(void)
{
	CUdeviceptr made;

	for (unsigned i = 0; i < 4; i++)
		CHECK(cuMemAlloc(&made, (size_t)4096 << (4 * i)));
	CHECK(cuMemsetD8Async(made, 1, MIB, stream));
}

static void fills(void)
{
	CHECK(cuMemsetD8Async(memory, 1, 64, stream));
	CHECK(cuMemsetD32Async(memory, 1, 16, stream));
	CHECK(cuMemsetD8Async(memory, 1, MIB, stream));
	CHECK(cuMemsetD16Async(memory, 2, MIB / 2, stream));
	CHECK(cuMemsetD32Async(memory, 3, MIB / 4, stream));
	CHECK(cuMemsetD8Async(memory + 1, 4, 8 * MIB, stream));
}

static void box_fills(void)
{
	CHECK(cuMemsetD2D8Async(memory, 1024, 1, 100, 100, stream));
	CHECK(cuMemsetD2D16Async(memory, 1024, 2, 100, 100, stream));
	CHECK(cuMemsetD2D32Async(memory, 1024, 3, 100, 100, stream));
	CHECK(cuMemsetD2D8Async(memory, 8192, 1, 8000, 1000, stream));
}

static void copies(void)
{
	CHECK(cuMemcpyHtoDAsync(memory, pinned, 64, stream));
	CHECK(cuMemcpyHtoDAsync(memory, pageable, 64, stream));
	CHECK(cuMemcpyHtoDAsync(memory, pageable, 40000, stream));
	CHECK(cuMemcpyHtoDAsync(memory, pinned, 4 * MIB, stream));
	CHECK(cuMemcpyDtoHAsync(pinned, memory, 4 * MIB, stream));
	CHECK(cuMemcpyDtoDAsync(memory, memory + 32 * MIB, 8, stream));
	CHECK(cuMemcpyDtoDAsync(memory, memory + 32 * MIB, 16 * MIB, stream));
	CHECK(cuMemcpyPeerAsync(memory, context, memory + 32 * MIB, context, MIB, stream));
}

static CUDA_MEMCPY3D box(CUmemorytype from, CUmemorytype to)
{
	return (CUDA_MEMCPY3D){
		.srcMemoryType = from,
		.srcHost = pinned,
		.srcDevice = memory,
		.srcArray = array,
		.srcPitch = 1024,
		.srcHeight = 64,
		.dstMemoryType = to,
		.dstHost = pinned + MIB,
		.dstDevice = memory + MIB,
		.dstArray = other_array,
		.dstPitch = 1024,
		.dstHeight = 64,
		.WidthInBytes = 400,
		.Height = 50,
		.Depth = 1,
	};
}

static const CUmemorytype places[] = {
	CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_ARRAY};

static void box_copies(void)
{
	for (unsigned from = 0; from < 2; from++)
		for (unsigned to = 0; to < 2; to++) {
			CUDA_MEMCPY3D copy = box(places[from], places[to]);

			CHECK(cuMemcpy3DAsync(&copy, stream));
			copy.Depth = 2;
			copy.Height = 20;
			CHECK(cuMemcpy3DAsync(&copy, stream));
		}
}

static void array_copies(void)
{
	for (unsigned from = 0; from < 3; from++)
		for (unsigned to = 0; to < 3; to++) {
			CUDA_MEMCPY3D copy = box(places[from], places[to]);

			if (from == 2 || to == 2)
				CHECK(cuMemcpy3DAsync(&copy, stream));
		}
}

static void launch_with(CUlaunchAttributeID id, CUlaunchAttributeValue value, unsigned shared)
{
	CUlaunchAttribute attribute = {.id = id, .value = value};
	CUlaunchConfig config = {4, 1, 1, 32, 1, 1, shared, stream, &attribute, 1};

	CHECK(cuLaunchKernelEx(&config, function, NULL, NULL));
}

static void launches(void)
{
	CUlaunchAttributeValue value = {.cooperative = 1};

	CHECK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL));
	launch_with(CU_LAUNCH_ATTRIBUTE_COOPERATIVE, value, 0);
	value.clusterDim.x = 2;
	value.clusterDim.y = value.clusterDim.z = 1;
	launch_with(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, value, 0);
	value.programmaticStreamSerializationAllowed = 1;
	launch_with(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, value, 0);
	value.priority = -1;
	launch_with(CU_LAUNCH_ATTRIBUTE_PRIORITY, value, 40000);
}

static void local_memory(void)
{
	CUfunction own;
	CUkernel found;
	void *params[] = {&memory};

	CHECK(cuLibraryGetKernel(&found, library, "local"));
	CHECK(cuKernelGetFunction(&own, found));
	CHECK(cuLaunchKernel(own, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL));
}

static CUfunction service;

static void load_service(const char *name)
{
	CUlibrary made;
	CUkernel found;

	CHECK(cuLibraryLoadData(&made, services, NULL, NULL, 0, NULL, NULL, 0));
	CHECK(cuLibraryGetKernel(&found, made, name));
	CHECK(cuKernelGetFunction(&service, found));
}

static void load_allocate(void)
{
	load_service("allocate");
}

static void load_print(void)
{
	load_service("print");
}

static void launch_service(void)
{
	CHECK(cuLaunchKernel(service, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
}

static void names_before_loading(void)
{
	CUkernel found, all[3];
	const char *name;
	unsigned n;

	CHECK(cuLibraryGetKernelCount(&n, fresh));
	CHECK(cuLibraryEnumerateKernels(all, 3, fresh));
	CHECK(cuKernelGetName(&name, all[0]));
	CHECK(cuLibraryGetKernel(&found, fresh, "another"));
}

static void attributes_before_loading(void)
{
	CUkernel found;
	int value = 0;

	CHECK(cuLibraryGetKernel(&found, fresh, "another"));
	for (unsigned i = 0; i < CU_FUNC_ATTRIBUTE_MAX; i++)
		(void)cuKernelGetAttribute(&value, (CUfunction_attribute)i, found, device);
}

static void parameters_before_loading(void)
{
	CUkernel found;
	size_t offset, size;

	CHECK(cuLibraryGetKernel(&found, fresh, "local"));
	CHECK(cuKernelGetParamInfo(found, 0, &offset, &size));
}

static void attribute_set_before_loading(void)
{
	CUkernel found;

	CHECK(cuLibraryGetKernel(&found, fresh, "another"));
	CHECK(cuKernelSetAttribute(
		CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 70000, found, device));
}

static void asked_after_loading(void)
{
	size_t bytes, available, total;
	int value;

	CHECK(cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 80000));
	CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&value, function, 64, 0, 0));
	CHECK(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, function, 1, 64));
	CHECK(cuMemGetInfo(&available, &total));
}

static void loading(void)
{
	CUlibrary made;
	CUkernel found;
	CUfunction own;

	CHECK(cuLibraryLoadData(&made, image, NULL, NULL, 0, NULL, NULL, 0));
	CHECK(cuLibraryGetKernel(&found, made, "another"));
	CHECK(cuKernelGetFunction(&own, found));
}

/* Other kernels of that image have been loaded. */
static void loading_further(void)
{
	CUkernel found;
	CUfunction own;

	CHECK(cuLibraryGetKernel(&found, library, "another"));
	CHECK(cuKernelGetFunction(&own, found));
}

static void compiling(void)
{
	static unsigned serial;
	char text[1024];
	CUlibrary made;
	CUkernel found;

	snprintf(text, sizeof(text),
		".version 7.0\n.target sm_75\n.address_size 64\n"
		".visible .entry k()\n{\n.reg .b32 %%r<2>;\n"
		"mov.u32 %%r1, %u;\nret;\n}\n",
		++serial);
	CHECK(cuLibraryLoadData(&made, text, NULL, NULL, 0, NULL, NULL, 0));
	CHECK(cuLibraryGetKernel(&found, made, "k"));
}

static void linking(void)
{
	CHECK(link_text(image, sizeof(image)));
}

static void variable(void)
{
	CUdeviceptr address;
	size_t size;

	CHECK(cuLibraryGetGlobal(&address, &size, fresh, "variable"));
}

static void unloading(void)
{
	CHECK(cuLibraryUnload(fresh));
	CHECK(cuLibraryLoadData(&fresh, image, NULL, NULL, 0, NULL, NULL, 0));
}

static CUmemGenericAllocationHandle create(size_t size, CUmemAllocationHandleType shared)
{
	const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = shared,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};
	CUmemGenericAllocationHandle handle;

	CHECK(cuMemCreate(&handle, size, &prop, 0));
	return handle;
}

static CUdeviceptr map(size_t size)
{
	const CUmemAccessDesc access = {
		{CU_MEM_LOCATION_TYPE_DEVICE, device}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle =
		create(size, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	CUdeviceptr address;
	int fd;

	CHECK(cuMemAddressReserve(&address, size, 0, 0, 0));
	CHECK(cuMemMap(address, size, 0, handle, 0));
	CHECK(cuMemSetAccess(address, size, &access, 1));
	CHECK(cuMemExportToShareableHandle(
		&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	close(fd);
	CHECK(cuMemRelease(handle));
	CHECK(cuMemsetD8Async(address, 1, size, stream));
	return address;
}

static void mappings(void)
{
	for (unsigned i = 0; i < MAPPINGS / TIMES; i++)
		map(2 * MIB << (i % 3));
}

static void mapping_ends(void)
{
	CUdeviceptr address = map(64 * MIB);

	CHECK(cuStreamSynchronize(stream));
	CHECK(cuMemUnmap(address, 64 * MIB));
	CHECK(cuMemAddressFree(address, 64 * MIB));
}

static void pinning(void)
{
	static uint8_t *pages;

	if (!pages)
		pages = mmap(NULL, TIMES * MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			-1, 0);
	CHECK(cuMemHostRegister(pages + turn * MIB, MIB,
		CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP));
}

static void unpinning(void)
{
	void *pages = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	CHECK(cuMemHostRegister(pages, MIB, CU_MEMHOSTREGISTER_DEVICEMAP));
	CHECK(cuMemHostUnregister(pages));
}

static void make_green(void)
{
	CUdevResourceDesc description;
	CUdevResource all, part;
	unsigned n = 1;

	CHECK(cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM));
	CHECK(cuDevSmResourceSplitByCount(&part, &n, &all, NULL, 0, 16));
	CHECK(cuDevResourceGenerateDesc(&description, &part, 1));
	CHECK(cuGreenCtxCreate(&green, description, device, CU_GREEN_CTX_DEFAULT_STREAM));
}

static void green_streams(void)
{
	CUstream made;

	for (unsigned i = 0; i < STREAMS / TIMES; i++) {
		CHECK(cuGreenCtxStreamCreate(&made, green, CU_STREAM_NON_BLOCKING, 0));
		CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, made, NULL, NULL));
		CHECK(cuStreamSynchronize(made));
		back();
	}
}

static void green_ends(void)
{
	make_green();
	CHECK(cuGreenCtxDestroy(green));
}

static void stack(void)
{
	CHECK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 2048 << (turn % 5)));
}

static void words(void)
{
	CUstreamBatchMemOpParams ops[2] = {
		{.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64, .address = memory}},
		{.waitValue = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64, .address = memory}}};

	CHECK(cuStreamWriteValue32(stream, memory, 0, 0));
	CHECK(cuStreamBatchMemOp(stream, 2, ops, 0));
}

#endif
