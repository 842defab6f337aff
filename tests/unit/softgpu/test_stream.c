/* SPDX-License-Identifier: Apache-2.0 */
/* The software GPU: streams, events, memory operations, kernels and faults. */

#include "softgpu_child.h"

/* ---- streams */

static void streams_child(void)
{
	CUstream a, b;
	CUevent event, later;
	uint64_t *words;
	int priority;
	float ms;

	context_open();
	words = words_new(4);
	a = stream_new(CU_STREAM_NON_BLOCKING);
	OK(CU(cuStreamCreateWithPriority)(&b, CU_STREAM_NON_BLOCKING, -99));
	OK(CU(cuStreamGetPriority)(b, &priority));
	CHECK(priority == -5);
	OK(CU(cuEventCreate)(&event, 0));
	OK(CU(cuEventCreate)(&later, 0));
	OK(CU(cuEventQuery)(event));
	OK(CU(cuStreamWaitEvent)(b, event, 0)); /* never recorded: no wait */

	/* a waits for the host, b for a's event. */
	OK(CU(cuStreamWaitValue64)(a, device_of(&words[0]), 5, CU_STREAM_WAIT_VALUE_GEQ));
	OK(CU(cuStreamWriteValue64)(a, device_of(&words[1]), 1, 0));
	OK(CU(cuEventRecord)(event, a));
	OK(CU(cuStreamWaitEvent)(b, event, 0));
	OK(CU(cuStreamWriteValue64)(b, device_of(&words[2]), 2, 0));
	OK(CU(cuEventRecord)(later, b));
	EXPECT(CUDA_ERROR_NOT_READY, CU(cuStreamQuery)(a));
	EXPECT(CUDA_ERROR_NOT_READY, CU(cuEventQuery)(event));
	EXPECT(CUDA_ERROR_NOT_READY, CU(cuEventElapsedTime)(&ms, event, later));
	usleep(20000);
	CHECK(load(&words[1]) == 0 && load(&words[2]) == 0);
	store(&words[0], 4);
	usleep(5000);
	CHECK(load(&words[1]) == 0);
	store(&words[0], 6);
	OK(CU(cuEventSynchronize)(later));
	CHECK(load(&words[1]) == 1 && load(&words[2]) == 2);
	OK(CU(cuStreamSynchronize)(a));
	OK(CU(cuStreamQuery)(a));
	OK(CU(cuEventElapsedTime)(&ms, event, later));
	CHECK(ms >= 0 && ms < 30000);
	EXPECT(CUDA_ERROR_INVALID_VALUE,
		CU(cuStreamWriteValue64)(a, device_of(&words[0]) + 4, 0, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, CU(cuStreamWriteValue64)(a, device_of(&ms) & ~7ull, 0, 0));
	OK(CU(cuStreamDestroy)(a));
	OK(CU(cuStreamDestroy)(b));
	OK(CU(cuEventDestroy)(event));
}
CHILD(streams)

/* The legacy default stream and blocking streams wait for each other; other streams do not. */
static void default_stream_child(void)
{
	CUstream blocking, other, free_one;
	uint64_t *words;

	context_open();
	words = words_new(8);
	blocking = stream_new(0);
	other = stream_new(0);
	free_one = stream_new(CU_STREAM_NON_BLOCKING);
	OK(CU(cuStreamWaitValue64)(blocking, device_of(&words[0]), 1, CU_STREAM_WAIT_VALUE_GEQ));
	OK(CU(cuStreamWriteValue64)(NULL, device_of(&words[1]), 1, 0));
	OK(CU(cuStreamWriteValue64)(other, device_of(&words[2]), 1, 0));
	OK(CU(cuStreamWriteValue64)(free_one, device_of(&words[3]), 1, 0));
	OK(CU(cuStreamSynchronize)(free_one));
	CHECK(load(&words[3]) == 1);
	EXPECT(CUDA_ERROR_NOT_READY, CU(cuStreamQuery)(NULL));
	usleep(20000);
	CHECK(load(&words[1]) == 0 && load(&words[2]) == 0);
	store(&words[0], 1);
	OK(CU(cuStreamSynchronize)(other));
	CHECK(load(&words[1]) == 1 && load(&words[2]) == 1);

	/* Synchronising the default stream waits for blocking streams without its work. */
	OK(CU(cuStreamWaitValue64)(blocking, device_of(&words[4]), 1, CU_STREAM_WAIT_VALUE_EQ));
	EXPECT(CUDA_ERROR_NOT_READY, CU(cuStreamQuery)(NULL));
	OK(CU(cuStreamWriteValue64)(blocking, device_of(&words[5]), 1, 0));
	store(&words[4], 1);
	OK(CU(cuStreamSynchronize)(NULL));
	CHECK(load(&words[5]) == 1);
	OK(CU(cuCtxSynchronize)());
}
CHILD(default_stream)

static uint64_t *called_word;
static CUresult called_inside;

static void CUDA_CB on_host(void *user)
{
	CUdeviceptr p;

	called_inside = CU(cuMemAlloc)(&p, 16);
	store(called_word, (uintptr_t)user);
}

static void CUDA_CB on_stream(CUstream stream, CUresult status, void *user)
{
	(void)stream;
	store(called_word, status == CUDA_SUCCESS ? (uintptr_t)user : 0);
}

static void host_functions_child(void)
{
	CUstream stream;

	context_open();
	called_word = words_new(1);
	stream = stream_new(0);
	OK(CU(cuLaunchHostFunc)(stream, on_host, (void *)7));
	OK(CU(cuStreamSynchronize)(stream));
	CHECK(load(called_word) == 7);
	CHECK(called_inside == CUDA_ERROR_NOT_PERMITTED);
	OK(CU(cuStreamAddCallback)(stream, on_stream, (void *)8, 0));
	OK(CU(cuStreamSynchronize)(stream));
	CHECK(load(called_word) == 8);
}
CHILD(host_functions)

/* Per-thread default streams are separate blocking streams. */
static void per_thread_child(void)
{
	__typeof__(&cuStreamWriteValue64) write_per_thread =
		(__typeof__(&cuStreamWriteValue64))function("cuStreamWriteValue64_v2_ptsz");
	CUstream stream;
	uint64_t *words;

	context_open();
	words = words_new(4);
	stream = stream_new(0);
	OK(CU(cuStreamWaitValue64)(stream, device_of(&words[0]), 1, CU_STREAM_WAIT_VALUE_GEQ));
	OK(write_per_thread(NULL, device_of(&words[1]), 1, 0));
	OK(CU(cuStreamSynchronize)(CU_STREAM_PER_THREAD));
	CHECK(load(&words[1]) == 1);
	OK(CU(cuStreamWriteValue64)(NULL, device_of(&words[2]), 1, 0));
	OK(write_per_thread(NULL, device_of(&words[3]), 1, 0));
	usleep(10000);
	CHECK(load(&words[3]) == 0);
	store(&words[0], 1);
	OK(CU(cuStreamSynchronize)(CU_STREAM_PER_THREAD));
	CHECK(load(&words[2]) == 1 && load(&words[3]) == 1);
}
CHILD(per_thread)

/* ---- kernels */

static void kernels_child(void)
{
	enum {
		N = 1000
	};
	CUlibrary lib;
	CUkernel kernels[4];
	CUfunction add, function_of_kernel;
	CUdeviceptr a, b, c, counter;
	float host[N], back[N];
	unsigned n = N, n_kernels;
	void *params[] = {&a, &b, &c, &n};
	size_t offset, size;
	int value, blocks;

	context_open();
	lib = library_load();
	OK(CU(cuLibraryGetKernelCount)(&n_kernels, lib));
	CHECK(n_kernels == 3);
	OK(CU(cuLibraryEnumerateKernels)(kernels, 3, lib));
	add = kernel_get(lib, "add");
	EXPECT(CUDA_ERROR_NOT_FOUND, CU(cuLibraryGetKernel)(&kernels[0], lib, "nothing"));
	OK(CU(cuKernelGetParamInfo)((CUkernel)add, 3, &offset, &size));
	CHECK(offset == 24 && size == 4);
	EXPECT(CUDA_ERROR_INVALID_VALUE,
		CU(cuKernelGetParamInfo)((CUkernel)add, 4, &offset, &size));
	OK(CU(cuKernelGetAttribute)(
		&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, (CUkernel)add, 0));
	EXPECT(CUDA_ERROR_INVALID_HANDLE,
		CU(cuFuncGetAttribute)(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, add));
	CHECK(value == 1024);
	OK(CU(cuOccupancyMaxActiveBlocksPerMultiprocessor)(&blocks, add, 256, 0));
	CHECK(blocks >= 1 && blocks <= 8);
	for (int i = 0; i < N; i++)
		host[i] = (float)i;
	OK(CU(cuMemAlloc)(&a, sizeof(host)));
	OK(CU(cuMemAlloc)(&b, sizeof(host)));
	OK(CU(cuMemAlloc)(&c, sizeof(host)));
	OK(CU(cuMemcpyHtoD)(a, host, sizeof(host)));
	OK(CU(cuMemcpyHtoD)(b, host, sizeof(host)));
	OK(launch(add, (N + 127) / 128, 128, NULL, params));
	OK(CU(cuMemcpyDtoH)(back, c, sizeof(back)));
	for (int i = 0; i < N; i++)
		CHECK(back[i] == 2 * (float)i);
	OK(CU(cuKernelGetFunction)(&function_of_kernel, (CUkernel)add));
	OK(launch(function_of_kernel, 1, 32, stream_new(0), params));
	OK(CU(cuCtxSynchronize)());
	OK(CU(cuLibraryGetGlobal)(&counter, &size, lib, "counter"));
	CHECK(size == 4);
	OK(CU(cuMemcpyDtoH)(&n, counter, 4));
	CHECK(n == 41);
	EXPECT(CUDA_ERROR_INVALID_VALUE, launch(add, 0, 32, NULL, params));
	EXPECT(CUDA_ERROR_INVALID_VALUE, launch(add, 1, 1025, NULL, params));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
		CU(cuLaunchKernel)(add, 1, 1, 1, 32, 1, 1, 50000, NULL, params, NULL));
	EXPECT(CUDA_ERROR_INVALID_VALUE, launch(add, 1, 32, NULL, NULL));
	OK(CU(cuLibraryUnload)(lib));
}
CHILD(kernels)

