/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Libraries: images loaded once for the process, and their kernels. A library's
 * module in a context is created at its first use there.
 *
 * Runs in any thread, under the driver's lock.
 */

#include <string.h>

#include "module.h"
#include "tests/softgpu/driver/stream/context.h"

struct library {
	struct object object;
	void *image; /* for the second context and later ones */
	size_t size;
	struct code *code; /* owns a reference; names and layouts come from here */
	CUresult result;   /* of the translation: as in the driver, returned at the first use */
	struct variables managed; /* shared by its modules */
	struct module *modules;
	struct kernel *kernels;
	uint32_t n_kernels;
};

static void library_free(struct library *library)
{
	variables_free(&library->managed);
	code_unref(library->code);
	free(library->image);
	free(library->kernels);
	free(library);
}

static const struct ptx_kernel_info *kernel_info(const struct kernel *kernel)
{
	return ptx_kernel_info(ptx_module_kernel(kernel->library->code->ptx, kernel->index));
}

CUresult library_module(
	struct library *library, struct context *context, struct module **ret_module)
{
	struct module *module = library->modules;
	struct code *code = library->code;
	CUresult result = library->result;

	if (result != CUDA_SUCCESS)
		return result;
	while (module && module->context != context)
		module = module->library_next;
	if (!module) {
		/* As driver 580 does on an H200. */
		result = device_wait(context->device);
		if (result != CUDA_SUCCESS)
			return result;
		if (code->is_bound)
			result = code_new(library->image, library->size, &(struct jit){0}, &code);
		else
			code->refs++;
		if (result == CUDA_SUCCESS)
			result = module_new(context, code, library, &library->managed, &module);
		if (result != CUDA_SUCCESS)
			return result;
		code_unref(code);
		for (uint32_t i = 0; i < library->n_kernels; i++)
			module->functions[i].settings = &library->kernels[i].settings;
		module->library_next = library->modules;
		library->modules = module;
	}
	*ret_module = module;
	return CUDA_SUCCESS;
}

void library_forget(struct module *module)
{
	struct module **link = &module->library->modules;

	while (*link && *link != module)
		link = &(*link)->library_next;
	if (*link)
		*link = module->library_next;
}

CUresult function_get(CUfunction handle, struct context *context, struct function **ret_function)
{
	struct function *function = object_find(OBJECT_FUNCTION, handle);
	struct kernel *kernel;
	struct module *module;
	CUresult result;

	if (function) {
		if (function->module->context != context)
			return CUDA_ERROR_INVALID_HANDLE;
		*ret_function = function;
		return CUDA_SUCCESS;
	}
	kernel = object_find(OBJECT_KERNEL, handle);
	if (!kernel)
		return CUDA_ERROR_INVALID_HANDLE;
	result = library_module(kernel->library, context, &module);
	if (result == CUDA_SUCCESS)
		*ret_function = &module->functions[kernel->index];
	return result;
}

CUkernel function_kernel(const struct function *function)
{
	const struct module *module = function->module;

	return module->library ? (CUkernel)&module->library->kernels[function - module->functions]
			       : NULL;
}

CUresult function_describe(
	const void *handle, const struct ptx_kernel_info **ret_info, struct settings **ret_settings)
{
	struct function *function = object_find(OBJECT_FUNCTION, handle);
	struct kernel *kernel = object_find(OBJECT_KERNEL, handle);

	if (!function && !kernel)
		return CUDA_ERROR_INVALID_HANDLE;
	*ret_info = function ? ptx_kernel_info(function->kernel) : kernel_info(kernel);
	*ret_settings = function ? function->settings : &kernel->settings;
	return CUDA_SUCCESS;
}

/* With eager loading, a bad image is refused at once. */
static bool is_lazy(void)
{
	const char *wanted = getenv("CUDA_MODULE_LOADING");

	return !wanted || strcmp(wanted, "EAGER") != 0;
}

