/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Linking at run time: inputs go to the server, whose driver compiles and links
 * them; the result comes back. Any thread of the application.
 *
 * Invariant: the linker owns the result, which stays at one address until the
 * linker ends. The program owns the logs, which contain all messages so far
 * whenever a call returns.
 */

#include <string.h>

#include "calls_module.h"
#include "image_file.h"
#include "jit.h"
#include "lock.h"
#include "client/util/slab.h"
#include "client/transport/image_send.h"
#include "client/transport/route.h"
#include "client/context/context.h"
#include "send_module.h"

#define LINKERS_MAX 4096

_Static_assert(LINKERS_MAX <= WIRE_OBJECTS_MAX, "wire");

struct linker {
	struct slab_head slab;
	struct jit jit;
	uint8_t *made; /* NULL: not linked yet */
};

static struct slab linkers = {
	.lock = LOCK_INIT(SLAB),
	.object_size = sizeof(struct linker),
	.n_max = LINKERS_MAX,
};

/* An input, as sent to the server. */
struct input {
	struct linker *linker;
	CUjitInputType type;
	const char *name;
	struct jit jit; /* of this input only */
	struct jit_answer *answer;
};

CUresult local_cuLinkCreate_v2(
	unsigned int numOptions, CUjit_option *options, void **optionValues, CUlinkState *stateOut)
{
	struct linker *linker;
	CUresult result;

	linker = slab_take(&linkers);
	if (!linker)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = jit_read(&linker->jit, options, optionValues, numOptions);
	if (result == CUDA_SUCCESS)
		result = send_linker_create(slab_id(&linkers, linker),
			context_current->device->index,
			MIN(linker->jit.error.size, WIRE_JIT_LOG_MAX),
			MIN(linker->jit.info.size, WIRE_JIT_LOG_MAX), linker->jit.options,
			linker->jit.n_options);
	if (result != CUDA_SUCCESS) {
		slab_give(&linkers, linker);
		return result;
	}
	*stateOut = (CUlinkState)linker;
	return CUDA_SUCCESS;
}

static CUresult send_input(uint64_t size, void *arg)
{
	const struct input *input = arg;
	struct jit_answer *answer = input->answer;

	return send_linker_add(slab_id(&linkers, input->linker), input->type, size - 1,
		input->jit.options, input->jit.n_options, input->name, &answer->result,
		&answer->error_filled, &answer->info_filled, &answer->error_length, answer->logs,
		sizeof(answer->logs), &answer->n_logs);
}

/* `data' has a NUL after its `size' bytes. */
static CUresult add_input(struct input *input, const void *data, size_t size)
{
	_cleanup_free_ struct jit_answer *answer = calloc(1, sizeof(*answer));
	struct jit logs = input->linker->jit;
	CUresult result;

	if (!answer)
		return CUDA_ERROR_OUT_OF_MEMORY;
	input->answer = answer;
	result = image_send(data, size + 1, send_input, input);
	logs.n_options = 0;
	if (result == CUDA_SUCCESS)
		jit_write(&logs, answer);
	return result == CUDA_SUCCESS ? (CUresult)answer->result : result;
}

/* The part that both ways of adding share. */
static CUresult input_init(struct input *input, CUlinkState state, CUjitInputType type,
	const char *name, unsigned n_options, CUjit_option *options, void **values)
{
	struct linker *linker = slab_find(&linkers, state);

	if (!linker)
		return CUDA_ERROR_INVALID_HANDLE;
	if ((n_options && (!options || !values)) || (unsigned)type >= CU_JIT_NUM_INPUT_TYPES ||
		linker->made)
		return CUDA_ERROR_INVALID_VALUE;
	*input = (struct input){.linker = linker, .type = type, .name = name ? name : ""};
	if (type == CU_JIT_INPUT_NVVM)
		return refuse("linking of NVVM code", "the driver no longer accepts it");
	if (strlen(input->name) >= WIRE_NAME_MAX_BYTES)
		return CUDA_ERROR_INVALID_VALUE;
	return jit_read(&input->jit, options, values, n_options);
}

