/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The tables of libraries and kernels, and finding a kernel in a library. Any thread of
 * the application.
 *
 * Invariant: a name is requested from the server once, so a kernel has one handle.
 */

#include "library.h"

#include <stdatomic.h>
#include <string.h>

#include "lock.h"
#include "send_module.h"

#define LIBRARIES_MAX (1u << 16)
#define KERNELS_MAX (1u << 18)

_Static_assert(LIBRARIES_MAX <= WIRE_OBJECTS_MAX && KERNELS_MAX <= WIRE_OBJECTS_MAX, "wire");

struct slab libraries = {
	.lock = LOCK_INIT(SLAB),
	.object_size = sizeof(struct library),
	.n_max = LIBRARIES_MAX,
};
static struct slab kernels = {
	.lock = LOCK_INIT(SLAB),
	.object_size = sizeof(struct kernel),
	.n_max = KERNELS_MAX,
};

struct library *library_find(const void *handle)
{
	return slab_find(&libraries, handle);
}

struct kernel *kernel_find(const void *handle)
{
	/*
	 * Kernels lie at multiples of twice the offset, so one bit distinguishes the two
	 * handles.
	 */
	return slab_find(&kernels, (void *)((uintptr_t)handle & ~(uintptr_t)FUNCTION_OFFSET));
}

struct kernel *kernel_find_kernel(CUkernel handle)
{
	return slab_find(&kernels, handle);
}

struct kernel *kernel_find_function(CUfunction handle)
{
	return slab_find(&kernels, (const uint8_t *)handle - FUNCTION_OFFSET);
}

uint32_t library_id(const struct library *library)
{
	return slab_id(&libraries, library);
}

uint32_t kernel_id(const struct kernel *kernel)
{
	return slab_id(&kernels, kernel);
}

static void kernel_free(struct kernel *kernel)
{
	free(kernel->name);
	free(kernel->params);
	free(kernel->legacy);
	kernel->legacy = NULL;
	kernel->name = NULL;
	kernel->params = NULL;
	slab_give(&kernels, kernel);
}

void library_free(struct library *library)
{
	struct kernel *kernel;

	while ((kernel = library->kernels)) {
		library->kernels = kernel->next;
		kernel_free(kernel);
	}
	lock_fini(&library->lock);
	slab_give(&libraries, library);
}

/* Under the lock of the kernel's library. */
static CUresult ask_params(struct kernel *kernel)
{
	_cleanup_free_ struct param_layout *params =
		malloc(sizeof(*params) * WIRE_PARAMS_COUNT_MAX);
	struct param_layout *kept;
	uint32_t n_params = 0;
	CUresult result;

	if (!params)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = send_kernel_params(kernel_id(kernel), &kernel->param_bytes, &kernel->prints,
		params, WIRE_PARAMS_COUNT_MAX, &n_params);

	if (result != CUDA_SUCCESS)
		return result;
	for (uint32_t i = 0; i < n_params; i++)
		if (!range_ok(params[i].offset, params[i].size, kernel->param_bytes))
			return CUDA_ERROR_MPS_RPC_FAILURE;
	if (kernel->param_bytes > WIRE_PARAMS_MAX)
		return CUDA_ERROR_MPS_RPC_FAILURE;
	kept = malloc(sizeof(*kept) * MAX(n_params, 1u));
	if (!kept)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(kept, params, sizeof(*kept) * n_params);
	kernel->n_params = n_params;
	atomic_store_explicit(&kernel->params, kept, memory_order_release);
	return CUDA_SUCCESS;
}

CUresult kernel_ask_params(struct kernel *kernel)
{
	struct library *library = kernel->library;
	CUresult result = CUDA_SUCCESS;

	lock_hold(&library->lock);
	if (!kernel->params)
		result = ask_params(kernel);
	return result;
}

/* Fills in a new kernel with the server's facts. */
static CUresult kernel_ask(struct kernel *kernel, const char *name)
{
	CUresult result = send_library_kernel(
		library_id(kernel->library), kernel_id(kernel), name, kernel->attributes);

	if (result != CUDA_SUCCESS)
		return result;
	kernel->name = strdup(name);
	return kernel->name ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Under the library's lock, so that each name is requested once. */
static CUresult kernel_new(struct library *library, const char *name, struct kernel **ret_kernel)
{
	struct kernel *kernel = slab_take(&kernels);
	CUresult result;

	if (!kernel)
		return CUDA_ERROR_OUT_OF_MEMORY;
	kernel->library = library;
	result = kernel_ask(kernel, name);
	if (result != CUDA_SUCCESS) {
		kernel_free(kernel);
		return result;
	}
	LIST_PUSH(library->kernels, kernel);
	*ret_kernel = kernel;
	return CUDA_SUCCESS;
}

CUresult library_kernel(struct library *library, const char *name, struct kernel **ret_kernel)
{
	CUresult result = CUDA_SUCCESS;
	struct kernel *kernel;

	if (unlikely(atomic_load_explicit(&library->is_refused, memory_order_relaxed)))
		return CUDA_ERROR_NOT_SUPPORTED;
	lock_take(&library->lock);
	kernel = library->kernels;
	while (kernel && strcmp(kernel->name, name) != 0)
		kernel = kernel->next;
	if (!kernel)
		result = kernel_new(library, name, &kernel);
	lock_release(&library->lock);
	*ret_kernel = kernel;
	return result;
}
