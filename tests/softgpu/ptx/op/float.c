/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Floating-point arithmetic of 32 and 64 bits. Runs on the thread that runs the
 * kernel. Each instruction is one operation of the host's IEEE arithmetic, so that
 * the compiler cannot contract operations.
 */

#include "tests/softgpu/ptx/float.h"

#include "base.h"
#include "tests/softgpu/ptx/translate.h"
#include "tests/softgpu/ptx/warp.h"

/* The common forms: to nearest, not saturated. */
#define F32_BINARY(name, EXPR)                                                                     \
	PTX_EXEC(name##_f32)                                                                       \
	{                                                                                          \
		PTX_SOURCE(a);                                                                     \
		PTX_SOURCE(b);                                                                     \
		PTX_DEST(d);                                                                       \
		PTX_LANES_DO(warp, const float x = a[l].f32; const float y = b[l].f32;             \
			     d[l].u64 = ptx_f32_result(EXPR););                                    \
		return in + 1;                                                                     \
	}                                                                                          \
	PTX_EXEC(name##_ftz_f32)                                                                   \
	{                                                                                          \
		PTX_SOURCE(a);                                                                     \
		PTX_SOURCE(b);                                                                     \
		PTX_DEST(d);                                                                       \
		PTX_LANES_DO(warp, const float x = ptx_f32_flush(a[l].f32);                        \
			     const float y = ptx_f32_flush(b[l].f32);                              \
			     d[l].u64 = ptx_f32_result(ptx_f32_flush(EXPR)););                     \
		return in + 1;                                                                     \
	}

#define F64_BINARY(name, EXPR)                                                                     \
	PTX_EXEC(name##_f64)                                                                       \
	{                                                                                          \
		PTX_SOURCE(a);                                                                     \
		PTX_SOURCE(b);                                                                     \
		PTX_DEST(d);                                                                       \
		PTX_LANES_DO(warp, const double x = a[l].f64; const double y = b[l].f64;           \
			     d[l].f64 = (EXPR););                                                  \
		return in + 1;                                                                     \
	}

F32_BINARY(add, x + y)
F32_BINARY(sub, x - y)
F32_BINARY(mul, x *y)
F32_BINARY(div, x / y)
F64_BINARY(add, x + y)
F64_BINARY(sub, x - y)
F64_BINARY(mul, x *y)
F64_BINARY(div, x / y)

/*
 * A second copy for processors with the instruction; the other one calls libm for each lane.
 * Sanitizers and linkers without indirect functions get only that one.
 */
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) &&                 \
	!defined(__SANITIZE_THREAD__) && !defined(__clang__)
#define PTX_CLONES __attribute__((target_clones("fma", "default")))
#else
#define PTX_CLONES
#endif

PTX_CLONES PTX_EXEC(fma_f32)
{
	PTX_SOURCE(a);
	PTX_SOURCE(b);
	PTX_SOURCE(c);
	PTX_DEST(d);

	PTX_LANES_DO(warp, d[l].u64 = ptx_f32_result(fmaf(a[l].f32, b[l].f32, c[l].f32)););
	return in + 1;
}

PTX_EXEC(fma_ftz_f32)
{
	PTX_SOURCE(a);
	PTX_SOURCE(b);
	PTX_SOURCE(c);
	PTX_DEST(d);

	PTX_LANES_DO(warp, const float x = ptx_f32_flush(a[l].f32);
		     const float y = ptx_f32_flush(b[l].f32);
		     const float z = ptx_f32_flush(c[l].f32);
		     d[l].u64 = ptx_f32_result(ptx_f32_flush(fmaf(x, y, z))););
	return in + 1;
}

PTX_CLONES PTX_EXEC(fma_f64)
{
	PTX_SOURCE(a);
	PTX_SOURCE(b);
	PTX_SOURCE(c);
	PTX_DEST(d);

	PTX_LANES_DO(warp, d[l].f64 = fma(a[l].f64, b[l].f64, c[l].f64););
	return in + 1;
}

/* All other forms go through these functions, one lane at a time. */
static float min_f32(float x, float y, uint32_t flags)
{
	if (flags & PTX_FLOAT_XORSIGN) {
		float least = (float)ptx_float_min(fabsf(x), fabsf(y), flags & PTX_FLOAT_NAN);

		return copysignf(least, signbit(x) != signbit(y) ? -1.0f : 1.0f);
	}
	return (float)ptx_float_min(x, y, flags & PTX_FLOAT_NAN);
}

static float max_f32(float x, float y, uint32_t flags)
{
	if (flags & PTX_FLOAT_XORSIGN) {
		float most = (float)ptx_float_max(fabsf(x), fabsf(y), flags & PTX_FLOAT_NAN);

		return copysignf(most, signbit(x) != signbit(y) ? -1.0f : 1.0f);
	}
	return (float)ptx_float_max(x, y, flags & PTX_FLOAT_NAN);
}

static __attribute__((noinline)) float apply_f32(
	enum ptx_float_op op, float x, float y, float z, uint32_t flags)
{
	switch (op) {
	case PTX_FLOAT_ADD:
		return x + y;
	case PTX_FLOAT_SUB:
		return x - y;
	case PTX_FLOAT_MUL:
		return x * y;
	case PTX_FLOAT_FMA:
		return fmaf(x, y, z);
	case PTX_FLOAT_DIV:
		return x / y;
	case PTX_FLOAT_MIN:
		return min_f32(x, y, flags);
	case PTX_FLOAT_MAX:
		return max_f32(x, y, flags);
	case PTX_FLOAT_COPYSIGN:
		return copysignf(y, x);
	default:
		return ptx_float_unary(op, x);
	}
}

static __attribute__((noinline)) double apply_f64(
	enum ptx_float_op op, double x, double y, double z, uint32_t flags)
{
	switch (op) {
	case PTX_FLOAT_ADD:
		return x + y;
	case PTX_FLOAT_SUB:
		return x - y;
	case PTX_FLOAT_MUL:
		return x * y;
	case PTX_FLOAT_FMA:
		return fma(x, y, z);
	case PTX_FLOAT_DIV:
		return x / y;
	case PTX_FLOAT_MIN:
		return ptx_float_min(x, y, flags & PTX_FLOAT_NAN);
	case PTX_FLOAT_MAX:
		return ptx_float_max(x, y, flags & PTX_FLOAT_NAN);
	case PTX_FLOAT_COPYSIGN:
		return copysign(y, x);
	case PTX_FLOAT_RCP:
		return 1.0 / x;
	case PTX_FLOAT_SQRT:
		return sqrt(x);
	case PTX_FLOAT_RSQRT:
		return 1.0 / sqrt(x);
	case PTX_FLOAT_ABS:
		return fabs(x);
	default:
		return -x;
	}
}

/* Through a pointer, so that the compiler moves no operation across a change of rounding. */
static float (*const volatile f32_apply)(
	enum ptx_float_op, float, float, float, uint32_t) = apply_f32;
static double (*const volatile f64_apply)(
	enum ptx_float_op, double, double, double, uint32_t) = apply_f64;

PTX_EXEC(any_f32)
{
	int saved = ptx_rounding_enter((enum ptx_rounding)in->extra);
	bool flush = in->flags & PTX_FLOAT_FTZ;
	PTX_SOURCE(a);
	PTX_SOURCE(b);
	PTX_SOURCE(c);
	PTX_DEST(d);

	PTX_LANES_DO(
		warp, float x = a[l].f32; float y = b[l].f32; float z = c[l].f32; if (flush) {
			x = ptx_f32_flush(x);
			y = ptx_f32_flush(y);
			z = ptx_f32_flush(z);
		} x = f32_apply((enum ptx_float_op)in->imm, x, y, z, in->flags);
		if (flush) x = ptx_f32_flush(x);
		if (in->flags & PTX_FLOAT_SAT) x = ptx_f32_saturate(x);
		d[l].u64 = ptx_f32_result(x););
	ptx_rounding_leave(saved);
	return in + 1;
}

PTX_EXEC(any_f64)
{
	int saved = ptx_rounding_enter((enum ptx_rounding)in->extra);
	PTX_SOURCE(a);
	PTX_SOURCE(b);
	PTX_SOURCE(c);
	PTX_DEST(d);

	PTX_LANES_DO(warp, d[l].f64 = f64_apply((enum ptx_float_op)in->imm, a[l].f64, b[l].f64,
				   c[l].f64, in->flags););
	ptx_rounding_leave(saved);
	return in + 1;
}

/* rcp.approx.ftz.f64 and rsqrt: only the high word counts, the low word is zero. */
PTX_EXEC(gross_f64)
{
	bool is_root = in->imm == PTX_FLOAT_RSQRT;
	PTX_SOURCE(a);
	PTX_DEST(d);

	PTX_LANES_DO(warp, double x = ptx_f64_from(a[l].u64 & 0xffffffff00000000ull);
		     if (fabs(x) < 0x1p-1022) x = copysign(0, x); x = 1.0 / (is_root ? sqrt(x) : x);
		     if (fabs(x) < 0x1p-1022) x = copysign(0, x);
		     d[l].u64 = x != x ? 0x7fffffff00000000ull
				       : ptx_f64_bits(x) & 0xffffffff00000000ull;);
	return in + 1;
}

/* Signs are bits, also of a NaN. */
#define SIGN_OP(name, FIELD, EXPR)                                                                 \
	PTX_EXEC(name)                                                                             \
	{                                                                                          \
		PTX_SOURCE(a);                                                                     \
		PTX_DEST(d);                                                                       \
		PTX_LANES_DO(warp, d[l].u64 = a[l].FIELD EXPR;);                                   \
		return in + 1;                                                                     \
	}
SIGN_OP(neg_f32, u32, ^0x80000000u)
SIGN_OP(abs_f32, u32, &0x7fffffffu)
SIGN_OP(neg_f64, u64, ^1ull << 63)
SIGN_OP(abs_f64, u64, &INT64_MAX)

struct float_family {
	const char *name;
	enum ptx_float_op op;
	uint32_t n_sources;
	ptx_exec_fn *f32, *ftz_f32, *f64; /* the common forms; NULL: through any_ */
	bool is_approximate;              /* it has no exact form */
};

static const struct float_family float_ops[] = {
	{"add", PTX_FLOAT_ADD, 2, add_f32, add_ftz_f32, add_f64, false},
	{"sub", PTX_FLOAT_SUB, 2, sub_f32, sub_ftz_f32, sub_f64, false},
	{"mul", PTX_FLOAT_MUL, 2, mul_f32, mul_ftz_f32, mul_f64, false},
	{"fma", PTX_FLOAT_FMA, 3, fma_f32, fma_ftz_f32, fma_f64, false},
	{"mad", PTX_FLOAT_FMA, 3, fma_f32, fma_ftz_f32, fma_f64, false},
	{"div", PTX_FLOAT_DIV, 2, div_f32, div_ftz_f32, div_f64, false},
	{"min", PTX_FLOAT_MIN, 2, NULL, NULL, NULL, false},
	{"max", PTX_FLOAT_MAX, 2, NULL, NULL, NULL, false},
	{"abs", PTX_FLOAT_ABS, 1, abs_f32, NULL, abs_f64, false},
	{"neg", PTX_FLOAT_NEG, 1, neg_f32, NULL, neg_f64, false},
	{"rcp", PTX_FLOAT_RCP, 1, NULL, NULL, NULL, false},
	{"sqrt", PTX_FLOAT_SQRT, 1, NULL, NULL, NULL, false},
	{"rsqrt", PTX_FLOAT_RSQRT, 1, NULL, NULL, NULL, true},
	{"sin", PTX_FLOAT_SIN, 1, NULL, NULL, NULL, true},
	{"cos", PTX_FLOAT_COS, 1, NULL, NULL, NULL, true},
	{"lg2", PTX_FLOAT_LG2, 1, NULL, NULL, NULL, true},
	{"ex2", PTX_FLOAT_EX2, 1, NULL, NULL, NULL, true},
	{"tanh", PTX_FLOAT_TANH, 1, NULL, NULL, NULL, true},
	{"copysign", PTX_FLOAT_COPYSIGN, 2, NULL, NULL, NULL, false},
};

/* Modifiers in flags; the rounding in *ret_mode. */
static uint32_t take_flags(struct ptx_tr *tr, const struct float_family *family, enum ptx_type type,
	enum ptx_rounding *ret_mode)
{
	uint32_t flags = 0;

	*ret_mode = ptx_tr_take_rounding(tr);
	if (type == PTX_F32 && ptx_tr_take(tr, "ftz"))
		flags |= PTX_FLOAT_FTZ;
	if (type == PTX_F32 && ptx_tr_take(tr, "sat"))
		flags |= PTX_FLOAT_SAT;
	if (family->op == PTX_FLOAT_MIN || family->op == PTX_FLOAT_MAX) {
		if (ptx_tr_take(tr, "NaN"))
			flags |= PTX_FLOAT_NAN;
		if (type == PTX_F32 && ptx_tr_take(tr, "xorsign") && ptx_tr_take(tr, "abs"))
			flags |= PTX_FLOAT_XORSIGN;
	}
	return flags;
}

static ptx_exec_fn *pick_exec(const struct float_family *family, enum ptx_type type, uint32_t flags,
	enum ptx_rounding mode)
{
	ptx_exec_fn *exec = NULL;

	if (mode == PTX_ROUND_NEAREST && type == PTX_F64 && !flags)
		exec = family->f64;
	if (mode == PTX_ROUND_NEAREST && type == PTX_F32 && !flags)
		exec = family->f32;
	if (mode == PTX_ROUND_NEAREST && type == PTX_F32 && flags == PTX_FLOAT_FTZ)
		exec = family->ftz_f32;
	if (exec)
		return exec;
	return type == PTX_F32 ? any_f32 : any_f64;
}

static void translate_float(struct ptx_tr *tr, const struct float_family *family)
{
	enum ptx_type type = ptx_tr_take_type(tr);
	bool is_approximate = ptx_tr_take(tr, "approx") || ptx_tr_take(tr, "full");
	bool is_gross = is_approximate && type == PTX_F64 && ptx_tr_take(tr, "ftz");
	enum ptx_rounding mode;
	int32_t rows[4] = {0};
	struct ptx_insn *in;
	uint32_t flags;

	if (ptx_type_size(type) == 2 || type == PTX_F16X2 || type == PTX_BF16X2) {
		ptx_translate_half(tr, family->op, type);
		return;
	}
	if (is_approximate && type == PTX_F64 && family->op != PTX_FLOAT_RSQRT &&
		!(is_gross && family->op == PTX_FLOAT_RCP))
		ptx_tr_refuse(tr);
	if ((type != PTX_F32 && type != PTX_F64) || (family->is_approximate && !is_approximate))
		ptx_tr_refuse(tr);
	flags = take_flags(tr, family, type, &mode);
	if (!ptx_tr_count(tr, family->n_sources + 1))
		return;
	for (uint32_t i = 1; i <= family->n_sources; i++)
		rows[i] = ptx_tr_source(tr, &tr->stmt->operands[i], type);
	rows[0] = ptx_tr_dest(tr, &tr->stmt->operands[0], type);
	in = ptx_tr_emit(tr, is_gross ? gross_f64 : pick_exec(family, type, flags, mode));
	in->d = rows[0];
	in->a = rows[1];
	in->b = rows[2];
	in->c = rows[3];
	in->flags = flags;
	in->extra = mode;
	in->imm = family->op;
}

static void translate_any(struct ptx_tr *tr)
{
	for (uint32_t i = 0; i < tr->n_modifiers; i++) {
		if (!strcmp(tr->modifiers[i], "cc")) {
			ptx_translate_carry(tr);
			return;
		}
	}
	if (ptx_translate_pair(tr))
		return;
	for (unsigned i = 0; i < ARRAY_SIZE(float_ops); i++) {
		if (!strcmp(float_ops[i].name, tr->mnemonic)) {
			translate_float(tr, &float_ops[i]);
			return;
		}
	}
	ptx_tr_refuse(tr);
}

/* testp tests the class of a float. */
enum float_kind {
	KIND_FINITE,
	KIND_INFINITE,
	KIND_NUMBER,
	KIND_NOTANUMBER,
	KIND_NORMAL,
	KIND_SUBNORMAL,
};

static bool is_kind(int class, int64_t kind)
{
	switch (kind) {
	case KIND_FINITE:
		return class != FP_INFINITE && class != FP_NAN;
	case KIND_INFINITE:
		return class == FP_INFINITE;
	case KIND_NUMBER:
		return class != FP_NAN;
	case KIND_NOTANUMBER:
		return class == FP_NAN;
	case KIND_NORMAL:
		return class == FP_NORMAL;
	default:
		return class == FP_SUBNORMAL;
	}
}

PTX_EXEC(testp_f32)
{
	PTX_SOURCE(a);
	PTX_DEST(d);

	PTX_LANES_DO(warp, d[l].u64 = is_kind(fpclassify(a[l].f32), in->imm););
	return in + 1;
}

PTX_EXEC(testp_f64)
{
	PTX_SOURCE(a);
	PTX_DEST(d);

	PTX_LANES_DO(warp, d[l].u64 = is_kind(fpclassify(a[l].f64), in->imm););
	return in + 1;
}

static void translate_testp(struct ptx_tr *tr)
{
	static const char *const kinds[] = {
		"finite", "infinite", "number", "notanumber", "normal", "subnormal", NULL};
	int kind = ptx_tr_take_one(tr, kinds);
	enum ptx_type type = ptx_tr_take_type(tr);
	struct ptx_insn *in;
	int32_t source, dest;

	if (kind < 0 || (type != PTX_F32 && type != PTX_F64))
		ptx_tr_refuse(tr);
	if (!ptx_tr_count(tr, 2))
		return;
	source = ptx_tr_source(tr, &tr->stmt->operands[1], type);
	dest = ptx_tr_dest(tr, &tr->stmt->operands[0], PTX_PRED);
	in = ptx_tr_emit(tr, type == PTX_F32 ? testp_f32 : testp_f64);
	in->a = source;
	in->d = dest;
	in->imm = kind;
}

static const struct ptx_family families[] = {
	{"add", translate_any},
	{"sub", translate_any},
	{"mul", translate_any},
	{"fma", translate_any},
	{"mad", translate_any},
	{"div", translate_any},
	{"min", translate_any},
	{"max", translate_any},
	{"abs", translate_any},
	{"neg", translate_any},
	{"rcp", translate_any},
	{"sqrt", translate_any},
	{"rsqrt", translate_any},
	{"sin", translate_any},
	{"cos", translate_any},
	{"lg2", translate_any},
	{"ex2", translate_any},
	{"tanh", translate_any},
	{"copysign", translate_any},
	{"testp", translate_testp},
	{"addc", ptx_translate_carry},
	{"subc", ptx_translate_carry},
	{"madc", ptx_translate_carry},
};

const struct ptx_family_table ptx_float_families = {families, ARRAY_SIZE(families)};