static CUresult library_translate(struct library *library, const struct jit *jit)
{
	CUresult result;

	pthread_mutex_unlock(&driver.lock);
	result = code_new(library->image, library->size, jit, &library->code);
	pthread_mutex_lock(&driver.lock);
	if (result == CUDA_ERROR_INVALID_PTX || result == CUDA_ERROR_NO_BINARY_FOR_GPU) {
		library->result = result;
		return is_lazy() ? CUDA_SUCCESS : result;
	}
	if (result != CUDA_SUCCESS)
		return result;
	library->n_kernels = ptx_module_n_kernels(library->code->ptx);
	library->kernels = calloc(MAX(library->n_kernels, 1), sizeof(struct kernel));
	return library->kernels ? variables_new_managed(library->code, &library->managed)
				: CUDA_ERROR_OUT_OF_MEMORY;
}

/* Takes `image', on failure too. */
static CUresult library_new(CUlibrary *ret, void *image, size_t size, const struct jit *jit)
{
	struct library *library = calloc(1, sizeof(*library));
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

	if (!library) {
		free(image);
		return result;
	}
	library->image = image;
	library->size = size;
	result = library_translate(library, jit);
	if (result != CUDA_SUCCESS) {
		library_free(library);
		return result;
	}
	for (uint32_t i = 0; i < library->n_kernels; i++) {
		library->kernels[i].library = library;
		library->kernels[i].index = i;
		settings_init(&library->kernels[i].settings);
		object_add(&library->kernels[i].object, OBJECT_KERNEL);
	}
	object_add(&library->object, OBJECT_LIBRARY);
	stat_add(STAT_LIBRARIES, 1);
	*ret = (CUlibrary)library;
	return CUDA_SUCCESS;
}

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jitOptions,
	void **jitOptionsValues, unsigned int numJitOptions, CUlibraryOption *libraryOptions,
	void **libraryOptionValues, unsigned int numLibraryOptions)
{
	void *image;
	size_t size;
	CUresult result;

	ENTER(CALL_INIT);
	(void)libraryOptionValues;
	if (!library || (numJitOptions && (!jitOptions || !jitOptionsValues)) ||
		(numLibraryOptions && !libraryOptions))
		return CUDA_ERROR_INVALID_VALUE;
	result = image_copy(code, &image, &size);
	if (result != CUDA_SUCCESS)
		return result;
	return library_new(
		library, image, size, &(struct jit){numJitOptions, jitOptions, jitOptionsValues});
}

CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *fileName, CUjit_option *jitOptions,
	void **jitOptionsValues, unsigned int numJitOptions, CUlibraryOption *libraryOptions,
	void **libraryOptionValues, unsigned int numLibraryOptions)
{
	void *image;
	size_t size;
	CUresult result;

	ENTER(CALL_INIT);
	(void)libraryOptionValues;
	if (!library || !fileName || (numJitOptions && (!jitOptions || !jitOptionsValues)) ||
		(numLibraryOptions && !libraryOptions))
		return CUDA_ERROR_INVALID_VALUE;
	result = image_read(fileName, &image, &size);
	if (result != CUDA_SUCCESS)
		return result;
	return library_new(library, image, size + 1,
		&(struct jit){numJitOptions, jitOptions, jitOptionsValues});
}

CUresult cuLibraryUnload(CUlibrary handle)
{
	struct library *library;

	ENTER(CALL_ALIVE);
	library = object_find(OBJECT_LIBRARY, handle);
	if (!library)
		return CUDA_ERROR_INVALID_HANDLE;
	while (library->modules) {
		CUresult result = device_wait(library->modules->context->device);

		library = object_find(OBJECT_LIBRARY, handle);
		if (result != CUDA_SUCCESS || !library)
			return result;
		if (library->modules)
			module_close(library->modules);
	}
	for (uint32_t i = 0; i < library->n_kernels; i++)
		object_remove(&library->kernels[i].object);
	object_remove(&library->object);
	library_free(library);
	stat_add(STAT_LIBRARIES, -1);
	return CUDA_SUCCESS;
}

