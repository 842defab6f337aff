/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Floating-point arithmetic of 16 bits, one or two values at a time. Runs on the
 * thread that runs the kernel. A sum or product is exact enough in 32 bits to be
 * rounded once more; a fused one is rounded to odd in 64 bits.
 */

#include "base.h"
#include "tests/softgpu/ptx/float.h"
#include "tests/softgpu/ptx/translate.h"
#include "tests/softgpu/ptx/warp.h"

static float widen(uint16_t x, bool is_bf16, bool flush)
{
	if (flush && !(x & (is_bf16 ? 0x7f80 : 0x7c00)))
		x &= 0x8000;
	return is_bf16 ? ptx_bf16_to_f32(x) : ptx_f16_to_f32(x);
}

static uint16_t narrow(double x, bool is_bf16, uint32_t flags)
{
	uint16_t half;

	if (x != x && !(flags & PTX_FLOAT_SAT))
		return PTX_F16_NAN;
	if (flags & PTX_FLOAT_SAT)
		x = ptx_f32_saturate((float)x);
	if (flags & PTX_FLOAT_RELU && x <= 0)
		x = 0;
	half = (uint16_t)ptx_float_round(x, is_bf16 ? &ptx_bf16 : &ptx_f16, PTX_ROUND_NEAREST);
	if (flags & PTX_FLOAT_FTZ && !(half & (is_bf16 ? 0x7f80 : 0x7c00)))
		half &= 0x8000;
	return half;
}

static double apply(enum ptx_float_op op, float x, float y, float z, uint32_t flags)
{
	bool nan = flags & PTX_FLOAT_NAN;
	bool is_negative = signbit(x) != signbit(y);

	switch (op) {
	case PTX_FLOAT_ADD:
		return ptx_float_fma_odd(x, 1, y);
	case PTX_FLOAT_SUB:
		return ptx_float_fma_odd(x, 1, -y);
	case PTX_FLOAT_MUL:
		return (double)x * y;
	case PTX_FLOAT_FMA:
		return ptx_float_fma_odd(x, y, z);
	case PTX_FLOAT_MIN:
		if (flags & PTX_FLOAT_XORSIGN)
			return copysign(
				ptx_float_min(fabsf(x), fabsf(y), nan), is_negative ? -1 : 1);
		return ptx_float_min(x, y, nan);
	case PTX_FLOAT_MAX:
		if (flags & PTX_FLOAT_XORSIGN)
			return copysign(
				ptx_float_max(fabsf(x), fabsf(y), nan), is_negative ? -1 : 1);
		return ptx_float_max(x, y, nan);
	default:
		return ptx_float_unary(op, x);
	}
}

/* imm: the operation; extra: the number of halves in a register, plus 4 for bf16. */
PTX_EXEC(half_op)
{
	unsigned n = in->extra & 3;
	bool is_bf16 = in->extra & 4;
	bool flush = in->flags & PTX_FLOAT_FTZ;
	PTX_SOURCE(a);
	PTX_SOURCE(b);
	PTX_SOURCE(c);
	PTX_DEST(d);

	PTX_LANES_DO(
		warp, uint64_t result = 0; for (unsigned i = 0; i < n; i++) {
			float x = widen((uint16_t)(a[l].u32 >> (16 * i)), is_bf16, flush);
			float y = widen((uint16_t)(b[l].u32 >> (16 * i)), is_bf16, flush);
			float z = widen((uint16_t)(c[l].u32 >> (16 * i)), is_bf16, flush);
			double v = apply((enum ptx_float_op)in->imm, x, y, z, in->flags);

			result |= (uint64_t)narrow(v, is_bf16, in->flags) << (16 * i);
		} d[l]
						   .u64 = result;);
	return in + 1;
}

/* Signs are bits. */
PTX_EXEC(half_neg)
{
	uint32_t sign = (in->extra & 3) == 2 ? 0x80008000u : 0x8000u;
	PTX_SOURCE(a);
	PTX_DEST(d);

	PTX_LANES_DO(warp, d[l].u64 = (a[l].u32 ^ sign) & (sign | (sign - (sign >> 15))););
	return in + 1;
}

PTX_EXEC(half_abs)
{
	uint32_t rest = (in->extra & 3) == 2 ? 0x7fff7fffu : 0x7fffu;
	PTX_SOURCE(a);
	PTX_DEST(d);

	PTX_LANES_DO(warp, d[l].u64 = a[l].u32 & rest;);
	return in + 1;
}

static ptx_exec_fn *pick_exec(enum ptx_float_op op, uint32_t flags)
{
	if (op == PTX_FLOAT_NEG && !flags)
		return half_neg;
	if (op == PTX_FLOAT_ABS && !flags)
		return half_abs;
	return half_op;
}

static uint32_t take_flags(struct ptx_tr *tr, enum ptx_float_op op)
{
	uint32_t flags = 0;

	ptx_tr_take(tr, "rn");
	if (ptx_tr_take(tr, "ftz"))
		flags |= PTX_FLOAT_FTZ;
	if (op <= PTX_FLOAT_FMA && ptx_tr_take(tr, "sat"))
		flags |= PTX_FLOAT_SAT;
	if (op == PTX_FLOAT_FMA && ptx_tr_take(tr, "relu"))
		flags |= PTX_FLOAT_RELU;
	if (op != PTX_FLOAT_MIN && op != PTX_FLOAT_MAX)
		return flags;
	if (ptx_tr_take(tr, "NaN"))
		flags |= PTX_FLOAT_NAN;
	if (ptx_tr_take(tr, "xorsign") && ptx_tr_take(tr, "abs"))
		flags |= PTX_FLOAT_XORSIGN;
	return flags;
}

static uint32_t count_sources(enum ptx_float_op op)
{
	if (op == PTX_FLOAT_FMA)
		return 3;
	return op <= PTX_FLOAT_MAX ? 2 : 1;
}

void ptx_translate_half(struct ptx_tr *tr, enum ptx_float_op op, enum ptx_type type)
{
	bool is_pair = type == PTX_F16X2 || type == PTX_BF16X2;
	bool is_bf16 = type == PTX_BF16 || type == PTX_BF16X2;
	uint32_t n = count_sources(op), flags = take_flags(tr, op);
	int32_t rows[4] = {0};
	struct ptx_insn *in;

	if (op == PTX_FLOAT_DIV || op == PTX_FLOAT_COPYSIGN ||
		(op >= PTX_FLOAT_RCP && op <= PTX_FLOAT_LG2) ||
		(type != PTX_F16 && type != PTX_BF16 && !is_pair))
		ptx_tr_refuse(tr);
	if (!ptx_tr_count(tr, n + 1))
		return;
	for (uint32_t i = 1; i <= n; i++)
		rows[i] = ptx_tr_source(tr, &tr->stmt->operands[i], type);
	rows[0] = ptx_tr_dest(tr, &tr->stmt->operands[0], type);
	in = ptx_tr_emit(tr, pick_exec(op, flags));
	in->d = rows[0];
	in->a = rows[1];
	in->b = rows[2];
	in->c = rows[3];
	in->flags = flags;
	in->extra = (is_pair ? 2u : 1u) | (is_bf16 ? 4u : 0);
	in->imm = op;
}
