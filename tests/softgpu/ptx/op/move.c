/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Moves, choices, vectors packed into registers and back, and conversions
 * between address spaces. Runs on the thread that runs the kernel.
 */

#include "base.h"
#include "tests/softgpu/ptx/float.h"
#include "tests/softgpu/ptx/translate.h"
#include "tests/softgpu/ptx/warp.h"

PTX_EXEC(exec_mov)
{
	PTX_SOURCE(a);
	PTX_DEST(d);

	PTX_LANES_DO(warp, d[l].u64 = a[l].u64;);
	return in + 1;
}

PTX_EXEC(exec_selp)
{
	PTX_SOURCE(a);
	PTX_SOURCE(b);
	PTX_SOURCE(c);
	PTX_DEST(d);

	PTX_LANES_DO(warp, d[l].u64 = c[l].u64 ? a[l].u64 : b[l].u64;);
	return in + 1;
}

PTX_EXEC(exec_slct_s32)
{
	PTX_SOURCE(a);
	PTX_SOURCE(b);
	PTX_SOURCE(c);
	PTX_DEST(d);

	PTX_LANES_DO(warp, d[l].u64 = c[l].s32 >= 0 ? a[l].u64 : b[l].u64;);
	return in + 1;
}

PTX_EXEC(exec_slct_f32)
{
	bool flush = in->imm;
	PTX_SOURCE(a);
	PTX_SOURCE(b);
	PTX_SOURCE(c);
	PTX_DEST(d);

	PTX_LANES_DO(warp, float x = flush ? ptx_f32_flush(c[l].f32) : c[l].f32;
		     d[l].u64 = x >= 0 ? a[l].u64 : b[l].u64;);
	return in + 1;
}

/* The elements of `vector' side by side, the first in the lowest bits. */
PTX_EXEC(exec_pack)
{
	const struct ptx_vector *vector = in->vector;
	unsigned bits = vector->element_size * 8;
	uint64_t mask = (1ull << bits) - 1;
	PTX_DEST(d);

	PTX_LANES_DO(
		warp, uint64_t value = 0; for (unsigned i = 0; i < vector->n; i++) {
			const struct ptx_row *x = ptx_source(warp, r, vector->rows[i]);

			value |= (x->v[l].u64 & mask) << (bits * i);
		} d[l]
						  .u64 = value;);
	return in + 1;
}

PTX_EXEC(exec_unpack)
{
	const struct ptx_vector *vector = in->vector;
	unsigned bits = vector->element_size * 8;
	uint64_t mask = (1ull << bits) - 1;
	PTX_SOURCE(a);

	PTX_LANES_DO(
		warp, uint64_t value = a[l].u64; for (unsigned i = 0; i < vector->n; i++) {
			r[vector->rows[i]].v[l].u64 = value & mask;
			value >>= bits;
		});
	return in + 1;
}

static enum ptx_type type_of_size(uint32_t size)
{
	switch (size) {
	case 1:
		return PTX_B8;
	case 2:
		return PTX_B16;
	case 4:
		return PTX_B32;
	default:
		return PTX_B64;
	}
}

/* mov between a register of `type' and the vector at operand `at'. */
static void translate_pack(struct ptx_tr *tr, enum ptx_type type, bool is_pack)
{
	const struct ptx_operand *list = ptx_tr_operand(tr, is_pack ? 1 : 0);
	const struct ptx_operand *whole = ptx_tr_operand(tr, is_pack ? 0 : 1);
	uint32_t n = list->n_items, size = ptx_type_size(type);
	struct ptx_vector *vector;
	struct ptx_insn *in;
	int32_t row;

	if (size > 8 || (n != 2 && n != 4) || size / n == 0) {
		ptx_tr_refuse(tr);
		return;
	}
	vector = ptx_arena_alloc(&tr->module->arena, sizeof(*vector) + n * sizeof(vector->rows[0]));
	if (!vector) {
		ptx_tr_fail(tr, -ENOMEM, "out of memory");
		return;
	}
	vector->n = n;
	vector->element_size = size / n;
	row = is_pack ? ptx_tr_dest(tr, whole, type) : ptx_tr_source(tr, whole, type);
	for (uint32_t i = 0; i < n; i++) {
		enum ptx_type element = type_of_size(size / n);
		uint32_t wide;

		vector->rows[i] = is_pack ? ptx_tr_source_wide(tr, &list->items[i], element)
					  : ptx_tr_dest_wide(tr, &list->items[i], element, &wide);
	}
	in = ptx_tr_emit(tr, is_pack ? exec_pack : exec_unpack);
	in->a = in->d = row;
	in->vector = vector;
}

static void translate_mov(struct ptx_tr *tr)
{
	enum ptx_type type = ptx_tr_take_type(tr);
	int32_t source, dest;
	struct ptx_insn *in;

	if (type == PTX_NONE || type == PTX_B128 || ptx_type_size(type) == 0) {
		ptx_tr_refuse(tr);
		return;
	}
	if (!ptx_tr_count(tr, 2))
		return;
	if (ptx_tr_operand(tr, 1)->kind == PTX_OPERAND_VECTOR) {
		translate_pack(tr, type, true);
		return;
	}
	if (ptx_tr_operand(tr, 0)->kind == PTX_OPERAND_VECTOR) {
		translate_pack(tr, type, false);
		return;
	}
	source = ptx_tr_source(tr, ptx_tr_operand(tr, 1), type);
	dest = ptx_tr_dest(tr, ptx_tr_operand(tr, 0), type);
	in = ptx_tr_emit(tr, exec_mov);
	in->a = source;
	in->d = dest;
}

