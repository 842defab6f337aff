/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules: code bound to variables in a context.
 *
 * Runs in any thread, under the driver's lock.
 */

#include "module.h"

#include <string.h>

#include "tests/softgpu/driver/memory/memory.h"
#include "tests/softgpu/driver/stream/context.h"

#define VARIABLE_ALIGN ((uint64_t)256)

void settings_init(struct settings *settings)
{
	*settings = (struct settings){.max_dynamic_shared = -1, .carveout = -1};
}

/* Managed memory may already be freed with its context. */
void variables_free(const struct variables *variables)
{
	struct range *range = variables->address ? range_find(variables->address) : NULL;

	if (range && range->id == variables->id)
		memory_free(range);
}

static void module_free(struct module *module)
{
	variables_free(&module->own);
	variables_free(&module->managed);
	code_unref(module->code);
	for (uint32_t i = 0; i < module->n_functions; i++)
		free(module->functions[i].legacy);
	free(module->functions);
	free(module);
	stat_add(STAT_MODULES, -1);
}

void module_ref(struct module *module)
{
	module->refs++;
}

void module_unref(struct module *module)
{
	if (module && --module->refs == 0)
		module_free(module);
}

/* Computes the offset of each variable of one kind from `base', none for 0; and the total size. */
static uint64_t variables_place(struct ptx_module *ptx, bool is_managed, uint64_t base)
{
	uint64_t at = base;

	for (uint32_t i = 0; i < ptx_module_n_globals(ptx); i++) {
		const struct ptx_global *global = ptx_module_global(ptx, i);

		if (global->is_managed != is_managed)
			continue;
		at = ALIGN_UP(at, MAX(global->align, VARIABLE_ALIGN));
		if (base)
			ptx_module_bind(ptx, i, at);
		at += global->size;
	}
	return at - base;
}

static CUresult variables_alloc(struct context *context, struct ptx_module *ptx, bool is_managed,
	struct variables *ret_variables)
{
	uint64_t size = variables_place(ptx, is_managed, 0);
	struct range *range;
	CUresult result;

	*ret_variables = (struct variables){0};
	if (size == 0)
		return CUDA_SUCCESS;
	result = memory_alloc(context, is_managed ? RANGE_MANAGED : RANGE_MODULE, size,
		is_managed ? CU_MEM_ATTACH_GLOBAL : 0, &range);
	if (result != CUDA_SUCCESS)
		return result;
	*ret_variables = (struct variables){range->start, range->id};
	variables_place(ptx, is_managed, range->start);
	return CUDA_SUCCESS;
}

CUresult variables_new_managed(struct code *code, struct variables *ret_variables)
{
	uint64_t size = variables_place(code->ptx, false, 0);
	void *others;
	CUresult result = variables_alloc(NULL, code->ptx, true, ret_variables);

	if (result != CUDA_SUCCESS || !ret_variables->address)
		return result;
	/* The other kinds must be bound too: to memory that is never read. */
	others = calloc(1, size + 2 * VARIABLE_ALIGN);
	if (others) {
		variables_place(
			code->ptx, false, ALIGN_UP((uint64_t)(uintptr_t)others, VARIABLE_ALIGN));
		if (ptx_module_init(code->ptx) < 0)
			result = CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
	} else {
		result = CUDA_ERROR_OUT_OF_MEMORY;
	}
	free(others);
	return result;
}

/* Gives the code's variables their initial values; managed variables keep theirs. */
static CUresult variables_init(struct module *module, const struct variables *managed)
{
	struct ptx_module *ptx = module->code->ptx;
	uint64_t size = managed ? variables_place(ptx, true, managed->address) : 0;
	void *values = (void *)(uintptr_t)(managed ? managed->address : 0);
	void *saved = malloc(size + 1);
	CUresult result = CUDA_SUCCESS;

	if (!saved)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (size > 0)
		memcpy(saved, values, size);
	if (ptx_module_init(ptx) < 0)
		result = CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
	if (size > 0)
		memcpy(values, saved, size);
	free(saved);
	return result;
}

