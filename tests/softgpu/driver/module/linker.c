/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linking at run time: PTX in any form becomes one file, which is loaded like a
 * cubin.
 *
 * Runs in any thread, under the driver's lock. The result is translated at once, so
 * that errors come from linking and not from loading.
 */

#include <stdio.h>
#include <string.h>

#include "module.h"
#include "tests/softgpu/driver/stream/context.h"
#include "tests/softgpu/ptx/parse/file.h"
#include "tests/softgpu/ptx/parse/parse.h"
#include "tests/softgpu/ptx/parse/texts.h"

#define SAID_SIZE 2048

struct linker {
	struct object object;
	struct ptx_texts texts;
	uint32_t max_regs;
	struct jit jit; /* the arrays belong to the program until the end */
	void **rooms;   /* the option values at the beginning, with the sizes of logs */
	void *image;
};

static void linker_free(struct linker *linker)
{
	ptx_texts_fini(&linker->texts);
	free(linker->rooms);
	free(linker->image);
	free(linker);
}

/* A log may be filled more than once; its length replaces the option value with its size. */
static void say(struct linker *linker, const char *error)
{
	const struct jit *jit = &linker->jit;

	for (unsigned i = 0; i < jit->n_options; i++)
		if (jit->options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES ||
			jit->options[i] == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES)
			jit->values[i] = linker->rooms[i];
	jit_say(jit, error, "");
}

