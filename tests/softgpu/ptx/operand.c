/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Operands of the translator: registers, literals and addresses become rows.
 * Runs on the thread that loads a module.
 */

#include <string.h>

#include "base.h"
#include "translate.h"
#include "warp.h"

#define CONSTANTS_MIN 64u
#define ROWS_MAX (1u << 20)

static uint32_t constant_hash(uint64_t value, uint32_t tag)
{
	uint64_t h = (value ^ (uint64_t)tag << 32) * 0x9e3779b97f4a7c15ull;

	return (uint32_t)(h >> 32);
}

static struct ptx_constant_key *constant_slot(
	struct ptx_constant_key *keys, uint32_t n_keys, uint64_t value, uint32_t tag)
{
	uint32_t at = constant_hash(value, tag) & (n_keys - 1);

	while (keys[at].row_plus_one && (keys[at].value != value || keys[at].tag != tag))
		at = (at + 1) & (n_keys - 1);
	return &keys[at];
}

static int constants_grow(struct ptx_constants *constants)
{
	uint32_t capacity = MAX(constants->capacity * 2, CONSTANTS_MIN);
	uint32_t n_keys = capacity * 2;
	struct ptx_constant_key *keys;
	struct ptx_row *rows = realloc(constants->rows, capacity * sizeof(*rows));

	if (!rows)
		return -ENOMEM;
	constants->rows = rows;
	keys = calloc(n_keys, sizeof(*keys));
	if (!keys)
		return -ENOMEM;
	for (uint32_t i = 0; i < constants->n_keys; i++) {
		struct ptx_constant_key *key = &constants->keys[i];

		if (key->row_plus_one)
			*constant_slot(keys, n_keys, key->value, key->tag) = *key;
	}
	free(constants->keys);
	constants->keys = keys;
	constants->n_keys = n_keys;
	constants->capacity = capacity;
	return 0;
}

int ptx_constants_add(struct ptx_constants *constants, uint64_t value, uint32_t tag,
	uint32_t *ret_row, bool *ret_is_new)
{
	struct ptx_constant_key *key;

	if (constants->n == constants->capacity) {
		int r = constants_grow(constants);

		if (r < 0)
			return r;
	}
	key = constant_slot(constants->keys, constants->n_keys, value, tag);
	*ret_is_new = !key->row_plus_one;
	if (*ret_is_new) {
		for (unsigned l = 0; l < PTX_LANES; l++)
			constants->rows[constants->n].v[l].u64 = value;
		*key = (struct ptx_constant_key){value, tag, ++constants->n};
	}
	*ret_row = key->row_plus_one - 1;
	return 0;
}

void ptx_constants_fini(struct ptx_constants *constants)
{
	free(constants->keys);
	free(constants->rows);
	*constants = (struct ptx_constants){0};
}

int32_t ptx_tr_constant(struct ptx_tr *tr, uint64_t value)
{
	uint32_t row = 0;
	bool is_new;

	if (ptx_constants_add(tr->constants, value, 0, &row, &is_new) < 0)
		ptx_tr_fail(tr, -ENOMEM, "out of memory");
	return ~(int32_t)row;
}

int32_t ptx_tr_global(struct ptx_tr *tr, uint32_t global, uint64_t addend)
{
	struct ptx_reloc *reloc;
	uint32_t row = 0;
	bool is_new = false;

	if (ptx_constants_add(tr->constants, addend, global + 1, &row, &is_new) < 0)
		ptx_tr_fail(tr, -ENOMEM, "out of memory");
	if (!is_new)
		return ~(int32_t)row;
	reloc = ptx_arena_alloc(&tr->module->arena, sizeof(*reloc));
	if (!reloc) {
		ptx_tr_fail(tr, -ENOMEM, "out of memory");
		return 0;
	}
	reloc->global = global;
	reloc->addend = addend;
	reloc->constant = row;
	reloc->next = tr->module->relocs;
	tr->module->relocs = reloc;
	return ~(int32_t)row;
}

int32_t ptx_tr_temp(struct ptx_tr *tr)
{
	if (tr->n_rows >= ROWS_MAX) {
		ptx_tr_fail(tr, -ENOTSUP, "too many registers");
		return 0;
	}
	return (int32_t)tr->n_rows++;
}

struct ptx_symbol *ptx_tr_symbol(struct ptx_tr *tr, const char *name, uint32_t *ret_index)
{
	return ptx_symbol_find(tr->unit, tr->stmt->scope, name, ret_index);
}