static void translate_choice(struct ptx_tr *tr, ptx_exec_fn *exec, enum ptx_type type,
	enum ptx_type condition, int64_t imm)
{
	int32_t rows[4];
	struct ptx_insn *in;

	if (!ptx_tr_count(tr, 4))
		return;
	rows[1] = ptx_tr_source(tr, ptx_tr_operand(tr, 1), type);
	rows[2] = ptx_tr_source(tr, ptx_tr_operand(tr, 2), type);
	rows[3] = ptx_tr_source(tr, ptx_tr_operand(tr, 3), condition);
	rows[0] = ptx_tr_dest(tr, ptx_tr_operand(tr, 0), type);
	in = ptx_tr_emit(tr, exec);
	in->d = rows[0];
	in->a = rows[1];
	in->b = rows[2];
	in->c = rows[3];
	in->imm = imm;
}

static void translate_selp(struct ptx_tr *tr)
{
	enum ptx_type type = ptx_tr_take_type(tr);

	if (ptx_type_size(type) < 2 || ptx_type_size(type) > 8)
		ptx_tr_refuse(tr);
	translate_choice(tr, exec_selp, type, PTX_PRED, 0);
}

static void translate_slct(struct ptx_tr *tr)
{
	bool flush = ptx_tr_take(tr, "ftz");
	enum ptx_type type = ptx_tr_take_type(tr);
	enum ptx_type condition = ptx_tr_take_type(tr);

	/* A type that appears twice is taken twice. */
	if (ptx_type_size(type) < 2 || ptx_type_size(type) > 8 ||
		(condition != PTX_S32 && condition != PTX_F32))
		ptx_tr_refuse(tr);
	translate_choice(
		tr, condition == PTX_S32 ? exec_slct_s32 : exec_slct_f32, type, condition, flush);
}

/* d = a + imm; in the low 32 bits if the extra is set. */
PTX_EXEC(exec_window)
{
	uint64_t mask = in->extra ? UINT32_MAX : UINT64_MAX;
	PTX_SOURCE(a);
	PTX_DEST(d);

	PTX_LANES_DO(warp, d[l].u64 = (a[l].u64 & mask) + (uint64_t)in->imm;);
	return in + 1;
}

static enum ptx_space take_space(struct ptx_tr *tr)
{
	static const char *const names[] = {"global", "const", "shared", "shared::cta",
		"shared::cluster", "local", "param", "param::entry", NULL};
	static const enum ptx_space spaces[] = {PTX_SPACE_GLOBAL, PTX_SPACE_CONST, PTX_SPACE_SHARED,
		PTX_SPACE_SHARED, PTX_SPACE_SHARED, PTX_SPACE_LOCAL, PTX_SPACE_PARAM,
		PTX_SPACE_PARAM};
	int i = ptx_tr_take_one(tr, names);

	return i < 0 ? PTX_SPACE_GENERIC : spaces[i];
}

static uint64_t window_of(const struct ptx_tr *tr, enum ptx_space space)
{
	switch (space) {
	case PTX_SPACE_SHARED:
		return PTX_WINDOW_SHARED;
	case PTX_SPACE_LOCAL:
		return PTX_WINDOW_LOCAL;
	case PTX_SPACE_PARAM:
		/* A function's parameters are in its frame. */
		return tr->function->is_entry ? PTX_WINDOW_PARAM : PTX_WINDOW_LOCAL;
	default:
		return 0;
	}
}

static void translate_cvta(struct ptx_tr *tr)
{
	bool to = ptx_tr_take(tr, "to");
	enum ptx_space space = take_space(tr);
	uint64_t window = window_of(tr, space);
	int32_t source, dest;
	struct ptx_insn *in;

	if (space == PTX_SPACE_GENERIC || !ptx_tr_take(tr, "u64"))
		ptx_tr_refuse(tr);
	if (!ptx_tr_count(tr, 2))
		return;
	source = ptx_tr_source(tr, ptx_tr_operand(tr, 1), PTX_U64);
	dest = ptx_tr_dest(tr, ptx_tr_operand(tr, 0), PTX_U64);
	in = ptx_tr_emit(tr, window ? exec_window : exec_mov);
	in->a = source;
	in->d = dest;
	in->extra = to;
	in->imm = to ? 0 : (int64_t)window;
}

/* Whether the address is in the window at imm; for 0, in no window of another space. */
PTX_EXEC(exec_isspacep)
{
	uint64_t window = (uint64_t)in->imm;
	PTX_SOURCE(a);
	PTX_DEST(d);

	PTX_LANES_DO(warp, uint64_t x = a[l].u64;
		     d[l].u64 = window ? x - window < PTX_WINDOW_SIZE
				       : x < PTX_WINDOW_SHARED || x >= PTX_WINDOW_RUN;);
	return in + 1;
}

static void translate_isspacep(struct ptx_tr *tr)
{
	enum ptx_space space = take_space(tr);
	int32_t source, dest;
	struct ptx_insn *in;

	if (space == PTX_SPACE_GENERIC || space == PTX_SPACE_CONST)
		ptx_tr_refuse(tr);
	if (!ptx_tr_count(tr, 2))
		return;
	source = ptx_tr_source(tr, ptx_tr_operand(tr, 1), PTX_U64);
	dest = ptx_tr_dest(tr, ptx_tr_operand(tr, 0), PTX_PRED);
	in = ptx_tr_emit(tr, exec_isspacep);
	in->a = source;
	in->d = dest;
	in->imm = (int64_t)window_of(tr, space);
}

static const struct ptx_family families[] = {
	{"mov", translate_mov},
	{"selp", translate_selp},
	{"slct", translate_slct},
	{"cvta", translate_cvta},
	{"isspacep", translate_isspacep},
};

const struct ptx_family_table ptx_move_families = {families, ARRAY_SIZE(families)};
