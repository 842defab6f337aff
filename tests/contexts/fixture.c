/* SPDX-License-Identifier: Apache-2.0 */

/* Streams, events, memory, code, parts of the GPU. The main thread of a worker process. */

#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static bool is_failed;

void need_at(CUresult result, const char *text)
{
	if (result == CUDA_SUCCESS || is_failed)
		return;
	is_failed = true;
	fprintf(stderr, "contexts: %.70s: %d\n", text, result);
}

bool fixture_failed(void)
{
	return is_failed;
}

/* ---- plain memory */

/* Larger than any struct of the driver. */
#define ZEROS_SIZE 8192

void *make_zeros(void)
{
	void *zeros = calloc(1, ZEROS_SIZE);

	if (!zeros)
		abort();
	return zeros;
}

void *make_list(unsigned long long number)
{
	void *list = make_zeros();

	memcpy(list, &number, sizeof(number));
	return list;
}

/* ---- streams, events */

static CUstream last_stream;

void fixture_begin(void)
{
	is_failed = false;
	last_stream = NULL;
	graph_forget();
}

bool streams_are_null;

CUstream make_stream(void)
{
	CUstream stream = NULL;

	if (streams_are_null)
		return NULL;
	need(api.cuStreamCreate(&stream, 0));
	last_stream = stream;
	return stream;
}