/* Kernels of two streams run concurrently: the first ends only after the second has. */
static void concurrency_child(void)
{
	CUstream a, b;
	CUlibrary lib;
	uint64_t *words;
	CUdeviceptr word;
	void *params[] = {&word};

	context_open();
	lib = library_load();
	words = words_new(2);
	word = device_of(&words[1]);
	OK(launch(kernel_get(lib, "poke"), 1, 1, NULL, params)); /* loads it */
	OK(CU(cuCtxSynchronize)());
	word = device_of(&words[0]);
	a = stream_new(CU_STREAM_NON_BLOCKING);
	b = stream_new(CU_STREAM_NON_BLOCKING);
	OK(launch(kernel_get(lib, "spin"), 1, 1, a, params));
	usleep(5000);
	EXPECT(CUDA_ERROR_NOT_READY, CU(cuStreamQuery)(a));
	OK(launch(kernel_get(lib, "poke"), 1, 1, b, params));
	OK(CU(cuStreamSynchronize)(b));
	OK(CU(cuStreamSynchronize)(a));
}
CHILD(concurrency)

static void fault_child(void)
{
	CUdeviceptr wrong = WANTED + 0x123400;
	void *params[] = {&wrong};
	CUstream a, b;
	CUcontext context, made;
	CUfunction poke;
	CUevent event;
	uint64_t *words;
	CUdeviceptr p;
	int n;

	context = context_open();
	/* Loaded later it would wait for b. */
	OK(CU(cuKernelGetFunction)(&poke, (CUkernel)kernel_get(library_load(), "poke")));
	words = words_new(2);
	a = stream_new(CU_STREAM_NON_BLOCKING);
	b = stream_new(CU_STREAM_NON_BLOCKING);
	OK(CU(cuEventCreate)(&event, 0));
	OK(CU(cuStreamWaitValue64)(b, device_of(&words[0]), 1, CU_STREAM_WAIT_VALUE_GEQ));
	OK(CU(cuStreamWriteValue64)(b, device_of(&words[1]), 1, 0));
	OK(launch(poke, 1, 1, a, params));
	EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, CU(cuStreamSynchronize)(a));
	EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, CU(cuStreamSynchronize)(b));
	store(&words[0], 1);
	usleep(10000);
	CHECK(load(&words[1]) == 0);
	EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, CU(cuMemAlloc)(&p, 64));
	EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, CU(cuEventRecord)(event, a));
	EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, CU(cuCtxSynchronize)());
	EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, CU(cuCtxCreate)(&made, NULL, 0, 0));
	OK(CU(cuDeviceGetCount)(&n));
	OK(CU(cuCtxGetCurrent)(&made));
	CHECK(made == context);
}
CHILD(fault)

