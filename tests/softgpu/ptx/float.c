/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Rounding to small formats and the host's rounding modes. Pure functions, except
 * that they change and restore the thread's floating-point environment.
 */

#include "float.h"

#include <fenv.h>

#include "base.h"

const struct ptx_float_format ptx_f16 = {10, 5, -14, 0x7bff};
const struct ptx_float_format ptx_bf16 = {7, 8, -126, 0x7f7f};
const struct ptx_float_format ptx_tf32 = {10, 8, -126, 0x3fbff};
const struct ptx_float_format ptx_e4m3 = {3, 4, -6, 0x7e};
const struct ptx_float_format ptx_e5m2 = {2, 5, -14, 0x7b};

static bool rounds_up(
	uint64_t rest, uint64_t half, bool is_odd, bool is_negative, enum ptx_rounding mode)
{
	switch (mode) {
	case PTX_ROUND_NEAREST:
		return rest > half || (rest == half && is_odd);
	case PTX_ROUND_AWAY:
		return rest >= half;
	case PTX_ROUND_DOWN:
		return rest && is_negative;
	case PTX_ROUND_UP:
		return rest && !is_negative;
	default:
		return false;
	}
}

uint32_t ptx_float_round(double x, const struct ptx_float_format *format, enum ptx_rounding mode)
{
	uint64_t bits = ptx_f64_bits(x), mantissa, rest, sign, value;
	int exponent = (int)(bits >> 52 & 0x7ff) - 1023, drop = 52 - format->mantissa;
	bool is_negative = bits >> 63;

	sign = (uint64_t)is_negative << (format->mantissa + format->exponent);
	if (x != x)
		return (1u << (format->mantissa + format->exponent)) - 1;
	if (exponent == 1024)
		return (uint32_t)(sign | (format->limit + 1));
	if (exponent == -1023)
		return (uint32_t)(sign | rounds_up(bits << 1 != 0, 2, false, is_negative, mode));
	mantissa = (bits & ((1ull << 52) - 1)) | 1ull << 52;
	if (exponent < format->exponent_min)
		drop = MIN(drop + format->exponent_min - exponent, 62);
	rest = mantissa & ((1ull << drop) - 1);
	value = mantissa >> drop;
	value += rounds_up(rest, 1ull << (drop - 1), value & 1, is_negative, mode);
	if (exponent >= format->exponent_min)
		value += (uint64_t)(exponent - format->exponent_min) << format->mantissa;
	if (value > format->limit)
		value = format->limit +
			rounds_up(1, mode == PTX_ROUND_NEAREST ? 0 : 1, true, is_negative, mode);
	return (uint32_t)(sign | value);
}

double ptx_float_fma_odd(double x, double y, double z)
{
	double product = x * y;
	double sum = product + z;
	double back, error;

	if (!isfinite(sum))
		return sum;
	back = sum - product;
	error = (product - (sum - back)) + (z - back);
	if (error != 0 && !(ptx_f64_bits(sum) & 1)) {
		bool is_up = (error > 0) == (sum > 0);

		return ptx_f64_from(ptx_f64_bits(sum) + (is_up ? 1 : UINT64_MAX));
	}
	return sum;
}

int ptx_rounding_enter(enum ptx_rounding mode)
{
	static const int modes[] = {
		[PTX_ROUND_NEAREST] = FE_TONEAREST,
		[PTX_ROUND_ZERO] = FE_TOWARDZERO,
		[PTX_ROUND_DOWN] = FE_DOWNWARD,
		[PTX_ROUND_UP] = FE_UPWARD,
		[PTX_ROUND_AWAY] = FE_TONEAREST,
	};
	int saved;

	if (mode == PTX_ROUND_NEAREST)
		return -1;
	saved = fegetround();
	fesetround(modes[mode]);
	return saved;
}

void ptx_rounding_leave(int saved)
{
	if (saved >= 0)
		fesetround(saved);
}

enum ptx_rounding ptx_tr_take_rounding(struct ptx_tr *tr)
{
	static const char *const names[] = {"rn", "rz", "rm", "rp", NULL};
	int i = ptx_tr_take_one(tr, names);

	return i < 0 ? PTX_ROUND_NEAREST : (enum ptx_rounding)i;
}

double ptx_float_min(double x, double y, bool nan)
{
	if (x != x || y != y)
		return nan ? NAN : x != x ? y : x;
	if (x == y)
		return signbit(x) ? x : y;
	return x < y ? x : y;
}

double ptx_float_max(double x, double y, bool nan)
{
	if (x != x || y != y)
		return nan ? NAN : x != x ? y : x;
	if (x == y)
		return signbit(x) ? y : x;
	return x > y ? x : y;
}

float ptx_float_unary(enum ptx_float_op op, float x)
{
	switch (op) {
	case PTX_FLOAT_RCP:
		return 1.0f / x;
	case PTX_FLOAT_SQRT:
		return sqrtf(x);
	case PTX_FLOAT_RSQRT:
		return (float)(1.0 / sqrt((double)x));
	case PTX_FLOAT_SIN:
		return sinf(x);
	case PTX_FLOAT_COS:
		return cosf(x);
	case PTX_FLOAT_LG2:
		return log2f(x);
	case PTX_FLOAT_EX2:
		return exp2f(x);
	case PTX_FLOAT_TANH:
		return tanhf(x);
	case PTX_FLOAT_ABS:
		return fabsf(x);
	default:
		return -x;
	}
}
