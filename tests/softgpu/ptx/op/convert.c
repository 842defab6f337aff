/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Conversions between types: cvt. Runs on the thread that runs the kernel. Each of
 * the common ones has a function; the rest goes lane by lane through the widest form
 * of the source, rounded once.
 */

#include "base.h"
#include "tests/softgpu/ptx/float.h"
#include "tests/softgpu/ptx/translate.h"
#include "tests/softgpu/ptx/warp.h"

enum integral {
	INTEGRAL_NONE,
	INTEGRAL_NEAREST,
	INTEGRAL_ZERO,
	INTEGRAL_DOWN,
	INTEGRAL_UP,
};

#define CONVERT(name, EXPR)                                                                        \
	PTX_EXEC(name)                                                                             \
	{                                                                                          \
		PTX_SOURCE(a);                                                                     \
		PTX_DEST(d);                                                                       \
		PTX_LANES_DO(warp, d[l].u64 = (EXPR););                                            \
		return in + 1;                                                                     \
	}

/* Integers: b is the shift that cuts to the type, imm the mask of the register. */
#define CUT_UNSIGNED(v) ((v) << in->b >> in->b & (uint64_t)in->imm)
#define CUT_SIGNED(v) ((uint64_t)((int64_t)((v) << in->b) >> in->b) & (uint64_t)in->imm)
#define INTEGER(name, FIELD)                                                                       \
	CONVERT(to_u_from_##name, CUT_UNSIGNED((uint64_t)a[l].FIELD))                              \
	CONVERT(to_s_from_##name, CUT_SIGNED((uint64_t)a[l].FIELD))
INTEGER(u8, u8)
INTEGER(s8, s8)
INTEGER(u16, u16)
INTEGER(s16, s16)
INTEGER(u32, u32)
INTEGER(s32, s32)
INTEGER(u64, u64)

CONVERT(f32_from_s32, ptx_f32_bits((float)a[l].s32))
CONVERT(f32_from_u32, ptx_f32_bits((float)a[l].u32))
CONVERT(f64_from_s32, ptx_f64_bits((double)a[l].s32))
CONVERT(f64_from_u32, ptx_f64_bits((double)a[l].u32))
CONVERT(f64_from_f32, ptx_f64_bits((double)a[l].f32))
CONVERT(f32_from_f64, ptx_f32_result((float)a[l].f64))
CONVERT(f32_from_f16, ptx_f32_result(ptx_f16_to_f32(a[l].u16)))
CONVERT(f32_from_bf16, ptx_f32_result(ptx_bf16_to_f32(a[l].u16)))

struct conversion {
	enum ptx_type to, from;
	enum ptx_rounding mode;
	enum integral integral;
	bool has_mode;
	uint32_t flags;
};

/* How in->extra packs a conversion for the general function. */
static uint32_t conversion_pack(const struct conversion *conversion)
{
	return (uint32_t)conversion->to | (uint32_t)conversion->from << 8 |
	       (uint32_t)conversion->mode << 16 | (uint32_t)conversion->integral << 24;
}

static struct conversion conversion_unpack(const struct ptx_insn *in)
{
	return (struct conversion){
		.to = (enum ptx_type)(in->extra & 0xff),
		.from = (enum ptx_type)(in->extra >> 8 & 0xff),
		.mode = (enum ptx_rounding)(in->extra >> 16 & 0xff),
		.integral = (enum integral)(in->extra >> 24),
		.flags = in->flags,
	};
}

static bool is_float(enum ptx_type type)
{
	return type == PTX_F16 || type == PTX_BF16 || type == PTX_F32 || type == PTX_F64;
}

static bool is_integer(enum ptx_type type)
{
	return ptx_type_size(type) <= 8 && (type == PTX_U8 || type == PTX_U16 || type == PTX_U32 ||
						   type == PTX_U64 || ptx_type_is_signed(type));
}

static __int128 read_integer(union ptx_reg reg, enum ptx_type type)
{
	switch (type) {
	case PTX_U8:
		return reg.u8;
	case PTX_S8:
		return reg.s8;
	case PTX_U16:
		return reg.u16;
	case PTX_S16:
		return reg.s16;
	case PTX_U32:
		return reg.u32;
	case PTX_S32:
		return reg.s32;
	case PTX_U64:
		return reg.u64;
	default:
		return reg.s64;
	}
}

static double read_float(union ptx_reg reg, enum ptx_type type, bool flush)
{
	switch (type) {
	case PTX_F16:
		return ptx_f16_to_f32(reg.u16);
	case PTX_BF16:
		return ptx_bf16_to_f32(reg.u16);
	case PTX_F32:
		return flush ? ptx_f32_flush(reg.f32) : reg.f32;
	default:
		return reg.f64;
	}
}

static __int128 integer_min(enum ptx_type type)
{
	return ptx_type_is_signed(type) ? -((__int128)1 << (ptx_type_size(type) * 8 - 1)) : 0;
}

static __int128 integer_max(enum ptx_type type)
{
	unsigned bits = ptx_type_size(type) * 8 - ptx_type_is_signed(type);

	return ((__int128)1 << bits) - 1;
}

static __int128 clamp(__int128 x, enum ptx_type type)
{
	return MIN(MAX(x, integer_min(type)), integer_max(type));
}

static double round_integral(double x, enum integral integral)
{
	switch (integral) {
	case INTEGRAL_NEAREST:
		return rint(x);
	case INTEGRAL_ZERO:
		return trunc(x);
	case INTEGRAL_DOWN:
		return floor(x);
	case INTEGRAL_UP:
		return ceil(x);
	default:
		return x;
	}
}

static __int128 float_to_integer(double x, const struct conversion *conversion)
{
	bool is_wide = conversion->from == PTX_F64 || ptx_type_size(conversion->to) == 8;

	x = round_integral(x, conversion->integral);
	if (x != x)
		return is_wide ? (__int128)1 << (ptx_type_size(conversion->to) * 8 - 1) : 0;
	if (x >= 0x1p64)
		return integer_max(conversion->to);
	if (x < -0x1p64)
		return integer_min(conversion->to);
	return clamp((__int128)x, conversion->to);
}

/* A value that rounds to 16 bits in one step as the integer itself would. */
static double integer_sticky(__int128 x)
{
	bool is_negative = x < 0;
	uint64_t size = (uint64_t)(is_negative ? -x : x);

	if (size >> 53)
		size = (size >> 11 | ((size & 0x7ff) != 0)) << 11;
	return is_negative ? -(double)size : (double)size;
}

static float f32_of_integer(__int128 x)
{
	return x < 0 ? (float)(int64_t)x : (float)(uint64_t)x;
}

static double f64_of_integer(__int128 x)
{
	return x < 0 ? (double)(int64_t)x : (double)(uint64_t)x;
}

static float f32_of_double(double x)
{
	return (float)x;
}

/* Through pointers, so that the compiler moves no conversion across a change of rounding. */
static float (*const volatile f32_of_integer_p)(__int128) = f32_of_integer;
static double (*const volatile f64_of_integer_p)(__int128) = f64_of_integer;
static float (*const volatile f32_of_double_p)(double) = f32_of_double;

static double limit_float(double x, const struct conversion *conversion)
{
	if (conversion->flags & PTX_FLOAT_SAT)
		x = x > 0 ? (x < 1 ? x : 1) : 0;
	if (conversion->flags & PTX_FLOAT_RELU && x <= 0)
		x = 0;
	return x;
}

/* To a 16-bit format; .satfinite never gives infinity. */
static uint64_t round_small(double x, const struct conversion *conversion)
{
	const struct ptx_float_format *format = conversion->to == PTX_F16 ? &ptx_f16 : &ptx_bf16;
	uint32_t bits;

	x = limit_float(x, conversion);
	if (x != x)
		return PTX_F16_NAN;
	bits = ptx_float_round(x, format, conversion->mode);
	if (conversion->flags & PTX_FLOAT_SATFINITE && (bits & 0x7fff) > format->limit)
		bits--;
	return bits;
}

static uint64_t float_to_float(double x, const struct conversion *conversion)
{
	float small;

	x = round_integral(x, conversion->integral);
	if (conversion->to == PTX_F16 || conversion->to == PTX_BF16)
		return round_small(x, conversion);
	x = limit_float(x, conversion);
	if (conversion->to == PTX_F64)
		return ptx_f64_bits(x);
	small = f32_of_double_p(x);
	if (conversion->flags & PTX_FLOAT_FTZ)
		small = ptx_f32_flush(small);
	return ptx_f32_result(small);
}

static uint64_t integer_to_float(__int128 x, const struct conversion *conversion)
{
	double wide;

	switch (conversion->to) {
	case PTX_F16:
	case PTX_BF16:
		return round_small(integer_sticky(x), conversion);
	case PTX_F32:
		wide = f32_of_integer_p(x);
		return ptx_f32_bits((float)limit_float(wide, conversion));
	default:
		wide = f64_of_integer_p(x);
		return ptx_f64_bits(limit_float(wide, conversion));
	}
}

static uint64_t convert(union ptx_reg reg, const struct conversion *conversion)
{
	bool flush = conversion->flags & PTX_FLOAT_FTZ;

	if (is_integer(conversion->from)) {
		__int128 x = read_integer(reg, conversion->from);

		if (!is_integer(conversion->to))
			return integer_to_float(x, conversion);
		return (uint64_t)clamp(x, conversion->to);
	}
	if (is_integer(conversion->to))
		return (uint64_t)float_to_integer(
			read_float(reg, conversion->from, flush), conversion);
	return float_to_float(read_float(reg, conversion->from, flush), conversion);
}

PTX_EXEC(exec_convert)
{
	struct conversion conversion = conversion_unpack(in);
	bool is_exact = conversion.to != PTX_F32 && conversion.to != PTX_F64;
	int saved = ptx_rounding_enter(is_exact ? PTX_ROUND_NEAREST : conversion.mode);
	PTX_SOURCE(a);
	PTX_DEST(d);

	PTX_LANES_DO(warp, d[l].u64 = convert(a[l], &conversion) & (uint64_t)in->imm;);
	ptx_rounding_leave(saved);
	return in + 1;
}

/* Two floats into one register: a in the high half. */
PTX_EXEC(exec_convert_pair)
{
	struct conversion conversion = conversion_unpack(in);
	bool flush = conversion.flags & PTX_FLOAT_FTZ;
	PTX_SOURCE(a);
	PTX_SOURCE(b);
	PTX_DEST(d);

	PTX_LANES_DO(
		warp, float x = a[l].f32; float y = b[l].f32;
		if (flush) {
			x = ptx_f32_flush(x);
			y = ptx_f32_flush(y);
		} d[l]
			.u64 = round_small(x, &conversion) << 16 | round_small(y, &conversion););
	return in + 1;
}

PTX_EXEC(exec_convert_tf32)
{
	enum ptx_rounding mode = (enum ptx_rounding)in->extra;
	bool relu = in->flags & PTX_FLOAT_RELU;
	PTX_SOURCE(a);
	PTX_DEST(d);

	PTX_LANES_DO(warp, float x = a[l].f32; if (relu && x <= 0) x = 0;
		     d[l].u64 = x != x ? PTX_F32_NAN : ptx_float_round(x, &ptx_tf32, mode) << 13;);
	return in + 1;
}

static ptx_exec_fn *pick_integer(const struct conversion *conversion)
{
	static const struct {
		enum ptx_type from;
		ptx_exec_fn *to_unsigned, *to_signed;
	} execs[] = {
		{PTX_U8, to_u_from_u8, to_s_from_u8},
		{PTX_S8, to_u_from_s8, to_s_from_s8},
		{PTX_U16, to_u_from_u16, to_s_from_u16},
		{PTX_S16, to_u_from_s16, to_s_from_s16},
		{PTX_U32, to_u_from_u32, to_s_from_u32},
		{PTX_S32, to_u_from_s32, to_s_from_s32},
		{PTX_U64, to_u_from_u64, to_s_from_u64},
		{PTX_S64, to_u_from_u64, to_s_from_u64},
	};

	for (unsigned i = 0; i < ARRAY_SIZE(execs); i++)
		if (execs[i].from == conversion->from)
			return ptx_type_is_signed(conversion->to) ? execs[i].to_signed
								  : execs[i].to_unsigned;
	return exec_convert;
}

/* The common ones, to nearest and without saturation. */
static ptx_exec_fn *pick_float(const struct conversion *conversion)
{
	static const struct {
		enum ptx_type to, from;
		ptx_exec_fn *exec;
	} execs[] = {
		{PTX_F32, PTX_S32, f32_from_s32},
		{PTX_F32, PTX_U32, f32_from_u32},
		{PTX_F64, PTX_S32, f64_from_s32},
		{PTX_F64, PTX_U32, f64_from_u32},
		{PTX_F64, PTX_F32, f64_from_f32},
		{PTX_F32, PTX_F64, f32_from_f64},
		{PTX_F32, PTX_F16, f32_from_f16},
		{PTX_F32, PTX_BF16, f32_from_bf16},
	};

	if (conversion->flags || conversion->integral || conversion->mode != PTX_ROUND_NEAREST)
		return exec_convert;
	for (unsigned i = 0; i < ARRAY_SIZE(execs); i++)
		if (execs[i].to == conversion->to && execs[i].from == conversion->from)
			return execs[i].exec;
	return exec_convert;
}

static struct conversion take_conversion(struct ptx_tr *tr)
{
	static const char *const integrals[] = {"rni", "rzi", "rmi", "rpi", NULL};
	struct conversion conversion = {0};
	uint32_t n = tr->n_modifiers;

	conversion.integral = (enum integral)(ptx_tr_take_one(tr, integrals) + 1);
	conversion.mode = ptx_tr_take_rounding(tr);
	for (uint32_t i = 0; i < n; i++)
		conversion.has_mode |= tr->taken[i] && strlen(tr->modifiers[i]) == 2;
	if (ptx_tr_take(tr, "rna")) {
		conversion.mode = PTX_ROUND_AWAY;
		conversion.has_mode = true;
	}
	if (ptx_tr_take(tr, "ftz"))
		conversion.flags |= PTX_FLOAT_FTZ;
	if (ptx_tr_take(tr, "sat"))
		conversion.flags |= PTX_FLOAT_SAT;
	if (ptx_tr_take(tr, "relu"))
		conversion.flags |= PTX_FLOAT_RELU;
	if (ptx_tr_take(tr, "satfinite"))
		conversion.flags |= PTX_FLOAT_SATFINITE;
	return conversion;
}

/* Whether PTX has this conversion, checked as far as a wrong one could pass as a right one. */
static bool is_valid(const struct conversion *conversion)
{
	bool to_float = is_float(conversion->to), from_float = is_float(conversion->from);
	bool is_small = conversion->to == PTX_F16 || conversion->to == PTX_BF16;

	if ((!to_float && !is_integer(conversion->to)) ||
		(!from_float && !is_integer(conversion->from)))
		return false;
	if (conversion->mode == PTX_ROUND_AWAY)
		return false;
	if (!to_float && conversion->has_mode)
		return false;
	if (from_float && !to_float && !conversion->integral)
		return false;
	if (conversion->integral && !from_float)
		return false;
	return is_small || !(conversion->flags & (PTX_FLOAT_RELU | PTX_FLOAT_SATFINITE));
}

static void translate_pair(struct ptx_tr *tr, struct conversion *conversion)
{
	int32_t rows[3];
	struct ptx_insn *in;

	conversion->to = conversion->to == PTX_F16X2 ? PTX_F16 : PTX_BF16;
	if (conversion->from != PTX_F32 || !conversion->has_mode ||
		(conversion->mode != PTX_ROUND_NEAREST && conversion->mode != PTX_ROUND_ZERO) ||
		conversion->flags & PTX_FLOAT_SAT)
		ptx_tr_refuse(tr);
	if (!ptx_tr_count(tr, 3))
		return;
	rows[1] = ptx_tr_source(tr, ptx_tr_operand(tr, 1), PTX_F32);
	rows[2] = ptx_tr_source(tr, ptx_tr_operand(tr, 2), PTX_F32);
	rows[0] = ptx_tr_dest(tr, ptx_tr_operand(tr, 0), PTX_B32);
	in = ptx_tr_emit(tr, exec_convert_pair);
	in->d = rows[0];
	in->a = rows[1];
	in->b = rows[2];
	in->extra = conversion_pack(conversion);
	in->flags = conversion->flags;
}

static void translate_tf32(struct ptx_tr *tr, const struct conversion *conversion)
{
	int32_t source, dest;
	struct ptx_insn *in;

	if (!ptx_tr_take(tr, "f32") || !conversion->has_mode ||
		conversion->flags & ~(uint32_t)PTX_FLOAT_RELU)
		ptx_tr_refuse(tr);
	if (!ptx_tr_count(tr, 2))
		return;
	source = ptx_tr_source(tr, ptx_tr_operand(tr, 1), PTX_F32);
	dest = ptx_tr_dest(tr, ptx_tr_operand(tr, 0), PTX_B32);
	in = ptx_tr_emit(tr, exec_convert_tf32);
	in->d = dest;
	in->a = source;
	in->extra = conversion->mode;
	in->flags = conversion->flags;
}

static void emit_conversion(struct ptx_tr *tr, const struct conversion *conversion)
{
	bool is_plain = is_integer(conversion->to) && is_integer(conversion->from) &&
			!(conversion->flags & PTX_FLOAT_SAT);
	struct ptx_insn *in;
	int32_t source, dest;
	uint32_t size, bits = ptx_type_size(conversion->to) * 8;

	source = ptx_tr_source_wide(tr, ptx_tr_operand(tr, 1), conversion->from);
	dest = ptx_tr_dest_wide(tr, ptx_tr_operand(tr, 0), conversion->to, &size);
	if (is_float(conversion->to) && size != bits / 8)
		ptx_tr_bad_operand(tr, 0);
	in = ptx_tr_emit(tr, is_plain ? pick_integer(conversion) : pick_float(conversion));
	in->d = dest;
	in->a = source;
	in->b = 64 - (int32_t)bits;
	in->imm = (int64_t)(UINT64_MAX >> (64 - MIN(size, 8u) * 8));
	in->extra = conversion_pack(conversion);
	in->flags = conversion->flags;
}

static void translate_cvt(struct ptx_tr *tr)
{
	struct conversion conversion;

	if (ptx_translate_fp8(tr))
		return;
	conversion = take_conversion(tr);
	if (ptx_tr_take(tr, "tf32")) {
		translate_tf32(tr, &conversion);
		return;
	}
	conversion.to = ptx_tr_take_type(tr);
	conversion.from = ptx_tr_take_type(tr);
	if (conversion.to == PTX_F16X2 || conversion.to == PTX_BF16X2) {
		translate_pair(tr, &conversion);
		return;
	}
	if (!is_valid(&conversion)) {
		ptx_tr_refuse(tr);
		return;
	}
	if (ptx_tr_count(tr, 2))
		emit_conversion(tr, &conversion);
}

static const struct ptx_family families[] = {
	{"cvt", translate_cvt},
};

const struct ptx_family_table ptx_convert_families = {families, ARRAY_SIZE(families)};
