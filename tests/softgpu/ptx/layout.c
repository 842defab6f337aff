/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The layout of a module. Runs on the thread that loads it. This file computes every
 * offset and size of parameters, shared memory and initial values.
 */

#include "layout.h"

#include <string.h>

#include "base.h"

#define SHARED_MAX (227ull << 10)
#define PARAMS_MAX (32ull << 10)
#define SHARED_ALIGN_MIN 16u

static int out_of_memory(struct ptx_log *log)
{
	return ptx_log_fail(log, -ENOMEM, 0, "out of memory");
}

static bool is_global(const struct ptx_symbol *symbol)
{
	return (symbol->space == PTX_SPACE_GLOBAL || symbol->space == PTX_SPACE_CONST) &&
	       !symbol->is_extern;
}

static int layout_functions(struct ptx_module *module, struct ptx_unit *unit, struct ptx_log *log)
{
	struct ptx_function *function;
	uint32_t kernel = 0;

	for (function = unit->functions; function; function = function->next) {
		function->index = module->n_codes++;
		module->n_kernels += function->is_entry;
	}
	module->codes = ptx_arena_alloc(&module->arena, module->n_codes * sizeof(*module->codes));
	module->kernels =
		ptx_arena_alloc(&module->arena, module->n_kernels * sizeof(*module->kernels));
	if (!module->codes || !module->kernels)
		return out_of_memory(log);
	for (function = unit->functions; function; function = function->next) {
		const char *name = function->symbol->name;
		struct ptx_code *code = &module->codes[function->index];

		code->is_known = !function->is_entry;
		code->name = ptx_arena_string(&module->arena, name, strlen(name));
		if (!code->name)
			return out_of_memory(log);
		if (!function->is_entry)
			continue;
		module->kernels[kernel].code = code;
		module->kernels[kernel].module = module;
		module->kernels[kernel++].info.name = code->name;
	}
	return 0;
}

/* The address in an initial value. */
static int layout_reloc(struct ptx_module *module, struct ptx_unit *unit,
	const struct ptx_scope *scope, struct ptx_global_code *global, const struct ptx_init *init,
	struct ptx_log *log)
{
	uint32_t index;
	struct ptx_symbol *symbol = ptx_symbol_find(unit, scope, init->symbol, &index);
	struct ptx_reloc *reloc = ptx_arena_alloc(&module->arena, sizeof(*reloc));

	if (!reloc)
		return out_of_memory(log);
	*reloc = (struct ptx_reloc){.next = global->relocs,
		.addend = init->value,
		.offset = init->offset,
		.size = init->size,
		.mask = init->mask};
	if (symbol && symbol->kind == PTX_SYMBOL_VAR && is_global(symbol)) {
		reloc->global = symbol->global;
	} else if (symbol && symbol->kind == PTX_SYMBOL_FUNC && symbol->function->has_body) {
		reloc->is_function = true;
		reloc->addend +=
			PTX_WINDOW_CODE + ((uint64_t)symbol->function->index + 1) * PTX_CODE_STRIDE;
	} else {
		return ptx_log_fail(log, -EINVAL, 0,
			"'%s' holds the address of '%s', which is not defined", global->info.name,
			init->symbol);
	}
	global->relocs = reloc;
	return 0;
}

static int layout_values(struct ptx_module *module, struct ptx_unit *unit,
	const struct ptx_symbol *symbol, struct ptx_global_code *global, struct ptx_log *log)
{
	const struct ptx_init *init;

	if (!symbol->inits)
		return 0;
	global->bytes = ptx_arena_alloc(&module->arena, symbol->size);
	if (!global->bytes)
		return out_of_memory(log);
	for (init = symbol->inits; init; init = init->next) {
		int r;

		if (!init->symbol) {
			memcpy(global->bytes + init->offset, &init->value, MIN(init->size, 8u));
			continue;
		}
		r = layout_reloc(module, unit, symbol->home, global, init, log);
		if (r < 0)
			return r;
	}
	return 0;
}

