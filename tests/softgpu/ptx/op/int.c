/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Integer arithmetic. Runs on the thread that runs the kernel; every result is
 * cut to its type's width, and no operand can trap the host.
 */

#include "base.h"
#include "tests/softgpu/ptx/translate.h"
#include "tests/softgpu/ptx/warp.h"

/* EXPR over x, y, z of type T, read through FIELD and written as an unsigned U. */
#define UNARY(name, T, FIELD, U, EXPR)                                                             \
	PTX_EXEC(name)                                                                             \
	{                                                                                          \
		PTX_SOURCE(a);                                                                     \
		PTX_DEST(d);                                                                       \
		PTX_LANES_DO(warp, const T x = a[l].FIELD; d[l].u64 = (U)(EXPR););                 \
		return in + 1;                                                                     \
	}

#define BINARY(name, T, FIELD, U, EXPR)                                                            \
	PTX_EXEC(name)                                                                             \
	{                                                                                          \
		PTX_SOURCE(a);                                                                     \
		PTX_SOURCE(b);                                                                     \
		PTX_DEST(d);                                                                       \
		PTX_LANES_DO(warp, const T x = a[l].FIELD; const T y = b[l].FIELD;                 \
			     d[l].u64 = (U)(EXPR););                                               \
		return in + 1;                                                                     \
	}

#define TERNARY(name, T, FIELD, U, EXPR)                                                           \
	PTX_EXEC(name)                                                                             \
	{                                                                                          \
		PTX_SOURCE(a);                                                                     \
		PTX_SOURCE(b);                                                                     \
		PTX_SOURCE(c);                                                                     \
		PTX_DEST(d);                                                                       \
		PTX_LANES_DO(warp, const T x = a[l].FIELD; const T y = b[l].FIELD;                 \
			     const T z = c[l].FIELD; d[l].u64 = (U)(EXPR););                       \
		return in + 1;                                                                     \
	}

