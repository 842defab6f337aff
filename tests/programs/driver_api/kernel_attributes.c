/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Attributes of functions and kernels, set and read back: what can be set, which values are
 * refused, and how a kernel and its function share them. And names, modules, libraries and
 * parameters, which cannot be set.
 */

#define NAME "kernel_attributes"
#include <string.h>

#include "../helpers/driver_program.h"

static const char image[] = ".version 7.0\n"
			    ".target sm_75\n"
			    ".address_size 64\n"
			    ".visible .entry nothing()\n"
			    "{\n"
			    "	ret;\n"
			    "}\n"
			    ".visible .entry two(.param .u64 one, .param .u32 other)\n"
			    "{\n"
			    "	ret;\n"
			    "}\n";

#define REFUSED INT32_MIN

/* For each value that is set, the value that comes back. */
struct change {
	int set, got;
};

struct settable {
	CUfunction_attribute attribute;
	int at_first;
	struct change changes[4];
};

static const struct settable settables[] = {
	{CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 49152,
		{{0, 0}, {50, 50}, {1024, 1024}, {-1, REFUSED}}},
	{CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, -1,
		{{0, 0}, {50, 50}, {1024, REFUSED}, {-1, -1}}},
	{CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, 0, {{2, 2}, {50, 50}, {-1, REFUSED}, {0, 0}}},
	{CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT, 0, {{2, 2}, {50, 50}, {-1, REFUSED}, {0, 0}}},
	{CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH, 0, {{2, 2}, {50, 50}, {-1, REFUSED}, {0, 0}}},
	{CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 0,
		{{1, 1}, {50, 1}, {-1, 1}, {0, 0}}},
	{CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE, 0,
		{{1, 1}, {2, 2}, {50, REFUSED}, {0, 0}}},
};

#define N_SETTABLE (sizeof(settables) / sizeof(settables[0]))

static CUmodule module;
static CUlibrary library;
static CUfunction function, function_of_kernel;
static CUkernel kernel;

static void setup(void)
{
	CUcontext context;
	CUdevice device;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuModuleLoadData(&module, image));
	CHECK(cuModuleGetFunction(&function, module, "nothing"));
	CHECK(cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
	CHECK(cuLibraryGetKernel(&kernel, library, "nothing"));
	CHECK(cuKernelGetFunction(&function_of_kernel, kernel));
}

static int of_function(CUfunction of, CUfunction_attribute attribute)
{
	int value = -77;

	CHECK(cuFuncGetAttribute(&value, attribute, of));
	return value;
}

static int of_kernel(CUfunction_attribute attribute)
{
	int value = -77;

	CHECK(cuKernelGetAttribute(&value, attribute, kernel, 0));
	return value;
}

static void functions(void)
{
	for (unsigned i = 0; i < N_SETTABLE; i++) {
		const struct settable *settable = &settables[i];
		int now = settable->at_first;

		MUST(of_function(function, settable->attribute) == now);
		for (unsigned k = 0; k < 4; k++) {
			const struct change *change = &settable->changes[k];

			EXPECT(change->got == REFUSED ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS,
				cuFuncSetAttribute(function, settable->attribute, change->set));
			now = change->got == REFUSED ? now : change->got;
			MUST(of_function(function, settable->attribute) == now);
		}
	}
	for (int i = CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK;
		i < CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES; i++)
		EXPECT(CUDA_ERROR_INVALID_VALUE, cuFuncSetAttribute(function, i, 1));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
		cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET, 1));
}

/* A kernel keeps the number; its function knows only whether larger clusters are allowed. */
static void kernels(void)
{
	for (unsigned i = 0; i < N_SETTABLE; i++) {
		CUfunction_attribute attribute = settables[i].attribute;
		int is_bool = attribute == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED;

		MUST(of_kernel(attribute) == settables[i].at_first);
		CHECK(cuKernelSetAttribute(attribute, 2, kernel, 0));
		MUST(of_kernel(attribute) == 2);
		MUST(of_function(function_of_kernel, attribute) == (is_bool ? 1 : 2));
		MUST(of_function(function, attribute) ==
			(settables[i].changes[3].got != REFUSED ? settables[i].changes[3].got
								: 1024));
	}
}

static void names(void)
{
	CUlibrary its_library = NULL;
	CUmodule its_module = NULL, of_library = NULL;
	const char *name = NULL;
	size_t offset = 0, size = 0;
	CUfunction two;

	CHECK(cuFuncGetName(&name, function));
	MUST(!strcmp(name, "nothing"));
	CHECK(cuKernelGetName(&name, kernel));
	MUST(!strcmp(name, "nothing"));
	CHECK(cuFuncGetModule(&its_module, function));
	MUST(its_module == module);
	CHECK(cuLibraryGetModule(&of_library, library));
	CHECK(cuFuncGetModule(&its_module, function_of_kernel));
	MUST(its_module == of_library);
	CHECK(cuKernelGetLibrary(&its_library, kernel));
	MUST(its_library == library);
	CHECK(cuModuleGetFunction(&two, module, "two"));
	CHECK(cuFuncGetParamInfo(two, 1, &offset, &size));
	MUST(offset == 8 && size == 4);
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuFuncGetParamInfo(two, 2, &offset, &size));
}

static void cache_preferences(void)
{
	CUfunc_cache cache = 9;

	CHECK(cuCtxGetCacheConfig(&cache));
	MUST(cache == CU_FUNC_CACHE_PREFER_NONE);
	for (int i = 0; i < 4; i++) {
		CHECK(cuCtxSetCacheConfig(i));
		CHECK(cuCtxGetCacheConfig(&cache));
		MUST((int)cache == i);
	}
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuCtxSetCacheConfig(4));
}

int main(void)
{
	setup();
	functions();
	kernels();
	names();
	cache_preferences();
	CHECK(cuLibraryUnload(library));
	CHECK(cuModuleUnload(module));
	CHECK(cuDevicePrimaryCtxRelease(0));
	printf(NAME ": ok\n");
	return 0;
}