static int layout_globals(struct ptx_module *module, struct ptx_unit *unit, struct ptx_log *log)
{
	for (uint32_t i = 0; i < unit->n_vars; i++)
		if (is_global(unit->vars[i]))
			unit->vars[i]->global = module->n_globals++;
	module->globals =
		ptx_arena_alloc(&module->arena, module->n_globals * sizeof(*module->globals));
	if (!module->globals)
		return out_of_memory(log);
	for (uint32_t i = 0; i < unit->n_vars; i++) {
		const struct ptx_symbol *symbol = unit->vars[i];
		struct ptx_global_code *global;
		int r;

		if (!is_global(symbol))
			continue;
		global = &module->globals[symbol->global];
		global->info.name =
			ptx_arena_string(&module->arena, symbol->name, strlen(symbol->name));
		global->info.size = symbol->size;
		global->info.align = symbol->align;
		global->info.is_constant = symbol->space == PTX_SPACE_CONST;
		global->info.is_managed = symbol->is_managed;
		if (!global->info.name)
			return out_of_memory(log);
		r = layout_values(module, unit, symbol, global, log);
		if (r < 0)
			return r;
	}
	return 0;
}

int ptx_layout_module(struct ptx_module *module, struct ptx_unit *unit, struct ptx_log *log)
{
	int r = layout_functions(module, unit, log);

	return r < 0 ? r : layout_globals(module, unit, log);
}

static int layout_params(struct ptx_module *module, struct ptx_function *function,
	struct ptx_kernel_info *info, struct ptx_log *log)
{
	struct ptx_param *params =
		ptx_arena_alloc(&module->arena, function->n_params * sizeof(*params));
	uint64_t size = 0;

	if (!params)
		return out_of_memory(log);
	for (uint32_t i = 0; i < function->n_params; i++) {
		struct ptx_symbol *param = function->params[i];

		size = ALIGN_UP(size, (uint64_t)param->align);
		if (param->size > PARAMS_MAX || size + param->size > PARAMS_MAX ||
			param->space != PTX_SPACE_PARAM)
			return ptx_log_fail(log, -EINVAL, param->line,
				"parameters of '%s' that a kernel can't have", info->name);
		param->offset = size;
		param->is_entry_param = true;
		params[i] = (struct ptx_param){(uint32_t)size, (uint32_t)param->size};
		size += param->size;
	}
	info->params = params;
	info->n_params = function->n_params;
	info->param_size = (uint32_t)size;
	return 0;
}

/* The state of shared memory: the next offset, and the alignment of the dynamic part. */
struct shared {
	uint64_t size;
	uint32_t dynamic_align;
};

static int shared_add(struct shared *shared, struct ptx_symbol *symbol, struct ptx_log *log)
{
	if (symbol->is_unsized) {
		shared->dynamic_align = MAX(shared->dynamic_align, symbol->align);
		return 0;
	}
	if (symbol->is_extern)
		return 0;
	symbol->offset = ALIGN_UP(shared->size, (uint64_t)symbol->align);
	if (symbol->size > SHARED_MAX || symbol->offset + symbol->size > SHARED_MAX)
		return ptx_log_fail(log, -EINVAL, symbol->line,
			"'%s' is more shared memory than a block can have", symbol->name);
	shared->size = symbol->offset + symbol->size;
	return 0;
}

static int shared_add_of(
	struct shared *shared, const struct ptx_function *function, struct ptx_log *log)
{
	int r = 0;

	for (uint32_t i = 0; i < function->n_vars && r >= 0; i++)
		if (function->vars[i]->space == PTX_SPACE_SHARED)
			r = shared_add(shared, function->vars[i], log);
	return r;
}

/* Memory of all kernels: that of the module, and of the functions that they call. */
static int shared_common(struct ptx_unit *unit, struct shared *common, struct ptx_log *log)
{
	int r = 0;

	for (uint32_t i = 0; i < unit->n_vars && r >= 0; i++)
		if (unit->vars[i]->space == PTX_SPACE_SHARED)
			r = shared_add(common, unit->vars[i], log);
	for (struct ptx_function *f = unit->functions; f && r >= 0; f = f->next)
		if (!f->is_entry)
			r = shared_add_of(common, f, log);
	return r;
}