CUresult local_cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t size,
	const char *name, unsigned int numOptions, CUjit_option *options, void **optionValues)
{
	_cleanup_free_ char *copy = NULL;
	struct input input = {0};
	CUresult result = input_init(&input, state, type, name, numOptions, options, optionValues);

	if (result != CUDA_SUCCESS)
		return result;
	if (!data || size == 0 || size >= WIRE_IMAGE_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	copy = malloc(size + 1);
	if (!copy)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(copy, data, size);
	copy[size] = 0;
	return add_input(&input, copy, size); /* NOLINT(clang-analyzer-unix.Malloc): is freed */
}

CUresult local_cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path,
	unsigned int numOptions, CUjit_option *options, void **optionValues)
{
	_cleanup_free_ char *bytes = NULL;
	struct input input = {0};
	size_t size = 0;
	CUresult result = input_init(&input, state, type, path, numOptions, options, optionValues);

	if (result == CUDA_SUCCESS && !path)
		return CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		result = image_read_file(path, &bytes, &size);
	return result == CUDA_SUCCESS ? add_input(&input, bytes, size) : result;
}

/* Reads in pieces: a cubin is larger than an answer. */
static CUresult read_made(const struct linker *linker, uint8_t *made, uint64_t size)
{
	uint64_t offset = 0;

	while (offset < size) {
		uint32_t n = 0, n_max = (uint32_t)MIN(size - offset, (uint64_t)12288);
		CUresult result = send_linker_read(
			slab_id(&linkers, linker), offset, made + offset, n_max, &n);

		if (result != CUDA_SUCCESS)
			return result;
		if (n == 0 || n > n_max)
			return CUDA_ERROR_MPS_RPC_FAILURE;
		offset += n;
	}
	return CUDA_SUCCESS;
}

static CUresult linker_run(struct linker *linker, uint64_t *ret_size)
{
	_cleanup_free_ struct jit_answer *answer = calloc(1, sizeof(*answer));
	CUresult result;

	if (!answer)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = send_linker_complete(slab_id(&linkers, linker), &answer->result, ret_size,
		answer->values, &answer->error_filled, &answer->info_filled, &answer->error_length,
		answer->logs, sizeof(answer->logs), &answer->n_logs);
	if (result != CUDA_SUCCESS)
		return result;
	jit_write(&linker->jit, answer);
	return (CUresult)answer->result;
}

CUresult local_cuLinkComplete(CUlinkState state, void **cubinOut, size_t *sizeOut)
{
	struct linker *linker = slab_find(&linkers, state);
	_cleanup_free_ uint8_t *made = NULL;
	uint64_t size = 0;
	CUresult result;

	if (!linker)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!cubinOut || linker->made)
		return CUDA_ERROR_INVALID_VALUE;
	result = linker_run(linker, &size);
	if (result != CUDA_SUCCESS)
		return result;
	if (size > WIRE_IMAGE_MAX)
		return CUDA_ERROR_MPS_RPC_FAILURE;
	made = malloc(MAX(size, (uint64_t)1));
	if (!made)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = read_made(linker, made, size);
	if (result != CUDA_SUCCESS)
		return result;
	linker->made = TAKE_PTR(made);
	*cubinOut = linker->made;
	if (sizeOut)
		*sizeOut = size;
	return CUDA_SUCCESS;
}

CUresult local_cuLinkDestroy(CUlinkState state)
{
	struct linker *linker = slab_find(&linkers, state);
	CUresult result;

	if (!linker)
		return CUDA_ERROR_INVALID_HANDLE;
	free(linker->made);
	linker->made = NULL;
	result = send_linker_destroy(slab_id(&linkers, linker));
	slab_give(&linkers, linker);
	return result;
}