/* Unmapping memory under a running kernel is a fault as well; TSan reports it as a race. */
static void unmapped_child(void)
{
	CUmemAllocationProp prop = prop_device();
	CUmemAccessDesc access = {
		{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle;
	CUdeviceptr p;
	void *params[] = {&p};
	CUlibrary lib;

	if (IS_TSAN)
		return;
	context_open();
	lib = library_load();
	OK(CU(cuMemAddressReserve)(&p, 2 * MIB, 0, 0, 0));
	OK(CU(cuMemCreate)(&handle, 2 * MIB, &prop, 0));
	OK(CU(cuMemMap)(p, 2 * MIB, 0, handle, 0));
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
	OK(CU(cuMemSetAccess)(p, 2 * MIB, &access, 1));
	OK(launch(kernel_get(lib, "spin"), 1, 1, NULL, params));
	usleep(5000);
	OK(CU(cuMemUnmap)(p, 2 * MIB));
	EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, CU(cuCtxSynchronize)());
	_exit(0); /* not exit(): memory of the interrupted kernel is lost */
}
CHILD(unmapped)

/* Errors of an image are returned at its first use, and printed on stderr at its load. */
static void bad_image_child(void)
{
	static const char bad[] =
		".version 8.0\n.target sm_50\n.address_size 64\n"
		".visible .entry k()\n{\n	frobnicate.u32 %r1, %r2;\n	ret;\n}\n";
	static const char empty[4];
	char log[512] = "";
	CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
	void *values[] = {log, (void *)(uintptr_t)sizeof(log)};
	CUlibrary lib;
	CUkernel kernel;
	CUmodule module;

	context_open();
	EXPECT(CUDA_ERROR_INVALID_PTX, CU(cuModuleLoadDataEx)(&module, bad, 2, options, values));
	CHECK(strstr(log, "frobnicate"));
	/* Its copy is one byte. */
	EXPECT(CUDA_ERROR_INVALID_IMAGE, CU(cuModuleLoadData)(&module, empty));
	OK(CU(cuLibraryLoadData)(&lib, bad, NULL, NULL, 0, NULL, NULL, 0));
	EXPECT(CUDA_ERROR_INVALID_PTX, CU(cuLibraryGetKernel)(&kernel, lib, "k"));
	EXPECT(CUDA_ERROR_INVALID_PTX, CU(cuLibraryGetModule)(&module, lib));
	OK(CU(cuLibraryUnload)(lib));
}
CHILD(bad_image)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(streams),
		cmocka_unit_test(default_stream),
		cmocka_unit_test(host_functions),
		cmocka_unit_test(per_thread),
		cmocka_unit_test(kernels),
		cmocka_unit_test(concurrency),
		cmocka_unit_test(fault),
		cmocka_unit_test(unmapped),
		cmocka_unit_test(bad_image),
	};

	return library_find(argc, argv) ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
