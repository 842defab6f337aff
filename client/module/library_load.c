/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Loading and unloading code. Any thread of the application.
 *
 * Invariant: a library's number is reused only after the server was told of its
 * end.
 */

#include "eager.h"
#include "image.h"
#include "library.h"
#include "lock.h"
#include "variable.h"
#include "client/transport/image_send.h"
#include "client/memory/memory.h"
#include "send_module.h"

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
	lock_init(&library->lock, LOCK_LIBRARY);
	library->context = context;
	library->is_refused = false;
	library->managed = 0;
	result = image_send(joined ? joined : data, size, send_load, &(struct load){library, jit});
	if (result != CUDA_SUCCESS) {
		library_free(library);
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

void library_unload(struct library *library)
{
	variables_end(library);
	memory_end_owner(library);
	(void)send_library_unload(library_id(library));
	library_free(library);
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