static CUresult variables_bind(struct module *module, const struct variables *managed)
{
	struct ptx_module *ptx = module->code->ptx;
	CUresult result = variables_alloc(module->context, ptx, false, &module->own);

	if (result == CUDA_SUCCESS && !managed)
		result = variables_alloc(module->context, ptx, true, &module->managed);
	return result == CUDA_SUCCESS ? variables_init(module, managed) : result;
}

static CUresult functions_new(struct module *module)
{
	uint32_t n = ptx_module_n_kernels(module->code->ptx);

	module->functions = calloc(MAX(n, 1), sizeof(*module->functions));
	if (!module->functions)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (uint32_t i = 0; i < n; i++) {
		struct function *function = &module->functions[i];

		function->module = module;
		function->kernel = ptx_module_kernel(module->code->ptx, i);
		settings_init(&function->own);
		function->settings = &function->own;
		object_add(&function->object, OBJECT_FUNCTION);
	}
	module->n_functions = n;
	return CUDA_SUCCESS;
}

CUresult module_new(struct context *context, struct code *code, struct library *library,
	const struct variables *managed, struct module **ret_module)
{
	struct module *module = calloc(1, sizeof(*module));
	CUresult result;

	if (!module)
		return CUDA_ERROR_OUT_OF_MEMORY;
	stat_add(STAT_MODULES, 1);
	module->refs = 1;
	module->context = context;
	module->library = library;
	module->code = code;
	code->refs++;
	code->is_bound = true;
	result = variables_bind(module, managed);
	if (result == CUDA_SUCCESS)
		result = functions_new(module);
	if (result != CUDA_SUCCESS) {
		module_unref(module);
		return result;
	}
	module->next = context->modules;
	context->modules = module;
	object_add(&module->object, OBJECT_MODULE);
	*ret_module = module;
	return CUDA_SUCCESS;
}

void module_close(struct module *module)
{
	struct module **link = &module->context->modules;

	while (*link != module)
		link = &(*link)->next;
	*link = module->next;
	if (module->library)
		library_forget(module);
	module->context = NULL;
	module->library = NULL;
	object_remove(&module->object);
	for (uint32_t i = 0; i < module->n_functions; i++) {
		object_remove(&module->functions[i].object);
		module->functions[i].settings = &module->functions[i].own;
	}
	module_unref(module);
}

static const struct ptx_global *variable_find(const struct module *module, const char *name)
{
	for (uint32_t i = 0; i < ptx_module_n_globals(module->code->ptx); i++) {
		const struct ptx_global *global = ptx_module_global(module->code->ptx, i);

		if (strcmp(global->name, name) == 0)
			return global;
	}
	return NULL;
}

bool module_variable(
	const struct module *module, const char *name, CUdeviceptr *dptr, size_t *bytes)
{
	const struct ptx_global *global = variable_find(module, name);

	if (global && dptr)
		*dptr = global->is_placed ? global->copy : global->address;
	if (global && bytes)
		*bytes = global->size;
	return global;
}

static CUresult module_load(CUmodule *ret, const void *image, size_t size, const struct jit *jit)
{
	struct code *code;
	struct module *module;
	CUresult result;

	pthread_mutex_unlock(&driver.lock);
	result = code_new(image, size, jit, &code);
	pthread_mutex_lock(&driver.lock);
	if (result != CUDA_SUCCESS)
		return result;
	result = context_check(); /* it may have been destroyed meanwhile */
	if (result == CUDA_SUCCESS)
		result = module_new(context_current(), code, NULL, NULL, &module);
	code_unref(code);
	if (result == CUDA_SUCCESS)
		*ret = (CUmodule)module;
	return result;
}

