/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Modules: from an image to kernels and globals. Runs on the thread that loads, binds
 * or queries; a module is read-only once it is initialised.
 */

#include <string.h>

#include "base.h"
#include "layout.h"
#include "ptx.h"
#include "translate.h"
#include "tests/softgpu/ptx/parse/texts.h"

/*
 * The registers that a device's compiler would use, estimated from those that the
 * text names. The estimate is low enough that a block of any size can start.
 */
#define REGS_MIN 10u
#define REGS_MAX 64u
#define REGS_NAMED_PER_REAL 2u

static int translate_functions(struct ptx_tr *tr, struct ptx_unit *unit)
{
	for (struct ptx_function *f = unit->functions; f && !tr->log->error; f = f->next)
		ptx_translate_function(tr, f);
	free(tr->insns);
	return tr->log->error;
}

/* Row 0 is zero; a frame has at least this row. */
static int translate_module(struct ptx_module *module, struct ptx_unit *unit, struct ptx_log *log)
{
	_cleanup_(ptx_constants_fini) struct ptx_constants constants = {0};
	struct ptx_tr tr = {.module = module, .unit = unit, .log = log, .constants = &constants};
	uint32_t row;
	bool is_new;
	int r;

	r = ptx_constants_add(&constants, 0, 0, &row, &is_new);
	if (r < 0)
		return ptx_log_fail(log, r, 0, "out of memory");
	r = translate_functions(&tr, unit);
	if (r < 0)
		return r;
	module->n_constants = constants.n;
	module->constants = TAKE_PTR(constants.rows);
	return 0;
}

/* Variables that the driver's caller has placed do not belong to the module. */
static int place_globals(
	struct ptx_module *module, const struct ptx_texts *texts, struct ptx_log *log)
{
	size_t n = 0;

	if (!texts->placed)
		return 0;
	for (uint32_t i = 0; i < module->n_globals; i++) {
		struct ptx_global *global = &module->globals[i].info;

		if (global->is_constant || global->size == 0)
			continue;
		if (n == texts->n_placed)
			return ptx_log_fail(log, -EINVAL, 0, "'%s' has no address", global->name);
		if (texts->placed[n++] == 0)
			continue;
		global->address = texts->placed[n - 1];
		global->is_managed = false;
		global->is_placed = true;
	}
	return n == texts->n_placed ? 0 : ptx_log_fail(log, -EINVAL, 0, "addresses of nothing");
}

/* What the translation shows. .maxnreg is in n_regs so far. */
static void complete_info(struct ptx_kernel *kernel)
{
	uint32_t limit = kernel->info.n_regs ? kernel->info.n_regs : REGS_MAX;

	kernel->info.has_open_stack = kernel->code->has_open_stack;
	kernel->info.n_regs = MIN(MAX(kernel->code->n_rows / REGS_NAMED_PER_REAL, REGS_MIN), limit);
}

void ptx_module_limit_registers(struct ptx_module *module, uint32_t max_regs)
{
	for (uint32_t i = 0; i < module->n_kernels; i++)
		module->kernels[i].info.n_regs = MIN(module->kernels[i].info.n_regs, max_regs);
}

/* Kernels of a module share its constants, so each has the size of all of them. */
static void count_constants(struct ptx_module *module)
{
	uint64_t size = 0;

	for (uint32_t i = 0; i < module->n_globals; i++) {
		const struct ptx_global *global = &module->globals[i].info;

		if (global->is_constant)
			size = ALIGN_UP(size, (uint64_t)global->align) + global->size;
	}
	for (uint32_t i = 0; i < module->n_kernels; i++)
		module->kernels[i].info.const_size = (uint32_t)size;
}

static int load_texts(struct ptx_module *module, const struct ptx_texts *texts, struct ptx_log *log)
{
	_cleanup_(ptx_unit_fini) struct ptx_unit unit = {0};
	int r;

	for (size_t i = 0; i < texts->n; i++) {
		r = ptx_parse(&unit, texts->texts[i], strlen(texts->texts[i]), log);
		if (r < 0)
			return r;
	}
	if (!texts->is_linked)
		ptx_unit_complete(&unit);
	r = ptx_layout_module(module, &unit, log);
	if (r == 0)
		r = place_globals(module, texts, log);
	if (r < 0)
		return r;
	r = ptx_layout_kernels(module, &unit, log);
	if (r < 0)
		return r;
	r = translate_module(module, &unit, log);
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < module->n_kernels; i++)
		complete_info(&module->kernels[i]);
	count_constants(module);
	if (texts->max_regs)
		ptx_module_limit_registers(module, texts->max_regs);
	return 0;
}

static void module_freep(struct ptx_module **module)
{
	ptx_module_free(*module);
}