static bool name_uses(const struct ptx_unit *unit, const struct ptx_function *function,
	const struct ptx_scope *scope, const char *name, const bool *uses)
{
	uint32_t index;
	const struct ptx_symbol *symbol = ptx_symbol_find(unit, scope, name, &index);

	if (!symbol)
		return false;
	if (symbol->kind == PTX_SYMBOL_FUNC)
		return symbol->function->has_body && uses[symbol->function->index];
	return symbol->kind == PTX_SYMBOL_VAR && symbol->space == PTX_SPACE_SHARED &&
	       !symbol->is_unsized && (symbol->is_global_scope || !function->is_entry);
}

/* A call by address may reach any function. */
static bool stmt_uses(const struct ptx_unit *unit, const struct ptx_function *function,
	const struct ptx_stmt *stmt, const bool *uses, bool any_function_uses)
{
	bool is_call = !strncmp(stmt->opcode, "call", 4), has_name = false;

	for (uint32_t i = 0; i < stmt->n_operands; i++) {
		const struct ptx_operand *operand = &stmt->operands[i];
		const struct ptx_operand *items = operand->n_items ? operand->items : operand;

		for (uint32_t k = 0; k < MAX(operand->n_items, 1u); k++) {
			uint32_t index;
			struct ptx_symbol *symbol;

			if (items[k].kind != PTX_OPERAND_NAME)
				continue;
			if (name_uses(unit, function, stmt->scope, items[k].name, uses))
				return true;
			symbol = ptx_symbol_find(unit, stmt->scope, items[k].name, &index);
			has_name |= symbol && symbol->kind == PTX_SYMBOL_FUNC;
		}
	}
	return is_call && !has_name && any_function_uses;
}

/* Finds the functions that use common shared memory, directly or through calls. */
static void find_users(const struct ptx_unit *unit, bool *uses)
{
	bool has_changed = true, any_function_uses = false;

	while (has_changed) {
		has_changed = false;
		for (const struct ptx_function *f = unit->functions; f; f = f->next) {
			for (uint32_t i = 0; i < f->n_stmts && !uses[f->index]; i++)
				uses[f->index] =
					stmt_uses(unit, f, &f->stmts[i], uses, any_function_uses);
			if (uses[f->index] && !f->is_entry && !any_function_uses)
				has_changed = any_function_uses = true;
		}
	}
}

static int layout_shared(struct ptx_kernel *kernel, const struct ptx_function *function,
	const struct shared *common, bool uses_common, struct ptx_log *log)
{
	struct shared shared = {.dynamic_align = common->dynamic_align};
	int r;

	if (uses_common)
		shared.size = common->size;
	r = shared_add_of(&shared, function, log);
	if (r < 0)
		return r;
	kernel->info.shared_static = (uint32_t)shared.size;
	kernel->shared_align = MAX(shared.dynamic_align, SHARED_ALIGN_MIN);
	return 0;
}

int ptx_layout_kernels(struct ptx_module *module, struct ptx_unit *unit, struct ptx_log *log)
{
	_cleanup_free_ bool *uses = calloc(module->n_codes + 1, sizeof(*uses));
	struct shared common = {.dynamic_align = SHARED_ALIGN_MIN};
	struct ptx_kernel *kernel = module->kernels;
	int r;

	if (!uses)
		return out_of_memory(log);
	r = shared_common(unit, &common, log);
	if (r < 0)
		return r;
	if (common.size)
		find_users(unit, uses);
	for (struct ptx_function *f = unit->functions; f; f = f->next) {
		if (!f->is_entry)
			continue;
		kernel->info.max_threads = f->max_threads ? f->max_threads : 1024;
		kernel->info.n_regs = f->max_regs;
		kernel->info.ptx_version = unit->arch;
		memcpy(kernel->info.cluster, f->cluster, sizeof(f->cluster));
		for (uint32_t i = 0; i < f->n_vars; i++)
			if (f->vars[i]->space == PTX_SPACE_LOCAL)
				kernel->info.local_size += (uint32_t)f->vars[i]->size;
		r = layout_params(module, f, &kernel->info, log);
		if (r < 0)
			return r;
		r = layout_shared(kernel, f, &common, uses[f->index], log);
		if (r < 0)
			return r;
		kernel++;
	}
	return 0; /* NOLINT(clang-analyzer-unix.Malloc): the cleanup frees it */
}
