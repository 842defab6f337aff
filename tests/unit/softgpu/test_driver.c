/* SPDX-License-Identifier: Apache-2.0 */
/* The software GPU: devices, contexts, and the switches of tests. */

#include <elf.h>
#include <pthread.h>
#include <sys/mman.h>

#include "softgpu_child.h"

/* ---- devices and contexts */

static void devices_child(void)
{
	CUdevice device;
	CUuuid uuid, uuid2;
	char name[64], bus[16];
	size_t total;
	int n, value;

	EXPECT(CUDA_ERROR_NOT_INITIALIZED, CU(cuDeviceGetCount)(&n));
	EXPECT(CUDA_ERROR_INVALID_VALUE, CU(cuInit)(1));
	OK(CU(cuInit)(0));
	OK(CU(cuDeviceGetCount)(&n));
	CHECK(n == 2);
	OK(CU(cuDriverGetVersion)(&n));
	CHECK(n == 13000);
	OK(CU(cuDeviceGet)(&device, 1));
	EXPECT(CUDA_ERROR_INVALID_DEVICE, CU(cuDeviceGet)(&device, 2));
	OK(CU(cuDeviceGetName)(name, sizeof(name), device));
	CHECK(strcmp(name, "Software GPU") == 0);
	OK(CU(cuDeviceTotalMem)(&total, device));
	CHECK(total == 512 * MIB);
	OK(CU(cuDeviceGetUuid)(&uuid, 0));
	OK(CU(cuDeviceGetUuid)(&uuid2, 1));
	CHECK(memcmp(&uuid, &uuid2, sizeof(uuid)) != 0);
	OK(CU(cuDeviceGetPCIBusId)(bus, sizeof(bus), 1));
	OK(CU(cuDeviceGetByPCIBusId)(&device, bus));
	CHECK(device == 1);
	for (int i = 1; i <= 143; i++)
		OK(CU(cuDeviceGetAttribute)(&value, (CUdevice_attribute)i, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, CU(cuDeviceGetAttribute)(&value, 4711, 0));
}
CHILD(devices, "SOFTGPU_DEVICES=2", "SOFTGPU_MEMORY_MIB=512")

static void no_device_child(void)
{
	EXPECT(CUDA_ERROR_NO_DEVICE, CU(cuInit)(0));
}
CHILD(no_device, "SOFTGPU_DEVICES=0")
static void hidden_devices(void **state)
{
	(void)state;
	in_child(no_device_child, "CUDA_VISIBLE_DEVICES=", (char *)NULL);
}

static void visible_child(void)
{
	CUuuid uuid;
	int n;

	OK(CU(cuInit)(0));
	OK(CU(cuDeviceGetCount)(&n));
	CHECK(n == 2);
	OK(CU(cuDeviceGetUuid)(&uuid, 0));
	CHECK(uuid.bytes[15] == 2);
	OK(CU(cuDeviceGetUuid)(&uuid, 1));
	CHECK(uuid.bytes[15] == 0);
}
static void visible(void **state)
{
	(void)state;
	in_child(visible_child, "SOFTGPU_DEVICES=3", "CUDA_VISIBLE_DEVICES=2,0,7,1", (char *)NULL);
	in_child(visible_child, "SOFTGPU_DEVICES=3",
		"CUDA_VISIBLE_DEVICES=GPU-536f6674-4750-5580-8001-000000000002,0", (char *)NULL);
}

static void old_driver_child(void)
{
	int version;

	OK(CU(cuDriverGetVersion)(&version));
	CHECK(version == 12040);
}
CHILD(old_driver, "SOFTGPU_DRIVER_VERSION=12040")

static void prohibited_child(void)
{
	CUcontext context;
	int mode;

	OK(CU(cuInit)(0));
	OK(CU(cuDeviceGetAttribute)(&mode, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, 0));
	CHECK(mode == CU_COMPUTEMODE_PROHIBITED);
	EXPECT(CUDA_ERROR_DEVICE_UNAVAILABLE, CU(cuDevicePrimaryCtxRetain)(&context, 0));
	EXPECT(CUDA_ERROR_DEVICE_UNAVAILABLE, CU(cuCtxCreate)(&context, NULL, 0, 0));
}
CHILD(prohibited, "SOFTGPU_COMPUTE_MODE=prohibited")

static void exclusive_child(void)
{
	CUcontext context;
	int status;
	pid_t pid;

	pid = fork();
	if (pid == 0) {
		context_open();
		kill(getpid(), SIGSTOP);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
	OK(CU(cuInit)(0));
	EXPECT(CUDA_ERROR_DEVICE_UNAVAILABLE, CU(cuDevicePrimaryCtxRetain)(&context, 0));
	kill(pid, SIGCONT);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	OK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
}
static void exclusive(void **state)
{
	char dir[] = "/tmp/softgpu-XXXXXX", setting[64], path[64];

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(setting, sizeof(setting), "SOFTGPU_DIR=%s", dir);
	in_child(exclusive_child, "SOFTGPU_COMPUTE_MODE=exclusive", setting, (char *)NULL);
	snprintf(path, sizeof(path), "%s/softgpu-0.lock", dir);
	unlink(path);
	rmdir(dir);
}

static void contexts_child(void)
{
	CUcontext primary, made, current;
	CUdeviceptr p;
	CUdevice device;
	unsigned version, flags;
	int active;

	OK(CU(cuInit)(0));
	OK(CU(cuCtxGetCurrent)(&current));
	CHECK(!current);
	EXPECT(CUDA_ERROR_INVALID_CONTEXT, CU(cuMemAlloc)(&p, 64));
	EXPECT(CUDA_ERROR_INVALID_CONTEXT, CU(cuCtxGetDevice)(&device));
	OK(CU(cuDevicePrimaryCtxRetain)(&primary, 0));
	OK(CU(cuDevicePrimaryCtxGetState)(0, &flags, &active));
	CHECK(active == 1);
	OK(CU(cuCtxSetCurrent)(primary));
	OK(CU(cuMemAlloc)(&p, 64));
	OK(CU(cuCtxGetApiVersion)(primary, &version));
	CHECK(version >= 3020);
	OK(CU(cuCtxCreate)(&made, NULL, 0, 0));
	OK(CU(cuCtxGetCurrent)(&current));
	CHECK(current == made && made != primary);
	OK(CU(cuCtxDestroy)(made));
	OK(CU(cuCtxGetCurrent)(&current));
	CHECK(current == primary);
	OK(CU(cuDevicePrimaryCtxRelease)(0));
	OK(CU(cuCtxGetCurrent)(&current));
	CHECK(current == primary);
	EXPECT(CUDA_ERROR_INVALID_CONTEXT, CU(cuCtxGetApiVersion)(primary, &version));
	EXPECT(CUDA_ERROR_CONTEXT_IS_DESTROYED, CU(cuMemAlloc)(&p, 64));
	OK(CU(cuDevicePrimaryCtxRetain)(&current, 0));
	CHECK(current == primary);
	OK(CU(cuMemAlloc)(&p, 64));
	OK(CU(cuCtxPopCurrent)(&current));
	EXPECT(CUDA_ERROR_INVALID_CONTEXT, CU(cuCtxPopCurrent)(&current));
}
CHILD(contexts)

static void deep_stack_child(void)
{
	CUcontext primary, made, popped;

	context_open();
	OK(CU(cuCtxGetCurrent)(&primary));
	for (int i = 0; i < 1000; i++)
		OK(CU(cuCtxPushCurrent)(primary));
	OK(CU(cuCtxCreate)(&made, NULL, 0, 0));
	OK(CU(cuCtxPopCurrent)(&popped));
	CHECK(popped == made);
	for (int i = 0; i <= 1000; i++) {
		OK(CU(cuCtxPopCurrent)(&popped));
		CHECK(popped == primary);
	}
	EXPECT(CUDA_ERROR_INVALID_CONTEXT, CU(cuCtxPopCurrent)(&popped));
}
CHILD(deep_stack)

/* ---- functions that are not served */

static void absent_child(void)
{
	CUdriverProcAddressQueryResult status;
	void *address;

	EXPECT(CUDA_ERROR_NOT_INITIALIZED, CU(cuDeviceGetNvSciSyncAttributes)(NULL, 0, 0));
	OK(CU(cuInit)(0));
	EXPECT(CUDA_ERROR_NOT_SUPPORTED, CU(cuDeviceGetNvSciSyncAttributes)(NULL, 0, 0));
	OK(CU(cuGetProcAddress)("cuDeviceGetNvSciSyncAttributes", &address, 13000, 0, &status));
	CHECK(address == (void *)CU(cuDeviceGetNvSciSyncAttributes));
	CHECK(status == CU_GET_PROC_ADDRESS_SUCCESS);
}
CHILD(absent)

/* ---- switches and the leak count */

static void fail_switch_child(void)
{
	CUmemAllocationProp prop = prop_device();
	CUmemGenericAllocationHandle handle;
	CUdeviceptr p;
	CUstream stream;

	context_open();
	OK(CU(cuMemCreate)(&handle, 2 * MIB, &prop, 0));
	OK(CU(cuMemCreate)(&handle, 2 * MIB, &prop, 0));
	EXPECT(CUDA_ERROR_OUT_OF_MEMORY, CU(cuMemCreate)(&handle, 2 * MIB, &prop, 0));
	OK(CU(cuMemCreate)(&handle, 2 * MIB, &prop, 0));
	OK(CU(cuMemAlloc)(&p, 64));
	EXPECT(CUDA_ERROR_LAUNCH_FAILED, CU(cuStreamCreate)(&stream, 0));
	EXPECT(CUDA_ERROR_LAUNCH_FAILED, CU(cuMemAlloc)(&p, 64));
}
CHILD(fail_switch, "SOFTGPU_FAIL=cuMemCreate:3=2,cuStreamCreate:1=719")

static void fail_any_child(void)
{
	int n;

	OK(CU(cuInit)(0));
	OK(CU(cuDeviceGetCount)(&n));
	EXPECT(CUDA_ERROR_UNKNOWN, CU(cuDeviceGetCount)(&n));
	OK(CU(cuDeviceGetCount)(&n));
}
CHILD(fail_any, "SOFTGPU_FAIL=*:3=999")

static long stat_of(const char *name)
{
	char line[128];
	long value = -1;
	size_t len = strlen(name);
	FILE *file = fopen(getenv("SOFTGPU_STATS"), "re");

	CHECK(file);
	while (fgets(line, sizeof(line), file))
		if (strncmp(line, name, len) == 0 && line[len] == ' ')
			value = strtol(line + len, NULL, 10);
	fclose(file);
	return value;
}

static void leak_count_child(void)
{
	CUmemAllocationProp prop = prop_device();
	CUmemGenericAllocationHandle handle;
	CUdeviceptr p, q;
	CUstream stream;
	CUevent event;
	CUlibrary lib;

	context_open();
	CHECK(stat_of("contexts") == 1 && stat_of("streams") == 0);
	stream = stream_new(0);
	OK(CU(cuEventCreate)(&event, 0));
	OK(CU(cuEventRecord)(event, stream));
	lib = library_load();
	OK(CU(cuMemAlloc)(&p, 1000));
	OK(CU(cuMemAddressReserve)(&q, 8 * MIB, 0, 0, 0));
	OK(CU(cuMemCreate)(&handle, 4 * MIB, &prop, 0));
	OK(CU(cuMemMap)(q, 4 * MIB, 0, handle, 0));
	OK(CU(cuMemRelease)(handle));
	CHECK(stat_of("streams") == 1 && stat_of("events") == 1 && stat_of("libraries") == 1);
	CHECK(stat_of("reservations") == 1 && stat_of("reserved_bytes") == (long)(8 * MIB));
	CHECK(stat_of("mapped_bytes") == (long)(4 * MIB) && stat_of("threads") == 1);
	CHECK(stat_of("device_bytes") == (long)(4 * MIB) + 1024 && stat_of("allocations") == 2);
	OK(CU(cuMemUnmap)(q, 4 * MIB));
	OK(CU(cuMemAddressFree)(q, 8 * MIB));
	OK(CU(cuMemFree)(p));
	OK(CU(cuLibraryUnload)(lib));
	OK(CU(cuEventDestroy)(event));
	OK(CU(cuStreamDestroy)(stream));
	OK(CU(cuDevicePrimaryCtxRelease)(0));
	for (int i = 0; i < 10000 && stat_of("threads") > 0; i++)
		usleep(1000);
	CHECK(stat_of("contexts") == 0 && stat_of("streams") == 0 && stat_of("events") == 0);
	CHECK(stat_of("libraries") == 0 && stat_of("modules") == 0 && stat_of("mappings") == 0);
	CHECK(stat_of("reservations") == 0 && stat_of("allocations") == 0);
	CHECK(stat_of("device_bytes") == 0 && stat_of("threads") == 0);
}
static void leak_count(void **state)
{
	char path[] = "/tmp/softgpu-stats-XXXXXX", setting[64];
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	snprintf(setting, sizeof(setting), "SOFTGPU_STATS=%s", path);
	in_child(leak_count_child, setting, (char *)NULL);
	unlink(path);
}

static void forked_child(void)
{
	CUdeviceptr p;
	int status, n;
	pid_t pid;

	context_open();
	OK(CU(cuMemAlloc)(&p, 64));
	pid = fork();
	if (pid == 0) {
		EXPECT(CUDA_ERROR_NOT_INITIALIZED, CU(cuMemAlloc)(&p, 64));
		EXPECT(CUDA_ERROR_NOT_INITIALIZED, CU(cuDeviceGetCount)(&n));
		EXPECT(CUDA_ERROR_NOT_INITIALIZED, CU(cuInit)(0));
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	OK(CU(cuMemFree)(p));
}
CHILD(forked)

static void procs_child(void)
{
	CUdriverProcAddressQueryResult status;
	const char *text;
	void *p;

	OK(CU(cuGetProcAddress)("", &p, 0, 0, NULL));
	CHECK(!p);
	OK(CU(cuGetProcAddress)("cuMemAlloc", &p, 13000, 0, &status));
	CHECK(p == function("cuMemAlloc_v2") && status == CU_GET_PROC_ADDRESS_SUCCESS);
	OK(CU(cuGetProcAddress)(
		"cuMemcpyHtoD", &p, 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &status));
	CHECK(p == function("cuMemcpyHtoD_v2_ptds"));
	OK(CU(cuGetProcAddress)("cuStreamGetCtx", &p, 12000, 0, &status));
	CHECK(p == function("cuStreamGetCtx"));
	OK(CU(cuGetProcAddress)("cuLibraryLoadData", &p, 11000, 0, &status));
	CHECK(!p && status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
	OK(CU(cuGetProcAddress)("cuMemAlloc_v2", &p, 13000, 0, &status));
	CHECK(!p && status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	EXPECT(CUDA_ERROR_INVALID_VALUE, CU(cuGetProcAddress)("cuInit", &p, 99000, 0, &status));
	OK(CU(cuGetErrorName)(CUDA_ERROR_ILLEGAL_ADDRESS, &text));
	CHECK(strcmp(text, "CUDA_ERROR_ILLEGAL_ADDRESS") == 0);
	OK(CU(cuGetErrorString)(CUDA_ERROR_OUT_OF_MEMORY, &text));
	CHECK(strcmp(text, "out of memory") == 0);
	EXPECT(CUDA_ERROR_INVALID_VALUE, CU(cuGetErrorString)((CUresult)4711, &text));
}
CHILD(procs)

/* Many threads with a stream each: every piece of work is done, in order. */
static void *hammer(void *arg)
{
	CUcontext context = arg;
	CUstream stream;
	CUdeviceptr p;
	CUevent event;
	unsigned value = 0;

	OK(CU(cuCtxSetCurrent)(context));
	OK(CU(cuMemAlloc)(&p, 4096));
	stream = stream_new(CU_STREAM_NON_BLOCKING);
	OK(CU(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING));
	for (unsigned i = 1; i <= 50; i++) {
		OK(CU(cuMemsetD32Async)(p, i, 1024, stream));
		OK(CU(cuEventRecord)(event, stream));
		OK(CU(cuMemcpyDtoHAsync)(&value, p + 4092, 4, stream));
		CHECK(value == i);
		OK(CU(cuEventSynchronize)(event));
	}
	OK(CU(cuMemcpyDtoH)(&value, p, 4));
	CHECK(value == 50);
	OK(CU(cuEventDestroy)(event));
	OK(CU(cuStreamDestroy)(stream));
	OK(CU(cuMemFree)(p));
	return NULL;
}

static void threads_child(void)
{
	enum {
		N = 8
	};
	CUcontext context = context_open();
	pthread_t threads[N];

	for (int i = 0; i < N; i++)
		CHECK(pthread_create(&threads[i], NULL, hammer, context) == 0);
	for (int i = 0; i < N; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	OK(CU(cuCtxSynchronize)());
}
CHILD(threads)

/* After a context's reset its work does not wait for ever, as it may on a GPU, and is not done. */
static void reset_child(void)
{
	CUstream stream;
	uint64_t *words;
	CUdeviceptr p;

	context_open();
	words = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	OK(CU(cuMemHostRegister)(words, 4096, 0));
	stream = stream_new(0);
	OK(CU(cuMemAlloc)(&p, 64));
	OK(CU(cuStreamWaitValue64)(stream, device_of(&words[0]), 1, CU_STREAM_WAIT_VALUE_GEQ));
	OK(CU(cuStreamWriteValue64)(stream, device_of(&words[1]), 1, 0));
	OK(CU(cuDevicePrimaryCtxReset)(0));
	CHECK(load(&words[1]) == 0);
	EXPECT(CUDA_ERROR_CONTEXT_IS_DESTROYED, CU(cuStreamSynchronize)(NULL));
	context_open();
	EXPECT(CUDA_ERROR_INVALID_HANDLE, CU(cuStreamSynchronize)(stream));
	EXPECT(CUDA_ERROR_INVALID_VALUE, CU(cuMemFree)(p));
}
CHILD(reset)

/* Two devices: a library has variables on each; copies and events work across devices. */
static void peers_child(void)
{
	CUcontext contexts[2], owner;
	CUdeviceptr p[2], counter[2];
	CUstream streams[2];
	CUlibrary lib = NULL;
	CUevent event;
	unsigned value = 99;
	int can, ordinal;

	OK(CU(cuInit)(0));
	OK(CU(cuDeviceCanAccessPeer)(&can, 0, 1));
	CHECK(can == 1);
	for (int i = 0; i < 2; i++) {
		OK(CU(cuDevicePrimaryCtxRetain)(&contexts[i], i));
		OK(CU(cuCtxSetCurrent)(contexts[i]));
		OK(CU(cuMemAlloc)(&p[i], 64));
		OK(CU(cuMemsetD32)(p[i], (unsigned)i + 1, 16));
		streams[i] = stream_new(CU_STREAM_NON_BLOCKING);
		lib = lib ? lib : library_load();
		OK(CU(cuLibraryGetGlobal)(&counter[i], NULL, lib, "counter"));
		OK(CU(cuCtxSynchronize)());
	}
	CHECK(counter[0] != counter[1]);
	OK(CU(cuPointerGetAttribute)(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, counter[1]));
	CHECK(ordinal == 1);
	OK(CU(cuPointerGetAttribute)(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, p[0]));
	CHECK(owner == contexts[0]);
	OK(CU(cuCtxSetCurrent)(contexts[0]));
	OK(CU(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING));
	OK(CU(cuMemsetD32Async)(p[0], 7, 16, streams[0]));
	OK(CU(cuEventRecord)(event, streams[0]));
	OK(CU(cuStreamWaitEvent)(streams[1], event, 0));
	OK(CU(cuMemcpyPeerAsync)(p[1], contexts[1], p[0], contexts[0], 64, streams[1]));
	OK(CU(cuStreamSynchronize)(streams[1]));
	OK(CU(cuMemcpyDtoH)(&value, p[1] + 60, 4));
	CHECK(value == 7);
	OK(CU(cuDevicePrimaryCtxRelease)(1));
	OK(CU(cuMemcpyDtoH)(&value, counter[0], 4));
	CHECK(value == 41);
	EXPECT(CUDA_ERROR_INVALID_VALUE, CU(cuMemcpyDtoH)(&value, counter[1], 4));
}
CHILD(peers, "SOFTGPU_DEVICES=2")

/* Where the last process had its variable. */
static CUdeviceptr *seen;

/* Also with the same layout of addresses, which a fork has. */
static void variables_child(void)
{
	CUdeviceptr counter;

	context_open();
	OK(CU(cuLibraryGetGlobal)(&counter, NULL, library_load(), "counter"));
	CHECK(counter != *seen);
	*seen = counter;
}

static void variables(void **state)
{
	(void)state;
	seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(seen, MAP_FAILED);
	in_child(variables_child, (char *)NULL);
	in_child(variables_child, (char *)NULL);
	munmap(seen, sizeof(*seen));
}

/* The error log names the architecture of machine code, which the software GPU cannot run. */
static void machine_code_child(void)
{
	static Elf64_Ehdr cubin = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3},
		.e_machine = EM_CUDA,
		.e_flags = 75 << 8};
	CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
	char log[256] = "";
	void *values[] = {log, (void *)(uintptr_t)sizeof(log)};
	CUmodule module;

	context_open();
	cubin.e_ident[EI_ABIVERSION] = 8;
	EXPECT(CUDA_ERROR_NO_BINARY_FOR_GPU,
		CU(cuModuleLoadDataEx)(&module, &cubin, 2, options, values));
	CHECK(strstr(log, "sm_75 machine code"));
}
CHILD(machine_code)

/* count: adds 1 to *p, waits for the grid, and stores *p behind it, for each block. */
static const char grid_image[] =
	".version 8.0\n.target sm_90\n.address_size 64\n"
	".extern .func (.param .b64 r) cudaCGGetIntrinsicHandle(.param .b32 a);\n"
	".extern .func (.param .b32 r) cudaCGSynchronize(.param .b64 a, .param .b32 b);\n"
	".visible .entry count(.param .u64 p)\n{\n"
	".reg .b32 %r<8>; .reg .b64 %d<8>;\n"
	".param .b32 scope; .param .b64 handle; .param .b64 grid; .param .b32 flags; "
	".param .b32 result;\n"
	"ld.param.u64 %d1, [p]; atom.global.add.u32 %r1, [%d1], 1;\n"
	"st.param.b32 [scope], 1; call.uni (handle), cudaCGGetIntrinsicHandle, (scope);\n"
	"ld.param.b64 %d2, [handle]; st.param.b64 [grid], %d2; st.param.b32 [flags], 0;\n"
	"call.uni (result), cudaCGSynchronize, (grid, flags);\n"
	"ld.param.b32 %r2, [result]; ld.volatile.global.u32 %r3, [%d1]; add.s32 %r3, %r3, %r2;\n"
	"mov.u32 %r4, %ctaid.x; mad.wide.u32 %d3, %r4, 4, %d1; st.global.u32 [%d3+4], %r3;\n"
	"ret;\n}\n";

/* Barriers of a grid are in the device runtime, an archive with machine code. */
static void grid_barrier_child(void)
{
	static char archive[] = "!<arch>\ncuda_device_runtime.o/", other[] = "!<arch>\nmine.o/";
	enum {
		BLOCKS = 40
	};
	uint32_t words[BLOCKS + 1] = {0};
	CUlinkState linker;
	CUfunction count;
	CUdeviceptr p;
	CUmodule module;
	void *params[] = {&p}, *cubin;

	context_open();
	OK(CU(cuLinkCreate_v2)(0, NULL, NULL, &linker));
	OK(CU(cuLinkAddData_v2)(linker, CU_JIT_INPUT_PTX, (void *)grid_image, sizeof(grid_image),
		"count", 0, NULL, NULL));
	EXPECT(CUDA_ERROR_NOT_SUPPORTED, CU(cuLinkAddData_v2)(linker, CU_JIT_INPUT_LIBRARY, other,
						 sizeof(other), "mine", 0, NULL, NULL));
	OK(CU(cuLinkAddData_v2)(linker, CU_JIT_INPUT_LIBRARY, archive, sizeof(archive), "cudadevrt",
		0, NULL, NULL));
	OK(CU(cuLinkComplete)(linker, &cubin, NULL));
	OK(CU(cuModuleLoadData)(&module, cubin));
	OK(CU(cuLinkDestroy)(linker));
	OK(CU(cuModuleGetFunction)(&count, module, "count"));
	OK(CU(cuMemAlloc)(&p, sizeof(words)));
	OK(CU(cuMemcpyHtoD)(p, words, sizeof(words)));
	OK(CU(cuLaunchCooperativeKernel)(count, BLOCKS, 1, 1, 1, 1, 1, 0, NULL, params));
	OK(CU(cuMemcpyDtoH)(words, p, sizeof(words)));
	for (unsigned i = 0; i <= BLOCKS; i++)
		CHECK(words[i] == BLOCKS);
}
CHILD(grid_barrier)

static int attribute_of(CUmodule module, const char *name, CUfunction_attribute attribute)
{
	CUfunction found;
	int value;

	OK(CU(cuModuleGetFunction)(&found, module, name));
	OK(CU(cuFuncGetAttribute)(&value, attribute, found));
	return value;
}

/* Registers are limited by the text, the linker and the loader; a module's constants count. */
static void attributes_child(void)
{
	static const char text[] =
		".version 8.0\n.target sm_90\n.address_size 64\n"
		".const .align 4 .b8 a[5]; .const .align 8 .b8 b[100]; .global .b8 c[50];\n"
		".visible .entry few() .maxnreg 8 { ret; }\n.visible .entry many() { ret; }\n";
	CUjit_option option = CU_JIT_MAX_REGISTERS;
	void *value = (void *)9, *cubin;
	CUlinkState linker;
	CUmodule module;

	context_open();
	OK(CU(cuModuleLoadData)(&module, text));
	CHECK(attribute_of(module, "few", CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES) == 108);
	CHECK(attribute_of(module, "few", CU_FUNC_ATTRIBUTE_NUM_REGS) == 8);
	CHECK(attribute_of(module, "many", CU_FUNC_ATTRIBUTE_NUM_REGS) > 9);
	OK(CU(cuModuleLoadDataEx)(&module, text, 1, &option, &value));
	CHECK(attribute_of(module, "few", CU_FUNC_ATTRIBUTE_NUM_REGS) == 8);
	CHECK(attribute_of(module, "many", CU_FUNC_ATTRIBUTE_NUM_REGS) == 9);
	OK(CU(cuLinkCreate_v2)(1, &option, &value, &linker));
	value = NULL;
	OK(CU(cuLinkAddData_v2)(
		linker, CU_JIT_INPUT_PTX, (void *)text, sizeof(text), "text", 0, NULL, NULL));
	OK(CU(cuLinkComplete)(linker, &cubin, NULL));
	OK(CU(cuModuleLoadData)(&module, cubin));
	CHECK(attribute_of(module, "many", CU_FUNC_ATTRIBUTE_NUM_REGS) == 9);
	OK(CU(cuLinkDestroy)(linker));
}
CHILD(attributes)

static CUtexObject texture_of(CUarray array)
{
	CUDA_RESOURCE_DESC resource = {
		.resType = CU_RESOURCE_TYPE_ARRAY, .res.array.hArray = array};
	CUDA_TEXTURE_DESC sampler = {.filterMode = CU_TR_FILTER_MODE_POINT};
	CUtexObject texture;

	OK(CU(cuTexObjectCreate)(&texture, &resource, &sampler, NULL));
	return texture;
}

/*
 * Values of textures are numbers that come again: textures that are made in the same order have
 * the same values, and a later one has that of one that has ended.
 */
static void texture_values_child(void)
{
	CUDA_ARRAY_DESCRIPTOR shape = {16, 16, CU_AD_FORMAT_UNSIGNED_INT8, 1};
	CUtexObject first, second;
	CUarray array;

	context_open();
	OK(CU(cuArrayCreate)(&array, &shape));
	first = texture_of(array);
	second = texture_of(array);
	CHECK(second == first + 1);
	OK(CU(cuTexObjectDestroy)(first));
	CHECK(texture_of(array) == first);
	OK(CU(cuTexObjectDestroy)(second));
	OK(CU(cuTexObjectDestroy)(first));
	CHECK(texture_of(array) == first && texture_of(array) == second);
}
CHILD(texture_values)

/* Wrong handles are errors here; the driver may crash. */
static void handles_child(void)
{
	static const char elf[64] = "\177ELF\2\1\1";
	CUcontext current;
	CUstream stream;
	CUevent event;
	CUlibrary lib;
	CUfunction poke;
	CUdeviceptr p;
	CUmodule module;
	void *params[] = {&p};
	int local;

	context_open();
	OK(CU(cuMemAlloc)(&p, 64));
	stream = stream_new(0);
	OK(CU(cuEventCreate)(&event, 0));
	lib = library_load();
	poke = kernel_get(lib, "poke");
	OK(CU(cuStreamDestroy)(stream));
	OK(CU(cuEventDestroy)(event));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, CU(cuStreamQuery)(stream));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, CU(cuStreamDestroy)(stream));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, CU(cuEventQuery)(event));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, CU(cuMemsetD8Async)(p, 0, 4, (CUstream)&local));
	EXPECT(CUDA_ERROR_INVALID_CONTEXT, CU(cuCtxSetCurrent)((CUcontext)&local));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, launch((CUfunction)&local, 1, 32, NULL, params));
	OK(CU(cuLibraryUnload)(lib));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, launch(poke, 1, 32, NULL, params));
	EXPECT(CUDA_ERROR_NO_BINARY_FOR_GPU, CU(cuModuleLoadData)(&module, elf));
	OK(CU(cuCtxGetCurrent)(&current));
}
CHILD(handles)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(devices),
		cmocka_unit_test(no_device),
		cmocka_unit_test(hidden_devices),
		cmocka_unit_test(visible),
		cmocka_unit_test(old_driver),
		cmocka_unit_test(prohibited),
		cmocka_unit_test(exclusive),
		cmocka_unit_test(contexts),
		cmocka_unit_test(deep_stack),
		cmocka_unit_test(absent),
		cmocka_unit_test(reset),
		cmocka_unit_test(peers),
		cmocka_unit_test(variables),
		cmocka_unit_test(machine_code),
		cmocka_unit_test(grid_barrier),
		cmocka_unit_test(attributes),
		cmocka_unit_test(texture_values),
		cmocka_unit_test(handles),
		cmocka_unit_test(fail_switch),
		cmocka_unit_test(fail_any),
		cmocka_unit_test(leak_count),
		cmocka_unit_test(forked),
		cmocka_unit_test(procs),
		cmocka_unit_test(threads),
	};

	return library_find(argc, argv) ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