int ptx_module_new(
	const void *image, size_t size, char *log, size_t log_size, struct ptx_module **ret_module)
{
	_cleanup_(module_freep) struct ptx_module *module = NULL;
	_cleanup_(ptx_texts_fini) struct ptx_texts texts = {0};
	struct ptx_log message = {.text = log, .size = log_size};
	int r;

	if (log && log_size)
		log[0] = '\0';
	module = calloc(1, sizeof(*module));
	if (!module)
		return ptx_log_fail(&message, -ENOMEM, 0, "out of memory");
	r = ptx_texts_add(&texts, image, size, &message);
	if (r == 0)
		r = load_texts(module, &texts, &message);
	if (r < 0)
		return r; /* NOLINT(clang-analyzer-unix.Malloc): the cleanup frees it */
	*ret_module = TAKE_PTR(module);
	return 0;
}

void ptx_module_free(struct ptx_module *module)
{
	if (!module)
		return;
	free(module->constants);
	ptx_arena_fini(&module->arena);
	free(module);
}

uint32_t ptx_module_n_kernels(const struct ptx_module *module)
{
	return module->n_kernels;
}

const struct ptx_kernel *ptx_module_kernel(const struct ptx_module *module, uint32_t i)
{
	return i < module->n_kernels ? &module->kernels[i] : NULL;
}

const struct ptx_kernel *ptx_module_find(const struct ptx_module *module, const char *name)
{
	for (uint32_t i = 0; i < module->n_kernels; i++)
		if (!strcmp(module->kernels[i].info.name, name))
			return &module->kernels[i];
	return NULL;
}

const struct ptx_kernel_info *ptx_kernel_info(const struct ptx_kernel *kernel)
{
	return &kernel->info;
}

uint32_t ptx_module_n_globals(const struct ptx_module *module)
{
	return module->n_globals;
}

const struct ptx_global *ptx_module_global(const struct ptx_module *module, uint32_t i)
{
	return i < module->n_globals ? &module->globals[i].info : NULL;
}

const uint8_t *ptx_module_initial(const struct ptx_module *module, uint32_t i)
{
	return i < module->n_globals ? module->globals[i].bytes : NULL;
}

void ptx_module_bind(struct ptx_module *module, uint32_t i, uint64_t address)
{
	struct ptx_global *global = i < module->n_globals ? &module->globals[i].info : NULL;

	if (global && global->is_placed)
		global->copy = address;
	else if (global)
		global->address = address;
}

static uint64_t reloc_value(const struct ptx_module *module, const struct ptx_reloc *reloc)
{
	uint64_t value = reloc->addend;

	if (!reloc->is_function)
		value += module->globals[reloc->global].info.address;
	if (reloc->mask)
		value = (value & reloc->mask) >> __builtin_ctzll(reloc->mask);
	return value;
}

bool ptx_module_value_address(const struct ptx_module *module, uint32_t i, uint32_t k,
	struct ptx_value_address *ret_address)
{
	const struct ptx_reloc *reloc = i < module->n_globals ? module->globals[i].relocs : NULL;

	while (reloc && k-- > 0)
		reloc = reloc->next;
	if (!reloc)
		return false;
	*ret_address = (struct ptx_value_address){
		.offset = reloc->offset,
		.value = reloc->is_function ? 0 : reloc->addend,
		.global = reloc->is_function ? UINT32_MAX : reloc->global,
		.is_part = reloc->mask != 0 || reloc->size != 8,
	};
	return true;
}

static void global_init(const struct ptx_module *module, const struct ptx_global_code *global)
{
	uint8_t *p = (uint8_t *)(uintptr_t)(global->info.is_placed ? global->info.copy
								   : global->info.address);

	if (!p)
		return;
	if (global->bytes)
		memcpy(p, global->bytes, global->info.size);
	else
		memset(p, 0, global->info.size);
	for (const struct ptx_reloc *reloc = global->relocs; reloc; reloc = reloc->next) {
		uint64_t value = reloc_value(module, reloc);

		memcpy(p + reloc->offset, &value, MIN(reloc->size, 8u));
	}
}

int ptx_module_init(struct ptx_module *module)
{
	for (uint32_t i = 0; i < module->n_globals; i++)
		if (!module->globals[i].info.address && module->globals[i].info.size)
			return -EINVAL;
	for (uint32_t i = 0; i < module->n_globals; i++)
		if (module->globals[i].info.size)
			global_init(module, &module->globals[i]);
	for (const struct ptx_reloc *reloc = module->relocs; reloc; reloc = reloc->next)
		for (unsigned l = 0; l < PTX_LANES; l++)
			module->constants[reloc->constant].v[l].u64 = reloc_value(module, reloc);
	return 0;
}
