/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The translator: a function's frame, its statements one after the other, and
 * the targets of its branches. Runs on the thread that loads a module.
 */

#include "translate.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base.h"
#include "warp.h"

#define MESSAGE_MAX 512
#define LOCAL_MAX (512u << 10)
#define FRAME_ALIGN 16u

static const struct ptx_op_table *const op_tables[] = {&ptx_int_ops, &ptx_bits_ops, &ptx_wide_ops};

static const struct ptx_family_table *const family_tables[] = {&ptx_float_families,
	&ptx_compare_families, &ptx_move_families, &ptx_convert_families, &ptx_memory_families,
	&ptx_atomic_families, &ptx_control_families, &ptx_meet_families, &ptx_barrier_families,
	&ptx_simd_families, &ptx_async_families, &ptx_cluster_families, &ptx_texture_families,
	&ptx_surface_families, &ptx_matrix_families};

void ptx_tr_fail(struct ptx_tr *tr, int error, const char *format, ...)
{
	char message[MESSAGE_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	ptx_log_fail(tr->log, error, tr->stmt ? tr->stmt->line : tr->function->symbol->line,
		"%s (in '%s')", message, tr->function->symbol->name);
}

void ptx_tr_refuse(struct ptx_tr *tr)
{
	ptx_tr_fail(tr, -ENOTSUP, "unknown instruction '%s'", tr->stmt->opcode);
}

void ptx_tr_bad_operand(struct ptx_tr *tr, uint32_t i)
{
	ptx_tr_fail(
		tr, -EINVAL, "operand %u of '%s' is of the wrong kind", i + 1, tr->stmt->opcode);
}

struct ptx_insn *ptx_tr_emit(struct ptx_tr *tr, ptx_exec_fn *exec)
{
	struct ptx_insn *in;

	if (tr->n_insns == tr->capacity) {
		uint32_t capacity = MAX(tr->capacity * 2, 64u);
		struct ptx_insn *insns = realloc(tr->insns, capacity * sizeof(*insns));

		if (!insns) {
			ptx_tr_fail(tr, -ENOMEM, "out of memory");
			return &tr->spare;
		}
		tr->insns = insns;
		tr->capacity = capacity;
	}
	in = &tr->insns[tr->n_insns++];
	*in = (struct ptx_insn){.exec = exec};
	return in;
}

bool ptx_tr_take(struct ptx_tr *tr, const char *modifier)
{
	for (uint32_t i = 0; i < tr->n_modifiers; i++) {
		if (!tr->taken[i] && !strcmp(tr->modifiers[i], modifier)) {
			tr->taken[i] = true;
			return true;
		}
	}
	return false;
}

int ptx_tr_take_one(struct ptx_tr *tr, const char *const *modifiers)
{
	for (int i = 0; modifiers[i]; i++)
		if (ptx_tr_take(tr, modifiers[i]))
			return i;
	return -1;
}

enum ptx_type ptx_tr_take_type(struct ptx_tr *tr)
{
	for (uint32_t i = 0; i < tr->n_modifiers; i++) {
		enum ptx_type type = ptx_type_find(tr->modifiers[i]);

		if (!tr->taken[i] && type != PTX_NONE) {
			tr->taken[i] = true;
			return type;
		}
	}
	return PTX_NONE;
}

static bool is_hint(const char *modifier)
{
	static const char *const hints[] = {"ca", "cg", "cs", "cv", "lu", "wb", "wt", "nc",
		"relaxed", "acquire", "release", "acq_rel", "volatile", "weak", "mmio", "sc", "cta",
		"gpu", "sys", "cluster", "uni"};

	for (unsigned i = 0; i < ARRAY_SIZE(hints); i++)
		if (!strcmp(modifier, hints[i]))
			return true;
	return !strncmp(modifier, "L1::", 4) || !strncmp(modifier, "L2::", 4);
}

void ptx_tr_take_hints(struct ptx_tr *tr)
{
	for (uint32_t i = 0; i < tr->n_modifiers; i++)
		tr->taken[i] |= is_hint(tr->modifiers[i]);
}

const struct ptx_operand *ptx_tr_operand(struct ptx_tr *tr, uint32_t i)
{
	static const struct ptx_operand none = {.kind = PTX_OPERAND_INT};

	if (i < tr->stmt->n_operands)
		return &tr->stmt->operands[i];
	ptx_tr_fail(tr, -EINVAL, "'%s' has too few operands", tr->stmt->opcode);
	return &none;
}

bool ptx_tr_count(struct ptx_tr *tr, uint32_t n)
{
	if (tr->stmt->n_operands == n)
		return true;
	ptx_tr_fail(tr, -EINVAL, "'%s' has %u operands instead of %u", tr->stmt->opcode,
		tr->stmt->n_operands, n);
	return false;
}

/* "ld.global.v2.f32" into its mnemonic and its modifiers. */
static bool split_opcode(struct ptx_tr *tr, const char *opcode)
{
	size_t len = strcspn(opcode, ".");

	tr->n_modifiers = 0;
	if (len >= PTX_MODIFIER_LEN)
		return false;
	memcpy(tr->mnemonic, opcode, len);
	tr->mnemonic[len] = '\0';
	for (opcode += len; *opcode; opcode += len) {
		len = strcspn(++opcode, ".");
		if (len >= PTX_MODIFIER_LEN || tr->n_modifiers == PTX_MODIFIERS_MAX)
			return false;
		memcpy(tr->modifiers[tr->n_modifiers], opcode, len);
		tr->modifiers[tr->n_modifiers][len] = '\0';
		tr->taken[tr->n_modifiers++] = false;
	}
	return true;
}

static enum ptx_type letter_type(char letter)
{
	switch (letter) {
	case 'p':
		return PTX_PRED;
	case 'h':
		return PTX_B16;
	case 'w':
		return PTX_B32;
	case 'x':
		return PTX_B64;
	case 'f':
		return PTX_F32;
	default:
		return PTX_F64;
	}
}

static void translate_plain(struct ptx_tr *tr, const struct ptx_op *op)
{
	uint32_t n = (uint32_t)strlen(op->operands);
	int32_t rows[5] = {0};
	struct ptx_insn *in;

	if (!ptx_tr_count(tr, n))
		return;
	for (uint32_t i = 1; i < n; i++)
		rows[i] = ptx_tr_source(tr, &tr->stmt->operands[i], letter_type(op->operands[i]));
	rows[0] = ptx_tr_dest(tr, &tr->stmt->operands[0], letter_type(op->operands[0]));
	in = ptx_tr_emit(tr, op->exec);
	in->d = rows[0];
	in->a = rows[1];
	in->b = rows[2];
	in->c = rows[3];
	in->e = rows[4];
}

static const struct ptx_op *find_op(const char *opcode)
{
	for (unsigned t = 0; t < ARRAY_SIZE(op_tables); t++)
		for (uint32_t i = 0; i < op_tables[t]->n; i++)
			if (!strcmp(op_tables[t]->ops[i].name, opcode))
				return &op_tables[t]->ops[i];
	return NULL;
}

static const struct ptx_family *find_family(const char *mnemonic)
{
	for (unsigned t = 0; t < ARRAY_SIZE(family_tables); t++)
		for (uint32_t i = 0; i < family_tables[t]->n; i++)
			if (!strcmp(family_tables[t]->families[i].name, mnemonic))
				return &family_tables[t]->families[i];
	return NULL;
}

static void translate_opcode(struct ptx_tr *tr)
{
	const struct ptx_op *op = find_op(tr->stmt->opcode);
	const struct ptx_family *family;

	if (op) {
		translate_plain(tr, op);
		return;
	}
	if (!split_opcode(tr, tr->stmt->opcode)) {
		ptx_tr_refuse(tr);
		return;
	}
	family = find_family(tr->mnemonic);
	if (!family) {
		ptx_tr_refuse(tr);
		return;
	}
	family->translate(tr);
	for (uint32_t i = 0; i < tr->n_modifiers; i++)
		if (!tr->taken[i])
			ptx_tr_refuse(tr);
}

/* The guard holds for some lanes only; these are at the lower address. */
static const struct ptx_insn *guard_part(
	struct ptx_warp *warp, uint32_t lanes, const struct ptx_insn *in)
{
	ptx_warp_set_pc(warp, lanes, in + 1);
	ptx_warp_set_pc(warp, warp->mask & ~lanes, in + 1 + in->extra);
	return NULL;
}

PTX_EXEC(exec_guard)
{
	const union ptx_reg *p = ptx_source(warp, r, in->a)->v;
	uint32_t mask = warp->mask, lanes = 0;
	const struct ptx_insn *next;

	for (uint32_t left = mask; left; left &= left - 1) {
		unsigned l = (unsigned)__builtin_ctz(left);

		lanes |= (uint32_t)((p[l].u8 ^ in->imm) & 1) << l;
	}
	if (lanes == mask)
		return in + 1;
	if (!lanes)
		return in + 1 + in->extra;
	if (in->extra != 1 || in[1].flags & PTX_INSN_PARTS)
		return guard_part(warp, lanes, in);
	warp->mask = lanes;
	next = in[1].exec(warp, r, in + 1);
	warp->mask = mask;
	return next ? in + 2 : NULL;
}

static void translate_guarded(struct ptx_tr *tr)
{
	struct ptx_operand guard = {.kind = PTX_OPERAND_NAME, .name = tr->stmt->guard};
	int32_t row = ptx_tr_source(tr, &guard, PTX_PRED);
	uint32_t at = tr->n_insns;
	struct ptx_insn *in = ptx_tr_emit(tr, exec_guard);

	in->a = row;
	in->imm = tr->stmt->guard_is_negated;
	in->flags = PTX_INSN_PARTS;
	translate_opcode(tr);
	if (!tr->log->error)
		tr->insns[at].extra = tr->n_insns - at - 1;
}

static bool is_branch(const struct ptx_stmt *stmt)
{
	return !strcmp(stmt->opcode, "bra") || !strcmp(stmt->opcode, "bra.uni");
}

/* Reserves room for a variable in the frame's local memory. */
static void frame_add(struct ptx_tr *tr, struct ptx_symbol *symbol)
{
	uint64_t offset = ALIGN_UP((uint64_t)tr->code->local_size, symbol->align);

	if (symbol->size > LOCAL_MAX || offset + symbol->size > LOCAL_MAX) {
		ptx_tr_fail(tr, -EINVAL, "'%s' is more local memory than a thread can have",
			symbol->name);
		return;
	}
	symbol->offset = offset;
	tr->code->local_size = (uint32_t)(offset + symbol->size);
}

static struct ptx_place *frame_places(struct ptx_tr *tr, struct ptx_symbol **symbols, uint32_t n)
{
	struct ptx_place *places = ptx_arena_alloc(&tr->module->arena, n * sizeof(*places));

	if (!places) {
		ptx_tr_fail(tr, -ENOMEM, "out of memory");
		return NULL;
	}
	for (uint32_t i = 0; i < n && !tr->log->error; i++) {
		places[i].size = (uint32_t)symbols[i]->size;
		if (symbols[i]->space == PTX_SPACE_REG) {
			enum ptx_type type;

			places[i].is_row = true;
			places[i].row = ptx_tr_register(tr, symbols[i]->name, &type);
			continue;
		}
		frame_add(tr, symbols[i]);
		places[i].offset = (uint32_t)symbols[i]->offset;
		places[i].size = (uint32_t)symbols[i]->size;
	}
	return places;
}

static void lay_out_frame(struct ptx_tr *tr)
{
	struct ptx_function *function = tr->function;
	struct ptx_code *code = tr->code;
	struct ptx_stmt head = {
		.scope = function->scope, .line = function->symbol->line, .opcode = ""};

	tr->stmt = &head;
	if (!function->is_entry) {
		code->params = frame_places(tr, function->params, function->n_params);
		code->results = frame_places(tr, function->results, function->n_results);
		code->n_params = function->n_params;
		code->n_results = function->n_results;
	}
	for (uint32_t i = 0; i < function->n_vars; i++)
		if (function->vars[i]->space != PTX_SPACE_SHARED)
			frame_add(tr, function->vars[i]);
	tr->stmt = NULL;
}

/* Sets the final position of the instructions; then branches can point at them. */
static void finish_code(struct ptx_tr *tr, const uint32_t *starts)
{
	struct ptx_insn *insns = ptx_arena_alloc(&tr->module->arena, tr->n_insns * sizeof(*insns));

	if (!insns) {
		ptx_tr_fail(tr, -ENOMEM, "out of memory");
		return;
	}
	memcpy(insns, tr->insns, tr->n_insns * sizeof(*insns));
	for (uint32_t i = 0; i < tr->n_insns; i++) {
		if (!(insns[i].flags & PTX_INSN_BRANCH))
			continue;
		insns[i].target = insns + starts[insns[i].imm];
	}
	tr->code->insns = insns;
	tr->code->n_insns = tr->n_insns;
	tr->code->n_rows = tr->n_rows;
	tr->code->local_size = ALIGN_UP(tr->code->local_size, FRAME_ALIGN);
	for (struct ptx_call *call = tr->calls; call; call = call->next) {
		call->caller_rows = tr->code->n_rows;
		call->caller_local = tr->code->local_size;
	}
}

void ptx_translate_function(struct ptx_tr *tr, struct ptx_function *function)
{
	_cleanup_free_ uint32_t *starts = NULL;

	tr->function = function;
	tr->code = &tr->module->codes[function->index];
	tr->n_insns = 0;
	tr->n_rows = PTX_ROWS_FIRST;
	tr->calls = NULL;
	starts = calloc(function->n_stmts + 1, sizeof(*starts));
	if (!starts) {
		ptx_tr_fail(tr, -ENOMEM, "out of memory");
		return;
	}
	lay_out_frame(tr);
	for (uint32_t i = 0; i < function->n_stmts && !tr->log->error; i++) {
		tr->stmt = &function->stmts[i];
		starts[i] = tr->n_insns;
		if (tr->stmt->guard && !is_branch(tr->stmt))
			translate_guarded(tr);
		else
			translate_opcode(tr);
	}
	starts[function->n_stmts] = tr->n_insns;
	tr->stmt = NULL;
	ptx_tr_emit_end(tr);
	if (!tr->log->error)
		finish_code(tr, starts);
} /* NOLINT(clang-analyzer-unix.Malloc): the cleanup frees it */