CUresult cuLibraryGetKernel(CUkernel *pKernel, CUlibrary handle, const char *name)
{
	struct library *library;

	ENTER(CALL_INIT);
	if (!pKernel || !name || !*name)
		return CUDA_ERROR_INVALID_VALUE;
	library = object_find(OBJECT_LIBRARY, handle);
	if (!library)
		return CUDA_ERROR_INVALID_HANDLE;
	if (library->result != CUDA_SUCCESS)
		return library->result;
	for (uint32_t i = 0; i < library->n_kernels; i++) {
		if (strcmp(kernel_info(&library->kernels[i])->name, name) != 0)
			continue;
		*pKernel = (CUkernel)&library->kernels[i];
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_NOT_FOUND;
}

CUresult cuLibraryGetKernelCount(unsigned int *count, CUlibrary handle)
{
	const struct library *library;

	ENTER(CALL_INIT);
	library = object_find(OBJECT_LIBRARY, handle);
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	if (!library)
		return CUDA_ERROR_INVALID_HANDLE;
	*count = library->n_kernels;
	return CUDA_SUCCESS;
}

CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int numKernels, CUlibrary handle)
{
	struct library *library;

	ENTER(CALL_INIT);
	library = object_find(OBJECT_LIBRARY, handle);
	if (!kernels)
		return CUDA_ERROR_INVALID_VALUE;
	if (!library)
		return CUDA_ERROR_INVALID_HANDLE;
	for (uint32_t i = 0; i < MIN(numKernels, library->n_kernels); i++)
		kernels[i] = (CUkernel)&library->kernels[i];
	return CUDA_SUCCESS;
}

CUresult cuLibraryGetModule(CUmodule *pMod, CUlibrary handle)
{
	struct library *library;
	struct module *module;
	CUresult result;

	ENTER(CALL_CONTEXT);
	library = object_find(OBJECT_LIBRARY, handle);
	if (!pMod)
		return CUDA_ERROR_INVALID_VALUE;
	if (!library)
		return CUDA_ERROR_INVALID_HANDLE;
	result = library_module(library, context_current(), &module);
	if (result == CUDA_SUCCESS)
		*pMod = (CUmodule)module;
	return result;
}

CUresult cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary handle, const char *name)
{
	struct library *library;
	struct module *module;
	CUresult result;

	ENTER(CALL_CONTEXT);
	library = object_find(OBJECT_LIBRARY, handle);
	if (!name || (!dptr && !bytes))
		return CUDA_ERROR_INVALID_VALUE;
	if (!library)
		return CUDA_ERROR_INVALID_HANDLE;
	result = library_module(library, context_current(), &module);
	if (result != CUDA_SUCCESS)
		return result;
	return module_variable(module, name, dptr, bytes) ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuLibraryGetManaged(CUdeviceptr *dptr, size_t *bytes, CUlibrary handle, const char *name)
{
	const struct library *library;

	ENTER(CALL_INIT);
	library = object_find(OBJECT_LIBRARY, handle);
	if (!name || (!dptr && !bytes))
		return CUDA_ERROR_INVALID_VALUE;
	if (!library)
		return CUDA_ERROR_INVALID_HANDLE;
	if (library->result != CUDA_SUCCESS)
		return library->result;
	for (uint32_t i = 0; i < ptx_module_n_globals(library->code->ptx); i++) {
		const struct ptx_global *global = ptx_module_global(library->code->ptx, i);

		if (!global->is_managed || strcmp(global->name, name) != 0)
			continue;
		if (dptr)
			*dptr = global->address;
		if (bytes)
			*bytes = global->size;
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_NOT_FOUND;
}

CUresult cuLibraryGetUnifiedFunction(void **fptr, CUlibrary library, const char *symbol)
{
	ENTER(CALL_ALIVE);
	if (!fptr || !symbol)
		return CUDA_ERROR_INVALID_VALUE;
	return object_find(OBJECT_LIBRARY, library) ? CUDA_ERROR_INVALID_VALUE
						    : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel)
{
	struct function *function;
	CUresult result;

	ENTER(CALL_CONTEXT);
	if (!pFunc)
		return CUDA_ERROR_INVALID_VALUE;
	if (!object_find(OBJECT_KERNEL, kernel))
		return CUDA_ERROR_INVALID_HANDLE;
	result = function_get((CUfunction)kernel, context_current(), &function);
	if (result == CUDA_SUCCESS)
		*pFunc = (CUfunction)function;
	return result;
}

CUresult cuKernelGetLibrary(CUlibrary *pLib, CUkernel handle)
{
	const struct kernel *kernel;

	ENTER(CALL_INIT);
	kernel = object_find(OBJECT_KERNEL, handle);
	if (!pLib)
		return CUDA_ERROR_INVALID_VALUE;
	if (!kernel)
		return CUDA_ERROR_INVALID_HANDLE;
	*pLib = (CUlibrary)kernel->library;
	return CUDA_SUCCESS;
}
