/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Atomic operations: atom and red. Runs on the thread that runs the kernel. They are
 * atomic for the whole host, because other kernels run in other threads. Within the
 * warp they run in order.
 */

#include "base.h"
#include "tests/softgpu/ptx/float.h"
#include "tests/softgpu/ptx/memory.h"
#include "tests/softgpu/ptx/translate.h"
#include "tests/softgpu/ptx/warp.h"

enum atomic {
	ATOMIC_ADD,
	ATOMIC_MIN,
	ATOMIC_MAX,
	ATOMIC_AND,
	ATOMIC_OR,
	ATOMIC_XOR,
	ATOMIC_INC,
	ATOMIC_DEC,
	ATOMIC_EXCH,
	ATOMIC_CAS,
};

static uint16_t add_half(uint16_t x, uint16_t y, bool is_bf16)
{
	double sum = is_bf16 ? ptx_float_fma_odd(ptx_bf16_to_f32(x), 1, ptx_bf16_to_f32(y))
			     : ptx_float_fma_odd(ptx_f16_to_f32(x), 1, ptx_f16_to_f32(y));

	if (sum != sum)
		return PTX_F16_NAN;
	return (uint16_t)ptx_float_round(sum, is_bf16 ? &ptx_bf16 : &ptx_f16, PTX_ROUND_NEAREST);
}

static uint64_t add_halves(uint64_t x, uint64_t y, enum ptx_type type)
{
	bool is_bf16 = type == PTX_BF16 || type == PTX_BF16X2;
	uint64_t sum = add_half((uint16_t)x, (uint16_t)y, is_bf16);

	if (ptx_type_size(type) == 4)
		sum |= (uint64_t)add_half((uint16_t)(x >> 16), (uint16_t)(y >> 16), is_bf16) << 16;
	return sum;
}

static uint64_t add(uint64_t x, uint64_t y, enum ptx_type type)
{
	switch (type) {
	case PTX_F32:
		return ptx_f32_result(ptx_f32_from((uint32_t)x) + ptx_f32_from((uint32_t)y));
	case PTX_F64:
		return ptx_f64_bits(ptx_f64_from(x) + ptx_f64_from(y));
	case PTX_F16:
	case PTX_F16X2:
	case PTX_BF16:
	case PTX_BF16X2:
		return add_halves(x, y, type);
	default:
		return x + y;
	}
}

static bool is_less(uint64_t x, uint64_t y, enum ptx_type type)
{
	switch (type) {
	case PTX_S32:
		return (int32_t)x < (int32_t)y;
	case PTX_S64:
		return (int64_t)x < (int64_t)y;
	default:
		return x < y;
	}
}

/* The next value in memory. `old' and the operands are zero above the type's width. */
static uint64_t next_value(
	enum atomic op, enum ptx_type type, uint64_t old, uint64_t x, uint64_t swap)
{
	switch (op) {
	case ATOMIC_ADD:
		return add(old, x, type);
	case ATOMIC_MIN:
		return is_less(x, old, type) ? x : old;
	case ATOMIC_MAX:
		return is_less(old, x, type) ? x : old;
	case ATOMIC_AND:
		return old & x;
	case ATOMIC_OR:
		return old | x;
	case ATOMIC_XOR:
		return old ^ x;
	case ATOMIC_INC:
		return old >= x ? 0 : old + 1;
	case ATOMIC_DEC:
		return old == 0 || old > x ? x : old - 1;
	case ATOMIC_EXCH:
		return x;
	default:
		return old == x ? swap : old;
	}
}

/* Applies `op' to the T at p; returns the old value. */
#define APPLY(T)                                                                                   \
	static uint64_t apply_##T(                                                                 \
		void *p, enum atomic op, enum ptx_type type, uint64_t x, uint64_t swap)            \
	{                                                                                          \
		T old = __atomic_load_n((T *)p, __ATOMIC_RELAXED);                                 \
		T next;                                                                            \
		do                                                                                 \
			next = (T)next_value(op, type, old, (T)x, (T)swap);                        \
		while (!__atomic_compare_exchange_n(                                               \
			(T *)p, &old, next, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));           \
		return old;                                                                        \
	}
APPLY(uint16_t)
APPLY(uint32_t)
APPLY(uint64_t)

static uint64_t atomic_apply(void *p, enum atomic op, enum ptx_type type, uint64_t x, uint64_t swap)
{
	switch (ptx_type_size(type)) {
	case 2:
		return apply_uint16_t(p, op, type, x, swap);
	case 4:
		return apply_uint32_t(p, op, type, x, swap);
	default:
		return apply_uint64_t(p, op, type, x, swap);
	}
}