CUstream make_capture(void)
{
	CUstream stream = NULL;

	/* Another thread may end a relaxed capture. */
	need(api.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	need(api.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	last_stream = stream;
	return stream;
}

void fixture_end(void)
{
	CUgraph graph = NULL;

	if (last_stream)
		api.cuStreamEndCapture(last_stream, &graph);
}

static CUevent make_recorded(unsigned int flags)
{
	CUstream stream = NULL;
	CUevent event = NULL;

	need(api.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	need(api.cuEventCreate(&event, flags));
	need(api.cuEventRecord(event, stream));
	need(api.cuEventSynchronize(event));
	return event;
}

CUevent make_event(void)
{
	return make_recorded(CU_EVENT_DEFAULT);
}

CUevent make_shared_event(void)
{
	return make_recorded(CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS);
}

CUcontext make_context(void)
{
	CUcontext context = NULL, popped;

	need(api.cuCtxCreate_v2(&context, 0, 0));
	need(api.cuCtxPopCurrent_v2(&popped));
	return context;
}

/* ---- memory */

CUdeviceptr make_memory(void)
{
	CUdeviceptr memory = 0;

	need(api.cuMemAlloc_v2(&memory, 65536));
	/* A wait for a value of at least 0 does not end while the memory has others. */
	need(api.cuMemsetD8_v2(memory, 0, 65536));
	return memory;
}

CUdeviceptr make_managed(void)
{
	CUdeviceptr memory = 0;

	need(api.cuMemAllocManaged(&memory, 65536, CU_MEM_ATTACH_GLOBAL));
	return memory;
}

void *make_pinned(void)
{
	void *memory = NULL;

	need(api.cuMemHostAlloc(&memory, 65536, CU_MEMHOSTALLOC_DEVICEMAP));
	return memory;
}

void *make_pages(void)
{
	void *pages = mmap(NULL, CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED)
		abort();
	return pages;
}

void *make_registered(void)
{
	void *pages = make_pages();

	need(api.cuMemHostRegister_v2(pages, 65536, 0));
	return pages;
}

CUipcMemHandle *make_memory_handle(void)
{
	CUipcMemHandle *handle = make_zeros();

	need(api.cuIpcGetMemHandle(handle, make_memory()));
	return handle;
}

CUipcEventHandle *make_event_handle(void)
{
	CUipcEventHandle *handle = make_zeros();

	need(api.cuIpcGetEventHandle(handle, make_shared_event()));
	return handle;
}

char *make_bus_id(void)
{
	char *id = make_zeros();

	need(api.cuDeviceGetPCIBusId(id, 64, 0));
	return id;
}

CUmemLocation *make_location(void)
{
	CUmemLocation *location = make_zeros();

	location->type = CU_MEM_LOCATION_TYPE_DEVICE;
	return location;
}

CUmemAccessDesc *make_access(void)
{
	CUmemAccessDesc *access = make_zeros();

	access->location = *make_location();
	access->flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	return access;
}

/* ---- reserved addresses */

CUmemAllocationProp *make_allocation_prop(int handle_types)
{
	CUmemAllocationProp *prop = make_zeros();

	prop->type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop->requestedHandleTypes = handle_types;
	prop->location = *make_location();
	return prop;
}

static CUmemGenericAllocationHandle make_allocation_of(int handle_types)
{
	CUmemGenericAllocationHandle handle = 0;

	need(api.cuMemCreate(&handle, CHUNK, make_allocation_prop(handle_types), 0));
	return handle;
}

CUmemGenericAllocationHandle make_allocation(void)
{
	return make_allocation_of(0);
}

CUmemGenericAllocationHandle make_shared_allocation(void)
{
	return make_allocation_of(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
}

void *make_descriptor_of_allocation(void)
{
	int fd = -1;

	need(api.cuMemExportToShareableHandle(
		&fd, make_shared_allocation(), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	return (void *)(intptr_t)fd;
}

CUdeviceptr make_reservation(void)
{
	CUdeviceptr address = 0;

	need(api.cuMemAddressReserve(&address, CHUNK, 0, 0, 0));
	return address;
}

CUdeviceptr make_mapping(void)
{
	CUdeviceptr address = make_reservation();

	need(api.cuMemMap(address, CHUNK, 0, make_allocation(), 0));
	need(api.cuMemSetAccess(address, CHUNK, make_access(), 1));
	return address;
}

/* ---- pools */

CUmemPoolProps *make_pool_props(int handle_types)
{
	CUmemPoolProps *props = make_zeros();

	props->allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	props->handleTypes = handle_types;
	props->location = *make_location();
	return props;
}

static CUmemoryPool make_pool_of(int handle_types)
{
	CUmemoryPool pool = NULL;

	need(api.cuMemPoolCreate(&pool, make_pool_props(handle_types)));
	return pool;
}

CUmemoryPool make_pool(void)
{
	return make_pool_of(0);
}

CUmemoryPool make_shared_pool(void)
{
	return make_pool_of(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
}

void *make_descriptor_of_pool(void)
{
	int fd = -1;

	need(api.cuMemPoolExportToShareableHandle(
		&fd, make_shared_pool(), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	return (void *)(intptr_t)fd;
}

CUdeviceptr make_pool_memory(CUmemoryPool pool)
{
	CUdeviceptr memory = 0;
	CUstream stream = NULL;

	need(api.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	if (pool)
		need(api.cuMemAllocFromPoolAsync(&memory, 4096, pool, stream));
	else
		need(api.cuMemAllocAsync(&memory, 4096, stream));
	need(api.cuStreamSynchronize(stream));
	return memory;
}

CUdeviceptr make_exported_memory(void)
{
	CUmemoryPool pool = make_shared_pool();
	int fd = -1;

	need(api.cuMemPoolExportToShareableHandle(
		&fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	return make_pool_memory(pool);
}

CUmemPoolPtrExportData *make_export_of_pool(void)
{
	CUmemPoolPtrExportData *data = make_zeros();

	need(api.cuMemPoolExportPointer(data, make_exported_memory()));
	return data;
}

/* ---- code */

const char image[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
		     ".visible .global .align 4 .u32 g;\n"
		     ".visible .entry k(.param .u64 p)\n{\n\tret;\n}\n";
const size_t image_size = sizeof(image);

static const char managed_image[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
				    ".visible .global .attribute(.managed) .align 4 .u32 m;\n";

const char *path_of_image(void)
{
	static char path[64];
	int fd;

	if (path[0])
		return path;
	fd = memfd_create("image", 0);
	if (fd < 0 || write(fd, image, sizeof(image) - 1) < 0)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return path;
}

CUmodule make_module(void)
{
	CUmodule module = NULL;

	need(api.cuModuleLoadData(&module, image));
	return module;
}

CUfunction make_function(void)
{
	CUfunction function = NULL;

	need(api.cuModuleGetFunction(&function, make_module(), "k"));
	return function;
}

CUfunction make_shaped_function(void)
{
	CUfunction function = make_function();

	need(api.cuFuncSetBlockShape(function, 1, 1, 1));
	need(api.cuParamSetSize(function, 8));
	return function;
}

static CUlibrary make_library_of(const char *code)
{
	CUlibrary library = NULL;

	need(api.cuLibraryLoadData(&library, code, NULL, NULL, 0, NULL, NULL, 0));
	return library;
}

CUlibrary make_library(void)
{
	return make_library_of(image);
}

CUlibrary make_managed_library(void)
{
	return make_library_of(managed_image);
}

CUkernel make_kernel(void)
{
	CUkernel kernel = NULL;

	need(api.cuLibraryGetKernel(&kernel, make_library(), "k"));
	return kernel;
}

CUlinkState make_linker(void)
{
	CUlinkState linker = NULL;

	need(api.cuLinkCreate_v2(0, NULL, NULL, &linker));
	return linker;
}

CUlinkState make_filled_linker(void)
{
	CUlinkState linker = make_linker();

	need(api.cuLinkAddData_v2(
		linker, CU_JIT_INPUT_PTX, (void *)image, image_size, "image", 0, NULL, NULL));
	return linker;
}

void **make_kernel_arguments(void)
{
	return make_list((uintptr_t)make_zeros());
}

CUlaunchConfig *make_launch_config(void)
{
	CUlaunchConfig *config = make_zeros();

	config->gridDimX = config->gridDimY = config->gridDimZ = 1;
	config->blockDimX = config->blockDimY = config->blockDimZ = 1;
	config->hStream = make_stream();
	return config;
}

/* ---- parts of the GPU, callbacks */

CUdevResource *make_resource(void)
{
	CUdevResource *resource = make_zeros();

	need(api.cuDeviceGetDevResource(0, resource, CU_DEV_RESOURCE_TYPE_SM));
	return resource;
}

CUdevResourceDesc make_resource_desc(void)
{
	CUdevResourceDesc desc = NULL;

	need(api.cuDevResourceGenerateDesc(&desc, make_resource(), 1));
	return desc;
}

CUgreenCtx make_green(void)
{
	CUgreenCtx green = NULL;

	need(api.cuGreenCtxCreate(&green, make_resource_desc(), 0, CU_GREEN_CTX_DEFAULT_STREAM));
	return green;
}

void do_nothing(void *data)
{
	(void)data;
}

void do_nothing_in_stream(CUstream stream, CUresult result, void *data)
{
	(void)stream, (void)result, (void)data;
}

void do_nothing_async(CUasyncNotificationInfo *info, void *data, CUasyncCallbackHandle handle)
{
	(void)info, (void)data, (void)handle;
}

void do_nothing_with_log(void *data, CUlogLevel level, char *message, size_t length)
{
	(void)data, (void)level, (void)message, (void)length;
}

CUasyncCallbackHandle make_async_callback(void)
{
	CUasyncCallbackHandle handle = NULL;

	need(api.cuDeviceRegisterAsyncNotification(0, do_nothing_async, NULL, &handle));
	return handle;
}

CUlogsCallbackHandle make_log_callback(void)
{
	CUlogsCallbackHandle handle = NULL;

	need(api.cuLogsRegisterCallback(do_nothing_with_log, NULL, &handle));
	return handle;
}

CUuserObject make_user_object(void)
{
	CUuserObject object = NULL;

	need(api.cuUserObjectCreate(
		&object, NULL, do_nothing, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
	return object;
}
