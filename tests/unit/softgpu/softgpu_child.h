/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SOFTGPU_CHILD_H
#define SOFTGPU_CHILD_H

/*
 * For tests of the software GPU through its ABI. Each test is a forked child that opens
 * the library with its own environment, so that its faults and switches do not reach the
 * next test. The parent never opens the library.
 *
 * The library is $SOFTGPU_LIBRARY, the first argument, or the build's. Tests that use
 * nothing specific to the software GPU pass on a real driver too.
 */

#include <cuda.h>
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "base.h"

#define MIB ((size_t)1 << 20)
/* Where the server puts device memory; ThreadSanitizer reserves these addresses. */
#ifdef __SANITIZE_THREAD__
#define IS_TSAN true
#define WANTED ((CUdeviceptr)0x7e9000000000)
#else
#define IS_TSAN false
#define WANTED ((CUdeviceptr)0x200000000000)
#endif
#define TEST_TIMEOUT_S 60

#define STRING_(x) #x
#define STRING(x) STRING_(x)

/* A driver function by its name in cuda.h, including the version suffix. */
#define CU(name) ((__typeof__(&(name)))function(STRING(name)))

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

#define EXPECT(wanted, call)                                                                       \
	do {                                                                                       \
		int got_ = (int)(call);                                                            \
		if (got_ != (int)(wanted)) {                                                       \
			fprintf(stderr, "%s:%d: %s: %d, wanted %d\n", __FILE__, __LINE__, #call,   \
				got_, (int)(wanted));                                              \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

#define OK(call) EXPECT(CUDA_SUCCESS, call)

static const char *library_path = "build/softgpu/libcuda.so.1";
static void *library;

static _unused_ void *function(const char *name)
{
	void *address = dlsym(library, name);

	if (!address) {
		fprintf(stderr, "no %s in %s\n", name, library_path);
		_exit(1);
	}
	return address;
}

static _unused_ void library_open(void)
{
	library = dlopen(library_path, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		_exit(1);
	}
}

static _unused_ CUcontext context_open(void)
{
	CUcontext context;
	CUdevice device;

	OK(CU(cuInit)(0));
	OK(CU(cuDeviceGet)(&device, 0));
	OK(CU(cuDevicePrimaryCtxRetain)(&context, device));
	OK(CU(cuCtxSetCurrent)(context));
	return context;
}

/* Runs `test' in a child with the environment "NAME=value", ...; it exits with 0 on success. */
static _unused_ void in_child(void (*test)(void), ...)
{
	va_list list;
	char *setting;
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		alarm(TEST_TIMEOUT_S);
		signal(SIGSEGV, SIG_DFL); /* cmocka would continue with the next test here */
		signal(SIGABRT, SIG_DFL);
		va_start(list, test);
		while ((setting = va_arg(list, char *)))
			putenv(setting);
		va_end(list);
		library_open();
		test();
		exit(0); /* so that leaks are reported */
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

#define CHILD(name, ...)                                                                           \
	static void name(void **state)                                                             \
	{                                                                                          \
		(void)state;                                                                       \
		in_child(name##_child, ##__VA_ARGS__, (char *)NULL);                               \
	}

static _unused_ CUmemAllocationProp prop_device(void)
{
	return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
}

static _unused_ uint64_t *words_new(size_t n)
{
	void *words;

	OK(CU(cuMemHostAlloc)(&words, n * sizeof(uint64_t), 0));
	memset(words, 0, n * sizeof(uint64_t));
	return words;
}

static _unused_ CUdeviceptr device_of(const void *p)
{
	return (CUdeviceptr)(uintptr_t)p;
}

static _unused_ uint64_t load(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static _unused_ void store(uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static _unused_ CUstream stream_new(unsigned flags)
{
	CUstream stream;

	OK(CU(cuStreamCreate)(&stream, flags));
	return stream;
}

static _unused_ const char ptx[] =
	".version 8.0\n.target sm_50\n.address_size 64\n"
	".visible .global .align 4 .u32 counter = 41;\n"
	".visible .entry add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)\n"
	"{\n"
	"	.reg .pred %p<2>;\n	.reg .b32 %r<9>;\n	.reg .f32 %f<4>;\n	.reg .b64 "
	"%rd<11>;\n"
	"	ld.param.u64 %rd1, [a];\n	ld.param.u64 %rd2, [b];\n"
	"	ld.param.u64 %rd3, [c];\n	ld.param.u32 %r2, [n];\n"
	"	mov.u32 %r3, %ctaid.x;\n	mov.u32 %r4, %ntid.x;\n	mov.u32 %r5, %tid.x;\n"
	"	mad.lo.s32 %r1, %r3, %r4, %r5;\n	setp.ge.s32 %p1, %r1, %r2;\n"
	"	@%p1 bra DONE;\n"
	"	cvta.to.global.u64 %rd4, %rd1;\n	mul.wide.s32 %rd5, %r1, 4;\n"
	"	add.s64 %rd6, %rd4, %rd5;\n	cvta.to.global.u64 %rd7, %rd2;\n"
	"	add.s64 %rd8, %rd7, %rd5;\n	ld.global.f32 %f1, [%rd8];\n"
	"	ld.global.f32 %f2, [%rd6];\n	add.f32 %f3, %f2, %f1;\n"
	"	cvta.to.global.u64 %rd9, %rd3;\n	add.s64 %rd10, %rd9, %rd5;\n"
	"	st.global.f32 [%rd10], %f3;\n"
	"DONE:\n	ret;\n"
	"}\n"
	".visible .entry poke(.param .u64 p)\n"
	"{\n"
	"	.reg .b32 %r<2>;\n	.reg .b64 %rd<2>;\n"
	"	ld.param.u64 %rd1, [p];\n	mov.u32 %r1, 7;\n	st.global.u32 [%rd1], "
	"%r1;\n"
	"	ret;\n"
	"}\n"
	".visible .entry spin(.param .u64 p)\n"
	"{\n"
	"	.reg .pred %p<2>;\n	.reg .b32 %r<2>;\n	.reg .b64 %rd<2>;\n"
	"	ld.param.u64 %rd1, [p];\n"
	"AGAIN:\n	ld.volatile.global.u32 %r1, [%rd1];\n	setp.eq.u32 %p1, %r1, 0;\n"
	"	@%p1 bra AGAIN;\n"
	"	ret;\n"
	"}\n";

static _unused_ CUlibrary library_load(void)
{
	CUlibrary lib;

	OK(CU(cuLibraryLoadData)(&lib, ptx, NULL, NULL, 0, NULL, NULL, 0));
	return lib;
}

static _unused_ CUfunction kernel_get(CUlibrary lib, const char *name)
{
	CUkernel kernel;

	OK(CU(cuLibraryGetKernel)(&kernel, lib, name));
	return (CUfunction)kernel;
}

static _unused_ CUresult launch(
	CUfunction f, unsigned grid, unsigned block, CUstream stream, void **params)
{
	return CU(cuLaunchKernel)(f, grid, 1, 1, block, 1, 1, 0, stream, params, NULL);
}

/* Finds the library; false, with a line on stderr, if there is none. */
static bool library_find(int argc, char **argv)
{
	const char *path = getenv("SOFTGPU_LIBRARY");
	char *real;

	if (argc > 1)
		path = argv[1];
	real = realpath(path ? path : library_path, NULL);
	if (!real) {
		fprintf(stderr, "no library at %s\n", path ? path : library_path);
		return false;
	}
	library_path = real;
	return true;
}

#endif
