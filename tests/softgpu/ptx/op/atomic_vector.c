/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Additions to vectors in memory: atom and red with .v2, .v4 or .v8. Runs on the
 * thread that runs the kernel. The addition to each element is atomic; that to the
 * whole vector is not, as the manual says.
 */

#include "base.h"
#include "tests/softgpu/ptx/memory.h"
#include "tests/softgpu/ptx/translate.h"
#include "tests/softgpu/ptx/warp.h"

#define VECTOR_BYTES_MAX 16u

/* The rows: the old value of each element, then the addends. extra: route; flags: type. */
PTX_EXEC(exec_add_vector)
{
	const struct ptx_vector *vector = in->vector;
	enum ptx_type type = (enum ptx_type)in->flags;
	uint32_t n = vector->n, size = vector->element_size;
	PTX_SOURCE(a);

	for (uint32_t left = warp->mask; left; left &= left - 1) {
		unsigned l = (unsigned)__builtin_ctz(left);
		uint64_t addr = a[l].u64 + (uint64_t)vector->offset;
		uint8_t *p = ptx_at(warp, (enum ptx_route)in->extra, l, addr, size * n, true);
		uint64_t old[VECTOR_BYTES_MAX / 2];

		if (!p)
			return NULL;
		/* One register may be both addend and destination. */
		for (uint32_t i = 0; i < n; i++)
			old[i] = ptx_atomic_add(p + (size_t)i * size, type,
				ptx_source(warp, r, vector->rows[n + i])->v[l].u64);
		for (uint32_t i = 0; i < n; i++)
			r[vector->rows[i]].v[l].u64 = old[i];
	}
	return in + 1;
}

static bool is_vector(const struct ptx_operand *operand, uint32_t n)
{
	return operand->kind == PTX_OPERAND_VECTOR && operand->n_items == n;
}

static void emit_add_vector(
	struct ptx_tr *tr, enum ptx_space space, enum ptx_type type, uint32_t n, uint32_t first)
{
	const struct ptx_operand *to = first ? ptx_tr_operand(tr, 0) : NULL;
	const struct ptx_operand *from = ptx_tr_operand(tr, first + 1);
	uint32_t size = ptx_type_size(type);
	struct ptx_address address = ptx_tr_memory(tr, first, space, size * n);
	struct ptx_vector *vector = ptx_arena_alloc(
		&tr->module->arena, sizeof(*vector) + sizeof(vector->rows[0]) * 2 * n);
	struct ptx_insn *in;

	if (!vector || !is_vector(from, n) || (to && !is_vector(to, n))) {
		ptx_tr_fail(tr, vector ? -EINVAL : -ENOMEM, "'%s' wants vectors of %u",
			tr->stmt->opcode, n);
		return;
	}
	*vector = (struct ptx_vector){n, size, address.offset};
	for (uint32_t i = 0; i < n; i++) {
		vector->rows[i] = to ? ptx_tr_dest(tr, &to->items[i], type) : ptx_tr_temp(tr);
		vector->rows[n + i] = ptx_tr_source(tr, &from->items[i], type);
	}
	in = ptx_tr_emit(tr, exec_add_vector);
	in->a = address.base;
	in->vector = vector;
	in->extra = address.route;
	in->flags = type;
}

static bool is_vector_type(enum ptx_type type)
{
	return type == PTX_F32 || type == PTX_F16 || type == PTX_BF16 || type == PTX_F16X2 ||
	       type == PTX_BF16X2;
}

bool ptx_translate_atomic_vector(struct ptx_tr *tr)
{
	static const char *const lengths[] = {"v2", "v4", "v8", NULL};
	uint32_t first = tr->mnemonic[0] == 'a' ? 1 : 0, n;
	enum ptx_space space;
	enum ptx_type type;
	bool is_ordered;
	int length = ptx_tr_take_one(tr, lengths);

	if (length < 0)
		return false;
	n = 2u << length;
	is_ordered = ptx_tr_is_ordered(tr);
	ptx_tr_take_hints(tr);
	ptx_tr_take(tr, "noftz");
	type = ptx_tr_take_type(tr);
	space = ptx_tr_take_space(tr);
	if ((space != PTX_SPACE_GLOBAL && space != PTX_SPACE_GENERIC) || !ptx_tr_take(tr, "add") ||
		!is_vector_type(type) || ptx_type_size(type) * n > VECTOR_BYTES_MAX) {
		ptx_tr_refuse(tr);
		return true;
	}
	if (!ptx_tr_count(tr, first + 2))
		return true;
	if (is_ordered)
		ptx_tr_emit_fence(tr);
	emit_add_vector(tr, space, type, n, first);
	if (is_ordered)
		ptx_tr_emit_fence(tr);
	return true;
}