static int32_t register_row(struct ptx_tr *tr, struct ptx_symbol *symbol, uint32_t index)
{
	if (!symbol->slots) {
		symbol->slots = ptx_arena_alloc(
			&tr->unit->arena, MAX(symbol->count, 1u) * sizeof(*symbol->slots));
		if (!symbol->slots) {
			ptx_tr_fail(tr, -ENOMEM, "out of memory");
			return 0;
		}
	}
	if (!symbol->slots[index])
		symbol->slots[index] = (uint32_t)ptx_tr_temp(tr);
	return (int32_t)symbol->slots[index];
}

int32_t ptx_tr_register(struct ptx_tr *tr, const char *name, enum ptx_type *ret_type)
{
	uint32_t index;
	struct ptx_symbol *symbol = ptx_tr_symbol(tr, name, &index);

	if (!symbol || symbol->kind != PTX_SYMBOL_REG) {
		ptx_tr_fail(tr, -EINVAL, "'%s' is not a register", name);
		*ret_type = PTX_B64;
		return 0;
	}
	if (symbol->type == PTX_B128)
		ptx_tr_fail(tr, -ENOTSUP, "registers of 128 bits");
	*ret_type = symbol->type;
	return register_row(tr, symbol, index);
}

PTX_EXEC(exec_frame_address)
{
	PTX_DEST(d);

	PTX_LANES_DO(warp, d[l].u64 = warp->local_base + (uint64_t)in->imm;);
	return in + 1;
}

PTX_EXEC(exec_dynamic_shared)
{
	PTX_DEST(d);

	PTX_LANES_DO(warp, d[l].u64 = warp->run->shared_dynamic + (uint64_t)in->imm;);
	return in + 1;
}

static int32_t emit_address(struct ptx_tr *tr, ptx_exec_fn *exec, int64_t offset)
{
	int32_t row = ptx_tr_temp(tr);
	struct ptx_insn *in = ptx_tr_emit(tr, exec);

	in->d = row;
	in->imm = offset;
	return row;
}

int32_t ptx_tr_address(struct ptx_tr *tr, const struct ptx_symbol *symbol, int64_t offset)
{
	int64_t at = (int64_t)symbol->offset + offset;

	switch (symbol->space) {
	case PTX_SPACE_GLOBAL:
	case PTX_SPACE_CONST:
		if (symbol->is_extern) {
			ptx_tr_fail(tr, -EINVAL, "'%s' is not defined", symbol->name);
			return 0;
		}
		return ptx_tr_global(tr, symbol->global, (uint64_t)offset);
	case PTX_SPACE_SHARED:
		if (symbol->is_unsized)
			return emit_address(tr, exec_dynamic_shared, offset);
		if (symbol->is_extern) {
			ptx_tr_fail(tr, -EINVAL, "'%s' is not defined", symbol->name);
			return 0;
		}
		return ptx_tr_constant(tr, (uint64_t)at);
	case PTX_SPACE_PARAM:
		if (symbol->is_entry_param)
			return ptx_tr_constant(tr, (uint64_t)at);
		return emit_address(tr, exec_frame_address, at);
	case PTX_SPACE_LOCAL:
		return emit_address(tr, exec_frame_address, at);
	default:
		ptx_tr_fail(tr, -EINVAL, "'%s' has no address", symbol->name);
		return 0;
	}
}

/* A name that is not a register: a symbol's address, or a special register. */
static int32_t name_source(struct ptx_tr *tr, const struct ptx_operand *operand)
{
	uint32_t index;
	struct ptx_symbol *symbol = ptx_tr_symbol(tr, operand->name, &index);

	if (!symbol) {
		int32_t row = ptx_tr_temp(tr);

		if (!ptx_tr_special(tr, operand->name, row))
			ptx_tr_fail(tr, *operand->name == '%' ? -ENOTSUP : -EINVAL,
				"'%s' is not known", operand->name);
		return row;
	}
	if (symbol->kind == PTX_SYMBOL_VAR)
		return ptx_tr_address(tr, symbol, operand->offset);
	if (symbol->kind != PTX_SYMBOL_FUNC) {
		ptx_tr_fail(tr, -EINVAL, "'%s' is not a value", operand->name);
		return 0;
	}
	if (!symbol->function->has_body) {
		ptx_tr_fail(tr, -ENOTSUP, "unknown function '%s'", operand->name);
		return 0;
	}
	return ptx_tr_constant(
		tr, PTX_WINDOW_CODE + ((uint64_t)symbol->function->index + 1) * PTX_CODE_STRIDE);
}

/* A double is rounded where a float is needed, as PTX defines. */
static int32_t literal_source(
	struct ptx_tr *tr, const struct ptx_operand *operand, enum ptx_type type)
{
	uint32_t size = ptx_type_size(type);
	uint64_t value = operand->value;
	bool is_float = operand->kind != PTX_OPERAND_INT;