static CUresult module_load_data(CUmodule *ret, const void *image, const struct jit *jit)
{
	_cleanup_free_ void *copy = NULL;
	size_t size;
	CUresult result;

	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	result = image_copy(image, &copy, &size);
	return result == CUDA_SUCCESS ? module_load(ret, copy, size, jit) : result;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
	ENTER(CALL_CONTEXT);
	return module_load_data(module, image, &(struct jit){0});
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions,
	CUjit_option *options, void **optionValues)
{
	ENTER(CALL_CONTEXT);
	if (numOptions > 0 && (!options || !optionValues))
		return CUDA_ERROR_INVALID_VALUE;
	return module_load_data(module, image, &(struct jit){numOptions, options, optionValues});
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin)
{
	ENTER(CALL_CONTEXT);
	return module_load_data(module, fatCubin, &(struct jit){0});
}

CUresult cuModuleLoad(CUmodule *module, const char *fname)
{
	_cleanup_free_ void *image = NULL;
	size_t size;
	CUresult result;

	ENTER(CALL_CONTEXT);
	if (!module || !fname)
		return CUDA_ERROR_INVALID_VALUE;
	result = image_read(fname, &image, &size);
	return result == CUDA_SUCCESS ? module_load(module, image, size + 1, &(struct jit){0})
				      : result;
}

CUresult cuModuleUnload(CUmodule hmod)
{
	struct module *module;
	CUresult result;

	ENTER(CALL_OBJECT);
	module = object_find(OBJECT_MODULE, hmod);
	if (!module)
		return CUDA_ERROR_INVALID_HANDLE;
	if (module->library)
		return CUDA_ERROR_NOT_PERMITTED;
	result = device_wait(module->context->device);
	module = object_find(OBJECT_MODULE, hmod);
	if (result == CUDA_SUCCESS && module)
		module_close(module);
	return result;
}

CUresult cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name)
{
	struct module *module;

	ENTER(CALL_ALIVE);
	module = object_find(OBJECT_MODULE, hmod);
	if (!module)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!hfunc || !name || !*name)
		return CUDA_ERROR_INVALID_VALUE;
	for (uint32_t i = 0; i < module->n_functions; i++) {
		if (strcmp(ptx_kernel_info(module->functions[i].kernel)->name, name) != 0)
			continue;
		*hfunc = (CUfunction)&module->functions[i];
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_NOT_FOUND;
}

CUresult cuModuleGetFunctionCount(unsigned int *count, CUmodule mod)
{
	const struct module *module;

	ENTER(CALL_ALIVE);
	module = object_find(OBJECT_MODULE, mod);
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	if (!module)
		return CUDA_ERROR_INVALID_HANDLE;
	*count = module->n_functions;
	return CUDA_SUCCESS;
}

CUresult cuModuleEnumerateFunctions(CUfunction *functions, unsigned int numFunctions, CUmodule mod)
{
	struct module *module;

	ENTER(CALL_ALIVE);
	module = object_find(OBJECT_MODULE, mod);
	if (!functions)
		return CUDA_ERROR_INVALID_VALUE;
	if (!module)
		return CUDA_ERROR_INVALID_HANDLE;
	for (uint32_t i = 0; i < MIN(numFunctions, module->n_functions); i++)
		functions[i] = (CUfunction)&module->functions[i];
	return CUDA_SUCCESS;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod, const char *name)
{
	const struct module *module;

	ENTER(CALL_OBJECT);
	module = object_find(OBJECT_MODULE, hmod);
	if (!module)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!name || (!dptr && !bytes))
		return CUDA_ERROR_INVALID_VALUE;
	return module_variable(module, name, dptr, bytes) ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
	const char *wanted = getenv("CUDA_MODULE_LOADING");

	ENTER(CALL_INIT);
	if (!mode)
		return CUDA_ERROR_INVALID_VALUE;
	*mode = wanted && strcmp(wanted, "EAGER") == 0 ? CU_MODULE_EAGER_LOADING
						       : CU_MODULE_LAZY_LOADING;
	return CUDA_SUCCESS;
}
