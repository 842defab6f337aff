/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PTX_FLOAT_H
#define PTX_FLOAT_H

/*
 * Floating-point formats and rounding, on bits and host floats.
 */

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "translate.h"

#define PTX_F32_NAN 0x7fffffffu
#define PTX_F16_NAN 0x7fffu

enum ptx_rounding {
	PTX_ROUND_NEAREST,
	PTX_ROUND_ZERO,
	PTX_ROUND_DOWN,
	PTX_ROUND_UP,
	PTX_ROUND_AWAY, /* to nearest, ties away from zero */
};

/* Bits of ptx_insn.flags for instructions on floats. */
enum ptx_float_flags {
	PTX_FLOAT_FTZ = 1 << 0,
	PTX_FLOAT_SAT = 1 << 1,
	PTX_FLOAT_RELU = 1 << 2,
	PTX_FLOAT_NAN = 1 << 3,     /* a NaN operand makes the result NaN */
	PTX_FLOAT_XORSIGN = 1 << 4, /* .xorsign.abs */
	PTX_FLOAT_SATFINITE = 1 << 5,
};

/* A small format. Values above `limit', its largest finite value, are infinity. */
struct ptx_float_format {
	int mantissa; /* bits, without the hidden one */
	int exponent; /* bits */
	int exponent_min;
	uint32_t limit;
};

extern const struct ptx_float_format ptx_f16, ptx_bf16, ptx_tf32, ptx_e4m3, ptx_e5m2;

static inline uint32_t ptx_f32_bits(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits;
}

static inline float ptx_f32_from(uint32_t bits)
{
	float x;

	memcpy(&x, &bits, sizeof(x));
	return x;
}

static inline uint64_t ptx_f64_bits(double x)
{
	uint64_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits;
}

static inline double ptx_f64_from(uint64_t bits)
{
	double x;

	memcpy(&x, &bits, sizeof(x));
	return x;
}

/* The only NaN of 32 bits that the device returns. */
static inline uint32_t ptx_f32_result(float x)
{
	return x != x ? PTX_F32_NAN : ptx_f32_bits(x);
}

/* A subnormal becomes zero with the same sign. */
static inline float ptx_f32_flush(float x)
{
	uint32_t bits = ptx_f32_bits(x);

	return bits & 0x7f800000u ? x : ptx_f32_from(bits & 0x80000000u);
}

static inline float ptx_f32_saturate(float x)
{
	return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f;
}

static inline float ptx_f16_to_f32(uint16_t half)
{
	uint32_t sign = (uint32_t)(half & 0x8000) << 16;
	uint32_t rest = half & 0x7fffu;

	if (rest >= 0x7c00)
		return ptx_f32_from(sign | 0x7f800000u | (rest & 0x3ff) << 13);
	if (rest >= 0x400)
		return ptx_f32_from(sign | ((rest << 13) + 0x38000000u));
	return ptx_f32_from(sign | ptx_f32_bits((float)rest * 0x1p-24f));
}

static inline float ptx_bf16_to_f32(uint16_t half)
{
	return ptx_f32_from((uint32_t)half << 16);
}

/*
 * The bits of x, rounded to a format of 1 + exponent + mantissa bits. A value that is
 * too large becomes infinity, or the largest finite value if it rounds there.
 */
uint32_t ptx_float_round(double x, const struct ptx_float_format *format, enum ptx_rounding mode);

/* x*y + z, so precise that rounding it to 16 bits equals rounding the exact value. */
double ptx_float_fma_odd(double x, double y, double z);

/* Sets a rounding mode of the host's arithmetic; returns the mode to restore. */
int ptx_rounding_enter(enum ptx_rounding mode);
void ptx_rounding_leave(int saved);

/* Takes .rn, .rz, .rm or .rp; PTX_ROUND_NEAREST without one. */
enum ptx_rounding ptx_tr_take_rounding(struct ptx_tr *tr);

/* Shared by the families of floating-point arithmetic of 16, 32 and 64 bits. */
enum ptx_float_op {
	PTX_FLOAT_ADD,
	PTX_FLOAT_SUB,
	PTX_FLOAT_MUL,
	PTX_FLOAT_FMA,
	PTX_FLOAT_DIV,
	PTX_FLOAT_MIN,
	PTX_FLOAT_MAX,
	PTX_FLOAT_RCP,
	PTX_FLOAT_SQRT,
	PTX_FLOAT_RSQRT,
	PTX_FLOAT_SIN,
	PTX_FLOAT_COS,
	PTX_FLOAT_LG2,
	PTX_FLOAT_EX2,
	PTX_FLOAT_TANH,
	PTX_FLOAT_ABS,
	PTX_FLOAT_NEG,
	PTX_FLOAT_COPYSIGN,
};

/* The operation in single precision, to nearest, for instructions with one operand. */
float ptx_float_unary(enum ptx_float_op op, float x);

/* minNum and maxNum; with `nan', minimum and maximum. */
double ptx_float_min(double x, double y, bool nan);
double ptx_float_max(double x, double y, bool nan);

/* Translates an operation on f16, f16x2, bf16 or bf16x2. */
void ptx_translate_half(struct ptx_tr *tr, enum ptx_float_op op, enum ptx_type type);

#endif