	if (operand->kind == PTX_OPERAND_F64 && size == 4) {
		double wide;
		float narrow;
		uint32_t bits;

		memcpy(&wide, &value, sizeof(wide));
		narrow = (float)wide;
		memcpy(&bits, &narrow, sizeof(bits));
		value = bits;
	} else if (operand->kind == PTX_OPERAND_F32 && size == 8) {
		float narrow;
		double wide;
		uint32_t bits = (uint32_t)value;

		memcpy(&narrow, &bits, sizeof(narrow));
		wide = narrow;
		memcpy(&value, &wide, sizeof(value));
	} else if (is_float && size < 4) {
		ptx_tr_fail(tr, -EINVAL, "a float where '%s' wants an integer", tr->stmt->opcode);
	} else if (!is_float && (type == PTX_F32 || type == PTX_F64)) {
		ptx_tr_fail(tr, -EINVAL, "an integer where '%s' wants a float", tr->stmt->opcode);
	}
	if (type == PTX_PRED)
		value = value != 0;
	else if (size < 8)
		value &= (1ull << (size * 8)) - 1;
	return ptx_tr_constant(tr, value);
}

static bool is_size_right(enum ptx_type have, enum ptx_type want, bool may_be_wider)
{
	if ((have == PTX_PRED) != (want == PTX_PRED))
		return false;
	if (may_be_wider)
		return ptx_type_size(have) >= ptx_type_size(want);
	return ptx_type_size(have) == ptx_type_size(want);
}

static bool is_register(struct ptx_tr *tr, const char *name)
{
	uint32_t index;
	struct ptx_symbol *symbol = ptx_tr_symbol(tr, name, &index);

	return symbol && symbol->kind == PTX_SYMBOL_REG;
}

static int32_t source(
	struct ptx_tr *tr, const struct ptx_operand *operand, enum ptx_type type, bool may_be_wider)
{
	enum ptx_type have;
	int32_t row, inverse;

	if (operand->kind == PTX_OPERAND_INT || operand->kind == PTX_OPERAND_F32 ||
		operand->kind == PTX_OPERAND_F64)
		return literal_source(tr, operand, type);
	if (operand->kind != PTX_OPERAND_NAME) {
		ptx_tr_fail(tr, -EINVAL, "'%s' has an operand of the wrong kind", tr->stmt->opcode);
		return 0;
	}
	if (!is_register(tr, operand->name))
		return name_source(tr, operand);
	row = ptx_tr_register(tr, operand->name, &have);
	if (!is_size_right(have, type, may_be_wider) || operand->offset)
		ptx_tr_fail(tr, -EINVAL, "'%s' has the wrong size for '%s'", operand->name,
			tr->stmt->opcode);
	if (!operand->is_negated)
		return row;
	inverse = ptx_tr_temp(tr);
	ptx_tr_emit_not(tr, inverse, row);
	return inverse;
}

int32_t ptx_tr_source(struct ptx_tr *tr, const struct ptx_operand *operand, enum ptx_type type)
{
	return source(tr, operand, type, false);
}

int32_t ptx_tr_source_wide(struct ptx_tr *tr, const struct ptx_operand *operand, enum ptx_type type)
{
	return source(tr, operand, type, true);
}

int32_t ptx_tr_dest_wide(struct ptx_tr *tr, const struct ptx_operand *operand, enum ptx_type type,
	uint32_t *ret_size)
{
	enum ptx_type have;
	int32_t row;

	*ret_size = ptx_type_size(type);
	if (operand->kind == PTX_OPERAND_SINK)
		return ptx_tr_temp(tr);
	if (operand->kind != PTX_OPERAND_NAME || operand->is_negated || operand->offset) {
		ptx_tr_fail(tr, -EINVAL, "'%s' can't write to its operand", tr->stmt->opcode);
		return 0;
	}
	row = ptx_tr_register(tr, operand->name, &have);
	if (!is_size_right(have, type, true))
		ptx_tr_fail(tr, -EINVAL, "'%s' has the wrong size for '%s'", operand->name,
			tr->stmt->opcode);
	*ret_size = ptx_type_size(have);
	return row;
}

int32_t ptx_tr_dest(struct ptx_tr *tr, const struct ptx_operand *operand, enum ptx_type type)
{
	uint32_t size;
	int32_t row = ptx_tr_dest_wide(tr, operand, type, &size);

	if (size != ptx_type_size(type))
		ptx_tr_fail(tr, -EINVAL, "'%s' has the wrong size for '%s'", operand->name,
			tr->stmt->opcode);
	return row;
}
