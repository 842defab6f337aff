/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The driver's calls about libraries and modules. Any thread of the application.
 *
 * Invariant: a library belongs to the process, a module to a context. Each can be
 * unloaded only by its own call.
 */

#include "calls_module.h"
#include "eager.h"
#include "image_file.h"
#include "library.h"
#include "variable.h"
#include "client/transport/route.h"

/* A library needs no context, but the server needs a GPU to load it. */
static CUresult open_some_device(void)
{
	struct context *context = context_current;

	return device_open(context ? context->device : device_get(0));
}

CUresult local_cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jitOptions,
	void **jitOptionsValues, unsigned int numJitOptions, CUlibraryOption *libraryOptions,
	_unused_ void **libraryOptionValues, unsigned int numLibraryOptions)
{
	struct jit jit = {0};
	struct library *loaded = NULL;
	CUresult result = open_some_device();

	/* The library's options say how long the image stays valid; this library has copied it. */
	if (result == CUDA_SUCCESS)
		result = jit_read(&jit, jitOptions, jitOptionsValues, numJitOptions);
	if (result == CUDA_SUCCESS)
		result = library_load(code, NULL, numJitOptions ? &jit : NULL, &loaded);
	if (result == CUDA_SUCCESS)
		*library = (CUlibrary)loaded;
	return result;
}

CUresult local_cuLibraryLoadFromFile(CUlibrary *library, const char *fileName,
	CUjit_option *jitOptions, void **jitOptionsValues, unsigned int numJitOptions,
	CUlibraryOption *libraryOptions, void **libraryOptionValues, unsigned int numLibraryOptions)
{
	_cleanup_free_ char *bytes = NULL;
	CUresult result = image_read_file(fileName, &bytes, NULL);

	if (result != CUDA_SUCCESS)
		return result;
	return local_cuLibraryLoadData(library, bytes, jitOptions, jitOptionsValues, numJitOptions,
		libraryOptions, libraryOptionValues, numLibraryOptions);
}

static CUresult get_kernel(const void *library, const char *name, struct kernel **ret_kernel)
{
	struct library *found = library_find(library);

	if (!name || !*name)
		return CUDA_ERROR_INVALID_VALUE;
	if (!found)
		return CUDA_ERROR_INVALID_HANDLE;
	return library_kernel(found, name, ret_kernel);
}

CUresult local_cuLibraryGetKernel(CUkernel *pKernel, CUlibrary library, const char *name)
{
	struct kernel *kernel = NULL;
	CUresult result = get_kernel(library, name, &kernel);

	if (result == CUDA_SUCCESS)
		*pKernel = (CUkernel)kernel;
	return result;
}

CUresult library_get_global(CUdeviceptr *dptr, size_t *bytes, const void *library, const char *name)
{
	struct library *found = library_find(library);

	if (!name || (!dptr && !bytes))
		return CUDA_ERROR_INVALID_VALUE;
	if (!found)
		return CUDA_ERROR_INVALID_HANDLE;
	return library_global(found, name, dptr, bytes);
}

CUresult local_cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions,
	CUjit_option *options, void **optionValues)
{
	struct jit jit = {.is_module = true};
	struct library *loaded = NULL;
	struct context *context;
	CUresult result = context_enter(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!module || !image || (numOptions && (!options || !optionValues)))
		return CUDA_ERROR_INVALID_VALUE;
	result = jit_read(&jit, options, optionValues, numOptions);
	if (result == CUDA_SUCCESS)
		result = library_load(image, context, &jit, &loaded);
	if (result == CUDA_SUCCESS)
		*module = (CUmodule)loaded;
	return result;
}

CUresult local_cuModuleLoad(CUmodule *module, const char *fname)
{
	_cleanup_free_ char *bytes = NULL;
	CUresult result = image_read_file(fname, &bytes, NULL);

	if (result != CUDA_SUCCESS)
		return result;
	return local_cuModuleLoadDataEx(module, bytes, 0, NULL, NULL);
}

CUresult local_cuModuleGetFunction(CUfunction *hfunc, struct library *library, const char *name)
{
	struct kernel *kernel = NULL;
	CUresult result = get_kernel(library, name, &kernel);

	if (result == CUDA_SUCCESS)
		*hfunc = kernel_function(kernel);
	return result;
}

/* Code for the GPU has no functions for the host, and the driver has this error for their names. */
