/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Loading code, and finding kernels and variables in it. Any thread of the
 * application.
 *
 * Invariant: a library's number is reused only after the server was told of its
 * end.
 */

#include "library.h"

#include <stdatomic.h>
#include <string.h>

#include "eager.h"
#include "image.h"
#include "variable.h"
#include "client/transport/image_send.h"
#include "client/memory/memory.h"
#include "send.h"

#define LIBRARIES_MAX (1u << 16)
#define KERNELS_MAX (1u << 18)

_Static_assert(LIBRARIES_MAX <= WIRE_OBJECTS_MAX && KERNELS_MAX <= WIRE_OBJECTS_MAX, "wire");

static struct slab libraries = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.object_size = sizeof(struct library),
	.n_max = LIBRARIES_MAX,
};
static struct slab kernels = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
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

struct load {
	const struct library *library;
	const struct jit *jit; /* NULL: without options and logs */
};

static CUresult library_compile_image(
	uint64_t size, const struct library *library, const struct jit *jit)
{
	_cleanup_free_ struct jit_answer *answer = calloc(1, sizeof(*answer));
	CUresult result;

	if (!answer)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = send_library_compile(library_id(library), size, jit->is_module,
		MIN(jit->error.size, WIRE_JIT_LOG_MAX), MIN(jit->info.size, WIRE_JIT_LOG_MAX),
		jit->options, jit->n_options, &answer->result, answer->values,
		&answer->error_filled, &answer->info_filled, &answer->error_length, answer->logs,
		sizeof(answer->logs), &answer->n_logs);
	jit_write(jit, answer);
	return result == CUDA_SUCCESS ? (CUresult)answer->result : result;
}

static CUresult send_load(uint64_t size, void *arg)
{
	const struct load *load = arg;

	return load->jit ? library_compile_image(size, load->library, load->jit)
			 : send_library_load(library_id(load->library), size);
}

CUresult library_load(const void *image, struct context *context, const struct jit *jit,
	struct library **ret_library)
{
	_cleanup_free_ void *joined = NULL;
	struct library *library;
	const void *data;
	CUresult result;
	size_t size;
	int r = image_find(image, &data, &size);

	if (r == 0)
		r = image_join(image, &joined, &size);
	if (r < 0)
		return r == -ENOMEM ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_IMAGE;
	if (size == 0 || size > WIRE_IMAGE_MAX)
		return CUDA_ERROR_INVALID_IMAGE;
	library = slab_take(&libraries);
	if (!library)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_init(&library->lock, NULL);
	library->context = context;
	library->is_refused = false;
	library->managed = 0;
	result = image_send(joined ? joined : data, size, send_load, &(struct load){library, jit});
	if (result != CUDA_SUCCESS) {
		slab_give(&libraries, library);
		return result;
	}
	/* Errors in a library's code are reported when it is used, as in the driver. */
	result = eager_load(library);
	if (result != CUDA_SUCCESS && context) {
		library_unload(library);
		return result;
	}
	*ret_library = library;
	return CUDA_SUCCESS;
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

void library_unload(struct library *library)
{
	struct kernel *kernel;

	managed_variables_end(library);
	memory_end_owner(library);
	while ((kernel = library->kernels)) {
		library->kernels = kernel->next;
		kernel_free(kernel);
	}
	(void)send_library_unload(library_id(library));
	pthread_mutex_destroy(&library->lock);
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

	pthread_mutex_lock(&library->lock);
	if (!kernel->params)
		result = ask_params(kernel);
	pthread_mutex_unlock(&library->lock);
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
	kernel->next = library->kernels;
	library->kernels = kernel;
	*ret_kernel = kernel;
	return CUDA_SUCCESS;
}

CUresult library_kernel(struct library *library, const char *name, struct kernel **ret_kernel)
{
	CUresult result = CUDA_SUCCESS;
	struct kernel *kernel;

	if (unlikely(atomic_load_explicit(&library->is_refused, memory_order_relaxed)))
		return CUDA_ERROR_NOT_SUPPORTED;
	pthread_mutex_lock(&library->lock);
	kernel = library->kernels;
	while (kernel && strcmp(kernel->name, name) != 0)
		kernel = kernel->next;
	if (!kernel)
		result = kernel_new(library, name, &kernel);
	pthread_mutex_unlock(&library->lock);
	*ret_kernel = kernel;
	return result;
}

static CUresult global_ask(const struct library *library, struct context *context, const char *name,
	CUdeviceptr *ret_address, size_t *ret_size)
{
	uint64_t address, size;
	CUresult result = send_library_global(
		library_id(library), context->device->index, name, &address, &size);

	if (result == CUDA_SUCCESS)
		result = memory_add_variable(context, library, address, size);
	if (result != CUDA_SUCCESS)
		return result;
	if (ret_address)
		*ret_address = address;
	if (ret_size)
		*ret_size = size;
	return CUDA_SUCCESS;
}

/* The library has __managed__ variables, which must be placed first. */
static CUresult global_ask_placed(struct library *library, struct context *context,
	const char *name, CUdeviceptr *ret_address, size_t *ret_size)
{
	CUresult placed = managed_variables_place(library), result = CUDA_ERROR_NOT_FOUND;

	if (placed == CUDA_SUCCESS)
		result = managed_variable_find(library, name, ret_address, ret_size);
	if (result == CUDA_ERROR_NOT_FOUND)
		result = global_ask(library, context, name, ret_address, ret_size);
	return result == CUDA_ERROR_NOT_SUPPORTED ? managed_variables_refuse(library, name, placed)
						  : result;
}

CUresult library_global(
	struct library *library, const char *name, CUdeviceptr *ret_address, size_t *ret_size)
{
	struct context *context = library->context;
	CUresult result = context ? context_check() : context_enter(&context);

	if (result != CUDA_SUCCESS)
		return result;
	result = managed_variable_find(library, name, ret_address, ret_size);
	if (result == CUDA_ERROR_NOT_FOUND)
		result = global_ask(library, context, name, ret_address, ret_size);
	return result == CUDA_ERROR_NOT_SUPPORTED
		       ? global_ask_placed(library, context, name, ret_address, ret_size)
		       : result;
}

void modules_end_context(struct context *context)
{
	for (unsigned i = 0; i < libraries.n_ever; i++) {
		struct library *library =
			slab_find(&libraries, libraries.base + i * sizeof(struct library));

		if (library && library->context == context)
			library_unload(library);
	}
}