/* extra: route, operation, type. */
PTX_EXEC(exec_atomic)
{
	enum ptx_route route = (enum ptx_route)(in->extra & 0xff);
	enum atomic op = (enum atomic)(in->extra >> 8 & 0xff);
	enum ptx_type type = (enum ptx_type)(in->extra >> 16);
	uint32_t size = ptx_type_size(type);
	PTX_SOURCE(a);
	PTX_SOURCE(b);
	PTX_SOURCE(c);
	PTX_DEST(d);

	for (uint32_t left = warp->mask; left; left &= left - 1) {
		unsigned l = (unsigned)__builtin_ctz(left);
		void *p = ptx_at(warp, route, l, a[l].u64 + (uint64_t)in->imm, size, true);

		if (!p)
			return NULL;
		d[l].u64 = atomic_apply(p, op, type, b[l].u64, c[l].u64);
	}
	return in + 1;
}

/* The most common one. */
PTX_EXEC(exec_add_u32)
{
	enum ptx_route route = (enum ptx_route)(in->extra & 0xff);
	PTX_SOURCE(a);
	PTX_SOURCE(b);
	PTX_DEST(d);

	for (uint32_t left = warp->mask; left; left &= left - 1) {
		unsigned l = (unsigned)__builtin_ctz(left);
		uint32_t *p = ptx_at(warp, route, l, a[l].u64 + (uint64_t)in->imm, 4, true);

		if (!p)
			return NULL;
		d[l].u64 = __atomic_fetch_add(p, b[l].u32, __ATOMIC_SEQ_CST);
	}
	return in + 1;
}

uint64_t ptx_atomic_add(void *p, enum ptx_type type, uint64_t x)
{
	return atomic_apply(p, ATOMIC_ADD, type, x, 0);
}

static bool is_valid(enum atomic op, enum ptx_type type)
{
	bool is_32 = type == PTX_B32 || type == PTX_U32 || type == PTX_S32;
	bool is_64 = type == PTX_B64 || type == PTX_U64 || type == PTX_S64;

	switch (op) {
	case ATOMIC_ADD:
		return is_32 || is_64 || type == PTX_F32 || type == PTX_F64 || type == PTX_F16 ||
		       type == PTX_F16X2 || type == PTX_BF16 || type == PTX_BF16X2;
	case ATOMIC_INC:
	case ATOMIC_DEC:
		return type == PTX_U32;
	case ATOMIC_CAS:
		return is_32 || is_64 || type == PTX_B16 || type == PTX_U16;
	case ATOMIC_EXCH:
		return is_32 || is_64 || type == PTX_F32;
	default:
		return is_32 || is_64;
	}
}

static void emit_atomic(struct ptx_tr *tr, enum atomic op, enum ptx_type type,
	struct ptx_address address, uint32_t first)
{
	bool is_add = op == ATOMIC_ADD && ptx_type_size(type) == 4 && type != PTX_F32 &&
		      type != PTX_F16X2 && type != PTX_BF16X2;
	int32_t x = ptx_tr_source(tr, ptx_tr_operand(tr, first + 1), type);
	int32_t swap =
		op == ATOMIC_CAS ? ptx_tr_source(tr, ptx_tr_operand(tr, first + 2), type) : x;
	int32_t dest = first ? ptx_tr_dest(tr, ptx_tr_operand(tr, 0), type) : ptx_tr_temp(tr);
	struct ptx_insn *in = ptx_tr_emit(tr, is_add ? exec_add_u32 : exec_atomic);

	in->d = dest;
	in->a = address.base;
	in->imm = address.offset;
	in->b = x;
	in->c = swap;
	in->extra = (uint32_t)address.route | (uint32_t)op << 8 | (uint32_t)type << 16;
}

static void translate_atomic(struct ptx_tr *tr)
{
	static const char *const names[] = {
		"add", "min", "max", "and", "or", "xor", "inc", "dec", "exch", "cas", NULL};
	uint32_t first = tr->mnemonic[0] == 'a' ? 1 : 0;
	enum ptx_space space;
	bool is_ordered = ptx_tr_is_ordered(tr);
	enum ptx_type type;
	int op;

	if (ptx_translate_atomic_vector(tr))
		return;
	space = ptx_tr_take_space(tr);
	op = ptx_tr_take_one(tr, names);
	ptx_tr_take_hints(tr);
	ptx_tr_take(tr, "noftz");
	type = ptx_tr_take_type(tr);
	if (op < 0 || !is_valid((enum atomic)op, type) || space == PTX_SPACE_CONST ||
		space == PTX_SPACE_PARAM) {
		ptx_tr_refuse(tr);
		return;
	}
	if (!ptx_tr_count(tr, first + (op == ATOMIC_CAS ? 3 : 2)))
		return;
	if (is_ordered)
		ptx_tr_emit_fence(tr);
	emit_atomic(tr, (enum atomic)op, type, ptx_tr_memory(tr, first, space, ptx_type_size(type)),
		first);
	if (is_ordered)
		ptx_tr_emit_fence(tr);
}

static const struct ptx_family families[] = {
	{"atom", translate_atomic},
	{"red", translate_atomic},
};

const struct ptx_family_table ptx_atomic_families = {families, ARRAY_SIZE(families)};