#define EVERY_WIDTH(MACRO, name, EXPR)                                                             \
	MACRO(name##_16, uint32_t, u16, uint16_t, EXPR)                                            \
	MACRO(name##_32, uint32_t, u32, uint32_t, EXPR)                                            \
	MACRO(name##_64, uint64_t, u64, uint64_t, EXPR)

#define EVERY_TYPE(MACRO, name, EXPR)                                                              \
	MACRO(name##_u16, uint16_t, u16, uint16_t, EXPR)                                           \
	MACRO(name##_s16, int16_t, s16, uint16_t, EXPR)                                            \
	MACRO(name##_u32, uint32_t, u32, uint32_t, EXPR)                                           \
	MACRO(name##_s32, int32_t, s32, uint32_t, EXPR)                                            \
	MACRO(name##_u64, uint64_t, u64, uint64_t, EXPR)                                           \
	MACRO(name##_s64, int64_t, s64, uint64_t, EXPR)

EVERY_WIDTH(BINARY, add, x + y)
EVERY_WIDTH(BINARY, sub, x - y)
EVERY_WIDTH(BINARY, mul_lo, x *y)
EVERY_WIDTH(TERNARY, mad_lo, x *y + z)
EVERY_WIDTH(UNARY, neg, -x)
EVERY_TYPE(BINARY, min, x < y ? x : y)
EVERY_TYPE(BINARY, max, x > y ? x : y)
BINARY(min_relu_s32, int32_t, s32, uint32_t, MAX(MIN(x, y), 0))
BINARY(max_relu_s32, int32_t, s32, uint32_t, MAX(MAX(x, y), 0))

UNARY(abs_s16, int32_t, s16, uint16_t, x < 0 ? -x : x)
UNARY(abs_s32, int32_t, s32, uint32_t, x < 0 ? -(uint32_t)x : (uint32_t)x)
UNARY(abs_s64, int64_t, s64, uint64_t, x < 0 ? -(uint64_t)x : (uint64_t)x)

#define SATURATE_S32(v) ((v) < INT32_MIN ? INT32_MIN : (v) > INT32_MAX ? INT32_MAX : (v))
BINARY(add_sat_s32, int64_t, s32, uint32_t, SATURATE_S32(x + y))
BINARY(sub_sat_s32, int64_t, s32, uint32_t, SATURATE_S32(x - y))

/* Division by zero gives all ones; the most negative number over -1 wraps. */
static inline uint64_t divide_u(uint64_t x, uint64_t y)
{
	return y ? x / y : UINT64_MAX;
}

static inline uint64_t remainder_u(uint64_t x, uint64_t y)
{
	return y ? x % y : x;
}

static inline uint64_t divide_s(int64_t x, int64_t y)
{
	if (y == 0)
		return UINT64_MAX;
	return y == -1 ? -(uint64_t)x : (uint64_t)(x / y);
}

static inline uint64_t remainder_s(int64_t x, int64_t y)
{
	if (y == 0)
		return (uint64_t)x;
	return y == -1 ? 0 : (uint64_t)(x % y);
}

#define DIVISIONS(name, UNSIGNED, SIGNED)                                                          \
	BINARY(name##_u16, uint16_t, u16, uint16_t, UNSIGNED(x, y))                                \
	BINARY(name##_s16, int16_t, s16, uint16_t, SIGNED(x, y))                                   \
	BINARY(name##_u32, uint32_t, u32, uint32_t, UNSIGNED(x, y))                                \
	BINARY(name##_s32, int32_t, s32, uint32_t, SIGNED(x, y))                                   \
	BINARY(name##_u64, uint64_t, u64, uint64_t, UNSIGNED(x, y))                                \
	BINARY(name##_s64, int64_t, s64, uint64_t, SIGNED(x, y))
DIVISIONS(div, divide_u, divide_s)
DIVISIONS(rem, remainder_u, remainder_s)

BINARY(mul_hi_u16, uint32_t, u16, uint16_t, x *y >> 16)
BINARY(mul_hi_s16, int32_t, s16, uint16_t, x *y >> 16)
BINARY(mul_hi_u32, uint64_t, u32, uint32_t, x *y >> 32)
BINARY(mul_hi_s32, int64_t, s32, uint32_t, x *y >> 32)
BINARY(mul_hi_u64, unsigned __int128, u64, uint64_t, x *y >> 64)
BINARY(mul_hi_s64, __int128, s64, uint64_t, x *y >> 64)

TERNARY(mad_hi_u16, uint32_t, u16, uint16_t, (x * y >> 16) + z)
TERNARY(mad_hi_s16, int32_t, s16, uint16_t, (x * y >> 16) + z)
TERNARY(mad_hi_u32, uint64_t, u32, uint32_t, (x * y >> 32) + z)
TERNARY(mad_hi_s32, int64_t, s32, uint32_t, (x * y >> 32) + z)
TERNARY(mad_hi_sat_s32, int64_t, s32, uint32_t, SATURATE_S32((x * y >> 32) + z))
TERNARY(mad_hi_u64, unsigned __int128, u64, uint64_t, (x * y >> 64) + z)
TERNARY(mad_hi_s64, __int128, s64, uint64_t, (x * y >> 64) + z)

/* Products of the low 24 bits: of the 48 bits, the low or the high 32. */
#define LOW_U24(v) ((uint64_t)((v)&0xffffffu))
#define LOW_S24(v) ((int64_t)((int32_t)((uint32_t)(v) << 8) >> 8))
BINARY(mul24_lo_u32, uint32_t, u32, uint32_t, LOW_U24(x) * LOW_U24(y))
BINARY(mul24_lo_s32, uint32_t, u32, uint32_t, LOW_S24(x) * LOW_S24(y))
BINARY(mul24_hi_u32, uint32_t, u32, uint32_t, LOW_U24(x) * LOW_U24(y) >> 16)
BINARY(mul24_hi_s32, uint32_t, u32, uint32_t, LOW_S24(x) * LOW_S24(y) >> 16)
TERNARY(mad24_lo_u32, uint32_t, u32, uint32_t, LOW_U24(x) * LOW_U24(y) + z)
TERNARY(mad24_lo_s32, uint32_t, u32, uint32_t, (uint64_t)(LOW_S24(x) * LOW_S24(y)) + z)
TERNARY(mad24_hi_u32, uint32_t, u32, uint32_t, (LOW_U24(x) * LOW_U24(y) >> 16) + z)
TERNARY(mad24_hi_s32, uint32_t, u32, uint32_t, (uint64_t)(LOW_S24(x) * LOW_S24(y) >> 16) + z)
TERNARY(mad24_hi_sat_s32, uint32_t, u32, uint32_t,
	SATURATE_S32((LOW_S24(x) * LOW_S24(y) >> 16) + (int32_t)z))

#define DISTANCE(U, x, y) ((x) < (y) ? (U)(y) - (U)(x) : (U)(x) - (U)(y))
TERNARY(sad_u16, uint16_t, u16, uint16_t, DISTANCE(uint32_t, x, y) + z)
TERNARY(sad_s16, int16_t, s16, uint16_t, DISTANCE(uint32_t, x, y) + (uint32_t)z)
TERNARY(sad_u32, uint32_t, u32, uint32_t, DISTANCE(uint32_t, x, y) + z)
TERNARY(sad_s32, int32_t, s32, uint32_t, DISTANCE(uint32_t, x, y) + (uint32_t)z)
TERNARY(sad_u64, uint64_t, u64, uint64_t, DISTANCE(uint64_t, x, y) + z)
TERNARY(sad_s64, int64_t, s64, uint64_t, DISTANCE(uint64_t, x, y) + (uint64_t)z)

#define SIX(name, form, sixteen, thirtytwo, sixtyfour)                                             \
	{#name ".u16", sixteen, form##_u16}, {#name ".s16", sixteen, form##_s16},                  \
		{#name ".u32", thirtytwo, form##_u32}, {#name ".s32", thirtytwo, form##_s32},      \
		{#name ".u64", sixtyfour, form##_u64},                                             \
	{                                                                                          \
#name ".s64", sixtyfour, form##_s64                                                \
	}

#define SIX_OF_WIDTH(name, form, sixteen, thirtytwo, sixtyfour)                                    \
	{#name ".u16", sixteen, form##_16}, {#name ".s16", sixteen, form##_16},                    \
		{#name ".u32", thirtytwo, form##_32}, {#name ".s32", thirtytwo, form##_32},        \
		{#name ".u64", sixtyfour, form##_64},                                              \
	{                                                                                          \
#name ".s64", sixtyfour, form##_64                                                 \
	}

static const struct ptx_op ops[] = {
	SIX_OF_WIDTH(add, add, "hhh", "www", "xxx"),
	SIX_OF_WIDTH(sub, sub, "hhh", "www", "xxx"),
	SIX_OF_WIDTH(mul.lo, mul_lo, "hhh", "www", "xxx"),
	SIX_OF_WIDTH(mad.lo, mad_lo, "hhhh", "wwww", "xxxx"),
	{"neg.s16", "hh", neg_16},
	{"neg.s32", "ww", neg_32},
	{"neg.s64", "xx", neg_64},
	{"abs.s16", "hh", abs_s16},
	{"abs.s32", "ww", abs_s32},
	{"abs.s64", "xx", abs_s64},
	{"add.sat.s32", "www", add_sat_s32},
	{"sub.sat.s32", "www", sub_sat_s32},
	SIX(min, min, "hhh", "www", "xxx"),
	SIX(max, max, "hhh", "www", "xxx"),
	{"min.relu.s32", "www", min_relu_s32},
	{"max.relu.s32", "www", max_relu_s32},
	SIX(div, div, "hhh", "www", "xxx"),
	SIX(rem, rem, "hhh", "www", "xxx"),
	SIX(mul.hi, mul_hi, "hhh", "www", "xxx"),
	SIX(mad.hi, mad_hi, "hhhh", "wwww", "xxxx"),
	{"mad.hi.sat.s32", "wwww", mad_hi_sat_s32},
	{"mul24.lo.u32", "www", mul24_lo_u32},
	{"mul24.lo.s32", "www", mul24_lo_s32},
	{"mul24.hi.u32", "www", mul24_hi_u32},
	{"mul24.hi.s32", "www", mul24_hi_s32},
	{"mad24.lo.u32", "wwww", mad24_lo_u32},
	{"mad24.lo.s32", "wwww", mad24_lo_s32},
	{"mad24.hi.u32", "wwww", mad24_hi_u32},
	{"mad24.hi.s32", "wwww", mad24_hi_s32},
	{"mad24.hi.sat.s32", "wwww", mad24_hi_sat_s32},
	SIX(sad, sad, "hhhh", "wwww", "xxxx"),
};

const struct ptx_op_table ptx_int_ops = {ops, ARRAY_SIZE(ops)};