static CUresult create(unsigned n, CUjit_option *options, void **values, CUlinkState *ret_linker)
{
	struct linker *linker;

	if (!ret_linker || (n > 0 && (!options || !values)))
		return CUDA_ERROR_INVALID_VALUE;
	linker = calloc(1, sizeof(*linker));
	if (!linker)
		return CUDA_ERROR_OUT_OF_MEMORY;
	linker->jit = (struct jit){n, options, values};
	linker->max_regs = jit_max_regs(&linker->jit);
	linker->rooms = calloc(MAX(n, 1), sizeof(void *));
	if (!linker->rooms) {
		linker_free(linker);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (n > 0)
		memcpy(linker->rooms, values, n * sizeof(void *));
	say(linker, "");
	object_add(&linker->object, OBJECT_LINKER);
	stat_add(STAT_LINKERS, 1);
	*ret_linker = (CUlinkState)linker;
	return CUDA_SUCCESS;
}

/* PTX is checked when it is added, because the driver compiles it then. */
static int check_text(const char *text, struct ptx_log *log)
{
	_cleanup_(ptx_unit_fini) struct ptx_unit unit = {0};

	return ptx_parse(&unit, text, strlen(text), log);
}

static CUresult result_of(int r)
{
	switch (r) {
	case 0:
		return CUDA_SUCCESS;
	case -ENOEXEC:
		return CUDA_ERROR_NO_BINARY_FOR_GPU;
	case -ENOMEM:
		return CUDA_ERROR_OUT_OF_MEMORY;
	default:
		return CUDA_ERROR_INVALID_PTX;
	}
}

static bool is_input(CUjitInputType type)
{
	return type == CU_JIT_INPUT_PTX || type == CU_JIT_INPUT_CUBIN ||
	       type == CU_JIT_INPUT_FATBINARY;
}

static CUresult add(
	struct linker *linker, CUjitInputType type, const void *data, size_t size, const char *name)
{
	char said[SAID_SIZE] = "", line[SAID_SIZE + 256] = "";
	struct ptx_log log = {.text = said, .size = sizeof(said)};
	size_t first = linker->texts.n;
	int r;

	if (linker->image || !data || size == 0 || (unsigned)type >= CU_JIT_NUM_INPUT_TYPES)
		return CUDA_ERROR_INVALID_VALUE;
	if (type == CU_JIT_INPUT_LIBRARY && device_runtime_is(data, size)) {
		data = device_runtime_ptx;
		size = strlen(device_runtime_ptx);
	} else if (!is_input(type)) {
		/* This linker cannot read objects of the host, and other archives of them. */
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	r = ptx_texts_add(&linker->texts, data, size, &log);
	for (size_t i = first; i < linker->texts.n && r == 0; i++)
		r = check_text(linker->texts.texts[i], &log);
	if (r == 0)
		return CUDA_SUCCESS;
	while (linker->texts.n > first)
		free(linker->texts.texts[--linker->texts.n]);
	snprintf(line, sizeof(line), "%s: %s", name && *name ? name : "input", said);
	say(linker, line);
	return result_of(r);
}

/* The variables of `module', to which the result points. The caller frees. */
static int list_variables(
	const struct ptx_module *module, struct ptx_file_variable **ret_variables, size_t *ret_n)
{
	uint32_t n_globals = ptx_module_n_globals(module);
	struct ptx_file_variable *variables = calloc(MAX(n_globals, 1u), sizeof(*variables));
	size_t n = 0;

	if (!variables)
		return -ENOMEM;
	for (uint32_t i = 0; i < n_globals; i++) {
		const struct ptx_global *global = ptx_module_global(module, i);

		if (!global->is_constant && global->size > 0)
			variables[n++] = (struct ptx_file_variable){
				.name = global->name,
				.size = global->size,
				.align = global->align,
				.initial = ptx_module_initial(module, i),
				.is_managed = global->is_managed,
				.global = i,
			};
	}
	*ret_variables = variables;
	*ret_n = n;
	return 0;
}

/* The file again, with the variables of the linked module. */
static int make_file(const struct ptx_texts *texts, const struct ptx_module *module,
	uint32_t max_regs, void **ret_image, size_t *ret_size)
{
	_cleanup_free_ struct ptx_file_variable *variables = NULL;
	size_t n;
	int r = list_variables(module, &variables, &n);

	return r < 0 ? r
		     : ptx_file_make(texts->texts, texts->n, module, variables, n, max_regs,
			       ret_image, ret_size);
}

static int link_texts(const struct ptx_texts *texts, uint32_t max_regs, char said[SAID_SIZE],
	void **ret_image, size_t *ret_size)
{
	_cleanup_free_ void *draft = NULL;
	struct ptx_module *module = NULL;
	size_t size;
	int r = ptx_file_make(texts->texts, texts->n, NULL, NULL, 0, 0, &draft, &size);

	if (r == 0)
		r = ptx_module_new(draft, size, said, SAID_SIZE, &module);
	if (r == 0)
		r = make_file(texts, module, max_regs, ret_image, ret_size);
	ptx_module_free(module);
	return r;
}

static CUresult complete(struct linker *linker, void **ret_image, size_t *ret_size)
{
	char said[SAID_SIZE] = "";
	void *image = NULL;
	size_t size = 0;
	int r;

	if (linker->image || linker->texts.n == 0)
		return CUDA_ERROR_INVALID_VALUE;
	r = link_texts(&linker->texts, linker->max_regs, said, &image, &size);
	say(linker, said);
	if (r < 0)
		return result_of(r);
	linker->image = image;
	*ret_image = image;
	if (ret_size)
		*ret_size = size;
	return CUDA_SUCCESS;
}

static CUresult add_data(CUlinkState state, CUjitInputType type, void *data, size_t size,
	const char *name, unsigned n, CUjit_option *options, void **values)
{
	struct linker *linker = object_find(OBJECT_LINKER, state);

	if (!linker)
		return CUDA_ERROR_INVALID_HANDLE;
	if (n > 0 && (!options || !values))
		return CUDA_ERROR_INVALID_VALUE;
	return add(linker, type, data, size, name);
}

static CUresult add_file(CUlinkState state, CUjitInputType type, const char *path, unsigned n,
	CUjit_option *options, void **values)
{
	_cleanup_free_ void *data = NULL;
	size_t size = 0;
	CUresult result;

	if (!object_find(OBJECT_LINKER, state))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!path)
		return CUDA_ERROR_INVALID_VALUE;
	result = image_read(path, &data, &size);
	return result == CUDA_SUCCESS ? add_data(state, type, data, size, path, n, options, values)
				      : result;
}

CUresult cuLinkCreate(
	unsigned int numOptions, CUjit_option *options, void **optionValues, CUlinkState *stateOut)
{
	ENTER(CALL_CONTEXT);
	return create(numOptions, options, optionValues, stateOut);
}

CUresult cuLinkCreate_v2(
	unsigned int numOptions, CUjit_option *options, void **optionValues, CUlinkState *stateOut)
{
	ENTER(CALL_CONTEXT);
	return create(numOptions, options, optionValues, stateOut);
}

CUresult cuLinkAddData(CUlinkState state, CUjitInputType type, void *data, size_t size,
	const char *name, unsigned int numOptions, CUjit_option *options, void **optionValues)
{
	ENTER(CALL_INIT);
	return add_data(state, type, data, size, name, numOptions, options, optionValues);
}

CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t size,
	const char *name, unsigned int numOptions, CUjit_option *options, void **optionValues)
{
	ENTER(CALL_INIT);
	return add_data(state, type, data, size, name, numOptions, options, optionValues);
}

CUresult cuLinkAddFile(CUlinkState state, CUjitInputType type, const char *path,
	unsigned int numOptions, CUjit_option *options, void **optionValues)
{
	ENTER(CALL_INIT);
	return add_file(state, type, path, numOptions, options, optionValues);
}

CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path,
	unsigned int numOptions, CUjit_option *options, void **optionValues)
{
	ENTER(CALL_INIT);
	return add_file(state, type, path, numOptions, options, optionValues);
}

CUresult cuLinkComplete(CUlinkState state, void **cubinOut, size_t *sizeOut)
{
	struct linker *linker;

	ENTER(CALL_INIT);
	linker = object_find(OBJECT_LINKER, state);
	if (!linker)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!cubinOut)
		return CUDA_ERROR_INVALID_VALUE;
	return complete(linker, cubinOut, sizeOut);
}

CUresult cuLinkDestroy(CUlinkState state)
{
	struct linker *linker;

	ENTER(CALL_INIT);
	linker = object_find(OBJECT_LINKER, state);
	if (!linker)
		return CUDA_ERROR_INVALID_HANDLE;
	object_remove(&linker->object);
	linker_free(linker);
	stat_add(STAT_LINKERS, -1);
	return CUDA_SUCCESS;
}
