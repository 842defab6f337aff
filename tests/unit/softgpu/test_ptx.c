/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Single PTX instructions with special and random operands, compared with the same
 * computation in C.
 */

#include <fenv.h>
#include <math.h>

#include "ptx_harness.h"
#include "tests/unit/seed.h"

#define N_INPUTS 512u

struct inputs {
	uint64_t a, b, c;
};

typedef uint64_t (*want_fn)(uint64_t a, uint64_t b, uint64_t c);

struct op_case {
	const char *body; /* sources %d1 %r1 %h1 %f1 %g1 and so on; writes number 0 */
	char result;      /* the letter of the result's register */
	want_fn want;
};

static struct inputs inputs[N_INPUTS];

static const uint64_t corners[] = {0, 1, 2, 7, 31, 32, 33, 63, 64, 127, 128, 255, 256, 0x7fff,
	0x8000, 0xffff, 0x10000, 0x7fffffff, 0x80000000, 0xffffffff, 0x100000000, INT64_MAX,
	1ull << 63, UINT64_MAX, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000, 0x7fc00001,
	0x00000001, 0x80000001, 0x007fffff, 0x7f7fffff, 0x4b000000, 0x3fc00000, 0x4f000000,
	0x3ff0000000000000, 0x7ff0000000000000, 0xfff8000000000001, 0x0000000000000001,
	0x43e0000000000000, 0x41e0000000000000, 0x3fe0000000000000, 0x3c003c00, 0x7c00fc00,
	0x7bff0001, 0x7e003555};

static uint64_t random_state = 88172645463325252ull;

static uint64_t next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static uint64_t next_input(uint32_t i)
{
	uint64_t x = next_random();

	if (i % 3 == 0)
		return corners[x % ARRAY_SIZE(corners)];
	if (i % 3 == 1)
		return x >> (x % 64);
	return x;
}

static int make_inputs(_unused_ void **state)
{
	random_state ^= seed_read(0);
	for (uint32_t i = 0; i < N_INPUTS; i++) {
		inputs[i].a = next_input((uint32_t)next_random());
		inputs[i].b = next_input((uint32_t)next_random());
		inputs[i].c = next_input((uint32_t)next_random());
	}
	return 0;
}

static const char op_head[] = PTX_HEAD
	".visible .entry k(.param .u64 in, .param .u64 out)\n{\n"
	".reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<6>; .reg .b64 %d<8>;\n"
	".reg .f32 %f<4>; .reg .f64 %g<4>;\n"
	"ld.param.u64 %d4, [in]; ld.param.u64 %d5, [out];\n"
	"mov.u32 %r4, %ctaid.x; mov.u32 %r5, %ntid.x; mov.u32 %r0, %tid.x;\n"
	"mad.lo.u32 %r4, %r4, %r5, %r0;\n"
	"mad.wide.u32 %d4, %r4, 24, %d4; mad.wide.u32 %d5, %r4, 8, %d5;\n"
	"ld.global.u64 %d1, [%d4]; ld.global.u64 %d2, [%d4+8]; ld.global.u64 %d3, [%d4+16];\n"
	"mov.b64 {%r1, _}, %d1; mov.b64 {%r2, _}, %d2; mov.b64 {%r3, _}, %d3;\n"
	"mov.b32 {%h1, _}, %r1; mov.b32 {%h2, _}, %r2; mov.b32 {%h3, _}, %r3;\n"
	"mov.b32 %f1, %r1; mov.b32 %f2, %r2; mov.b32 %f3, %r3;\n"
	"mov.b64 %g1, %d1; mov.b64 %g2, %d2; mov.b64 %g3, %d3;\n"
	"setp.ne.u32 %p1, %r1, 0; and.b32 %r0, %r2, 1; setp.ne.u32 %p2, %r0, 0;\n"
	"setp.gt.s32 %p3, %r3, 0;\n";

static const char *op_tail(char result)
{
	switch (result) {
	case 'r':
		return "cvt.u64.u32 %d0, %r0;\n";
	case 'h':
		return "cvt.u64.u16 %d0, %h0;\n";
	case 'f':
		return "mov.b32 %r0, %f0; cvt.u64.u32 %d0, %r0;\n";
	case 'g':
		return "mov.b64 %d0, %g0;\n";
	case 'p':
		return "selp.b64 %d0, 1, 0, %p0;\n";
	default:
		return "";
	}
}

static bool is_nan_of(uint64_t bits, char result)
{
	if (result == 'f')
		return (bits & 0x7fffffff) > 0x7f800000;
	return result == 'g' && (bits & INT64_MAX) > 0x7ff0000000000000ull;
}

static void check_op(const struct op_case *op)
{
	char text[4096];
	uint64_t params[2] = {device_address(0), device_address(N_INPUTS * sizeof(struct inputs))};
	struct ptx_module *module;
	struct ptx_fault fault;

	snprintf(text, sizeof(text), "%s%s\n%sst.global.u64 [%%d5], %%d0;\nret;\n}\n", op_head,
		op->body, op_tail(op->result));
	device_reset();
	memcpy(device.memory, inputs, sizeof(inputs));
	module = load(text);
	/* Blocks with a last warp that is not full. */
	assert_int_equal(run(module, "k", N_INPUTS / 64, 64, params, &fault), 0);
	assert_int_equal(run(module, "k", 1, 21, params, &fault), 0);
	for (uint32_t i = 0; i < N_INPUTS; i++) {
		uint64_t got, want = op->want(inputs[i].a, inputs[i].b, inputs[i].c);

		memcpy(&got, (const void *)(uintptr_t)(params[1] + i * sizeof(got)), sizeof(got));
		if (got != want && !(is_nan_of(got, op->result) && is_nan_of(want, op->result)))
			fail_msg("%s: %#llx %#llx %#llx gives %#llx, not %#llx", op->body,
				(unsigned long long)inputs[i].a, (unsigned long long)inputs[i].b,
				(unsigned long long)inputs[i].c, (unsigned long long)got,
				(unsigned long long)want);
	}
	ptx_module_free(module);
}

static void check_ops(const struct op_case *ops, size_t n)
{
	for (size_t i = 0; i < n; i++)
		check_op(&ops[i]);
}

/* EXPR over A, B, C as T. */
#define WANT(name, T, EXPR)                                                                        \
	static uint64_t want_##name(_unused_ uint64_t a, _unused_ uint64_t b, _unused_ uint64_t c) \
	{                                                                                          \
		T A _unused_ = (T)a, B _unused_ = (T)b, C _unused_ = (T)c;                         \
		return (uint64_t)(EXPR);                                                           \
	}

WANT(add_32, uint32_t, (uint32_t)(A + B))
WANT(sub_16, uint16_t, (uint16_t)(A - B))
WANT(mul_lo_64, uint64_t, A *B)
WANT(mul_hi_u32, uint32_t, (uint64_t)A *B >> 32)
WANT(mul_hi_s32, int32_t, (uint32_t)((int64_t)A *B >> 32))
WANT(mul_hi_s64, int64_t, (__int128)A *B >> 64)
WANT(mul_wide_s16, int16_t, (uint32_t)(A *B))
WANT(mul_wide_u32, uint32_t, (uint64_t)A *B)
WANT(mad_wide_s32, int32_t, (uint64_t)((int64_t)A *B) + c)
WANT(mad_lo_16, uint16_t, (uint16_t)((uint32_t)A *B + C))
WANT(mul24_lo_s32, uint32_t,
	(uint32_t)((int64_t)((int32_t)(A << 8) >> 8) * ((int32_t)(B << 8) >> 8)))
WANT(div_u32, uint32_t, B ? A / B : UINT32_MAX)
WANT(rem_s64, int64_t, B == 0 ? A : B == -1 ? 0 : A % B)
WANT(div_s32, int32_t, (uint32_t)(B == 0 ? -1 : (int64_t)A / B))
WANT(min_s16, int16_t, (uint16_t)(A < B ? A : B))
WANT(max_u64, uint64_t, A > B ? A : B)
WANT(abs_s32, uint32_t, (int32_t)A < 0 ? 0u - A : A)
WANT(neg_64, uint64_t, 0 - A)
WANT(sad_s32, int32_t,
	(uint32_t)((uint32_t)(A < B ? (int64_t)B - A : (int64_t)A - B) + (uint32_t)C))
WANT(add_sat, int64_t, (uint32_t)MAX(MIN((int64_t)(int32_t)A + (int32_t)B, INT32_MAX), INT32_MIN))

static void test_integers(_unused_ void **state)
{
	static const struct op_case ops[] = {
		{"add.u32 %r0, %r1, %r2;", 'r', want_add_32},
		{"sub.s16 %h0, %h1, %h2;", 'h', want_sub_16},
		{"mul.lo.u64 %d0, %d1, %d2;", 'd', want_mul_lo_64},
		{"mul.hi.u32 %r0, %r1, %r2;", 'r', want_mul_hi_u32},
		{"mul.hi.s32 %r0, %r1, %r2;", 'r', want_mul_hi_s32},
		{"mul.hi.s64 %d0, %d1, %d2;", 'd', want_mul_hi_s64},
		{"mul.wide.s16 %r0, %h1, %h2;", 'r', want_mul_wide_s16},
		{"mul.wide.u32 %d0, %r1, %r2;", 'd', want_mul_wide_u32},
		{"mad.wide.s32 %d0, %r1, %r2, %d3;", 'd', want_mad_wide_s32},
		{"mad.lo.s16 %h0, %h1, %h2, %h3;", 'h', want_mad_lo_16},
		{"mul24.lo.s32 %r0, %r1, %r2;", 'r', want_mul24_lo_s32},
		{"div.u32 %r0, %r1, %r2;", 'r', want_div_u32},
		{"rem.s64 %d0, %d1, %d2;", 'd', want_rem_s64},
		{"div.s32 %r0, %r1, %r2;", 'r', want_div_s32},
		{"min.s16 %h0, %h1, %h2;", 'h', want_min_s16},
		{"max.u64 %d0, %d1, %d2;", 'd', want_max_u64},
		{"abs.s32 %r0, %r1;", 'r', want_abs_s32},
		{"neg.s64 %d0, %d1;", 'd', want_neg_64},
		{"sad.s32 %r0, %r1, %r2, %r3;", 'r', want_sad_s32},
		{"add.sat.s32 %r0, %r1, %r2;", 'r', want_add_sat},
	};

	check_ops(ops, ARRAY_SIZE(ops));
}

static uint64_t extract_bits(uint64_t x, uint64_t at, uint64_t len, unsigned bits, bool is_signed)
{
	unsigned at8 = at & 0xff, len8 = len & 0xff, msb = bits - 1;
	uint64_t value = 0;
	bool sign = is_signed && len8 && x >> MIN(at8 + len8 - 1, msb) & 1;

	for (unsigned i = 0; i < bits; i++) {
		bool bit = i < len8 && at8 + i <= msb ? x >> (at8 + i) & 1 : sign;

		value |= (uint64_t)bit << i;
	}
	return value;
}

static uint64_t insert_bits(uint64_t x, uint64_t y, uint64_t at, unsigned bits)
{
	for (unsigned i = 0; i < 5 && (at & 0xff) + i < bits; i++) {
		y &= ~(1ull << ((at & 0xff) + i));
		y |= (x >> i & 1) << ((at & 0xff) + i);
	}
	return y;
}

static uint64_t permute_bytes(uint64_t a, uint64_t b, uint64_t c)
{
	uint64_t pair = (uint64_t)(uint32_t)b << 32 | (uint32_t)a, value = 0;

	for (unsigned i = 0; i < 4; i++) {
		unsigned selector = c >> (4 * i) & 15;
		uint64_t byte = pair >> (8 * (selector & 7)) & 0xff;

		if (selector & 8)
			byte = byte & 0x80 ? 0xff : 0;
		value |= byte << (8 * i);
	}
	return value;
}

WANT(xor_64, uint64_t, A ^ B)
WANT(not_16, uint16_t, (uint16_t)~A)
WANT(cnot_32, uint32_t, A == 0)
WANT(shl_32, uint32_t, B < 32 ? (uint32_t)(A << B) : 0)
WANT(shr_s64, int64_t, A >> ((uint32_t)B < 64 ? (uint32_t)B : 63))
WANT(shr_u16, uint16_t, (uint32_t)b < 16 ? A >> (uint32_t)b : 0)
WANT(funnel, uint32_t, (uint32_t)(((uint64_t)B << 32 | A) << (C & 31) >> 32))
WANT(funnel_clamp, uint32_t, (uint32_t)(((uint64_t)B << 32 | A) >> MIN(C, 32u)))
WANT(popc_64, uint64_t, __builtin_popcountll(A))
WANT(clz_32, uint32_t, A ? __builtin_clz(A) : 32)
WANT(bfind_s32, int32_t,
	(A ^ A >> 31) == 0 ? UINT32_MAX : 31u - (uint32_t)__builtin_clz((uint32_t)(A ^ A >> 31)))
WANT(bfe_s32, uint32_t, extract_bits(A, b, c, 32, true))
WANT(bfe_u64, uint64_t, extract_bits(A, b, c, 64, false))
WANT(bfi_64, uint64_t, insert_bits(A, B, c, 64))
WANT(prmt, uint64_t, permute_bytes(a, b, c))
WANT(lop3_select, uint32_t, (A & B) | (~A & C))
WANT(dp4a, uint32_t,
	(uint32_t)(C + (uint32_t)((int8_t)A * (int)(uint8_t)B +
				  (int8_t)(A >> 8) * (int)(uint8_t)(B >> 8) +
				  (int8_t)(A >> 16) * (int)(uint8_t)(B >> 16) +
				  (int8_t)(A >> 24) * (int)(uint8_t)(B >> 24))))

static void test_bits(_unused_ void **state)
{
	static const struct op_case ops[] = {
		{"xor.b64 %d0, %d1, %d2;", 'd', want_xor_64},
		{"not.b16 %h0, %h1;", 'h', want_not_16},
		{"cnot.b32 %r0, %r1;", 'r', want_cnot_32},
		{"shl.b32 %r0, %r1, %r2;", 'r', want_shl_32},
		{"shr.s64 %d0, %d1, %r2;", 'd', want_shr_s64},
		{"shr.u16 %h0, %h1, %r2;", 'h', want_shr_u16},
		{"shf.l.wrap.b32 %r0, %r1, %r2, %r3;", 'r', want_funnel},
		{"shf.r.clamp.b32 %r0, %r1, %r2, %r3;", 'r', want_funnel_clamp},
		{"popc.b64 %r0, %d1;", 'r', want_popc_64},
		{"clz.b32 %r0, %r1;", 'r', want_clz_32},
		{"bfind.s32 %r0, %r1;", 'r', want_bfind_s32},
		{"bfe.s32 %r0, %r1, %r2, %r3;", 'r', want_bfe_s32},
		{"bfe.u64 %d0, %d1, %r2, %r3;", 'd', want_bfe_u64},
		{"bfi.b64 %d0, %d1, %d2, %r3, 5;", 'd', want_bfi_64},
		{"prmt.b32 %r0, %r1, %r2, %r3;", 'r', want_prmt},
		{"lop3.b32 %r0, %r1, %r2, %r3, 0xca;", 'r', want_lop3_select},
		{"dp4a.s32.u32 %r0, %r1, %r2, %r3;", 'r', want_dp4a},
	};

	check_ops(ops, ARRAY_SIZE(ops));
}

static float f32_of(uint64_t bits)
{
	uint32_t low = (uint32_t)bits;
	float x;

	memcpy(&x, &low, sizeof(x));
	return x;
}

static uint64_t bits_of_f32(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits;
}

static double f64_of(uint64_t bits)
{
	double x;

	memcpy(&x, &bits, sizeof(x));
	return x;
}

static uint64_t bits_of_f64(double x)
{
	uint64_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits;
}

static float flush(float x)
{
	return fpclassify(x) == FP_SUBNORMAL ? copysignf(0, x) : x;
}

static float saturate(float x)
{
	return x > 0 ? fminf(x, 1) : 0;
}

/* The operation in another rounding mode; the operands are volatile to keep it there. */
static float rounded_f32(int mode, char op, float x, float y)
{
	volatile float a = x, b = y, result;

	fesetround(mode);
	result = op == '+' ? a + b : op == '*' ? a * b : a / b;
	fesetround(FE_TONEAREST);
	return result;
}

static double rounded_fma(int mode, double x, double y, double z)
{
	volatile double a = x, b = y, c = z, result;

	fesetround(mode);
	result = fma(a, b, c);
	fesetround(FE_TONEAREST);
	return result;
}

#define WANT_F32(name, EXPR)                                                                       \
	static uint64_t want_##name(uint64_t a, _unused_ uint64_t b, _unused_ uint64_t c)          \
	{                                                                                          \
		float A = f32_of(a), B _unused_ = f32_of(b), C _unused_ = f32_of(c);               \
		return bits_of_f32(EXPR);                                                          \
	}
#define WANT_F64(name, EXPR)                                                                       \
	static uint64_t want_##name(uint64_t a, _unused_ uint64_t b, _unused_ uint64_t c)          \
	{                                                                                          \
		double A = f64_of(a), B _unused_ = f64_of(b), C _unused_ = f64_of(c);              \
		return bits_of_f64(EXPR);                                                          \
	}

WANT_F32(add_f32, A + B)
WANT_F32(add_ftz, flush(flush(A) + flush(B)))
WANT_F32(add_sat_f32, saturate(A + B))
WANT_F32(add_rz, rounded_f32(FE_TOWARDZERO, '+', A, B))
WANT_F32(mul_rp, rounded_f32(FE_UPWARD, '*', A, B))
WANT_F32(div_rm, rounded_f32(FE_DOWNWARD, '/', A, B))
WANT_F32(fma_f32, fmaf(A, B, C))
WANT_F32(min_f32, A != A ? B : B != B ? A : A == B ? (signbit(A) ? A : B) : A < B ? A : B)
WANT_F32(max_nan, A != A || B != B ? NAN : A == B ? (signbit(A) ? B : A) : A > B ? A : B)
WANT_F32(sqrt_f32, sqrtf(A))
WANT_F32(neg_f32, -A)
WANT_F64(add_f64, A + B)
WANT_F64(div_f64, A / B)
WANT_F64(fma_rm, rounded_fma(FE_DOWNWARD, A, B, C))
WANT_F64(copysign_f64, copysign(B, A))

static void test_floats(_unused_ void **state)
{
	static const struct op_case ops[] = {
		{"add.f32 %f0, %f1, %f2;", 'f', want_add_f32},
		{"add.ftz.f32 %f0, %f1, %f2;", 'f', want_add_ftz},
		{"add.rn.sat.f32 %f0, %f1, %f2;", 'f', want_add_sat_f32},
		{"add.rz.f32 %f0, %f1, %f2;", 'f', want_add_rz},
		{"mul.rp.f32 %f0, %f1, %f2;", 'f', want_mul_rp},
		{"div.rm.f32 %f0, %f1, %f2;", 'f', want_div_rm},
		{"fma.rn.f32 %f0, %f1, %f2, %f3;", 'f', want_fma_f32},
		{"min.f32 %f0, %f1, %f2;", 'f', want_min_f32},
		{"max.NaN.f32 %f0, %f1, %f2;", 'f', want_max_nan},
		{"sqrt.rn.f32 %f0, %f1;", 'f', want_sqrt_f32},
		{"neg.f32 %f0, %f1;", 'f', want_neg_f32},
		{"add.f64 %g0, %g1, %g2;", 'g', want_add_f64},
		{"div.rn.f64 %g0, %g1, %g2;", 'g', want_div_f64},
		{"fma.rm.f64 %g0, %g1, %g2, %g3;", 'g', want_fma_rm},
		{"copysign.f64 %g0, %g1, %g2;", 'g', want_copysign_f64},
	};

	check_ops(ops, ARRAY_SIZE(ops));
}

static uint64_t to_s32(double x)
{
	if (x != x)
		return 0;
	return (uint32_t)(int32_t)(x >= 0x1p31 ? INT32_MAX : x < -0x1p31 ? INT32_MIN : x);
}

static uint64_t to_u64(double x)
{
	if (x != x)
		return 1ull << 63;
	return x >= 0x1p64 ? UINT64_MAX : x <= 0 ? 0 : (uint64_t)x;
}

WANT(cvt_s64_s8, int8_t, (int64_t)A)
WANT(cvt_u16_s32, int32_t, (uint16_t)A)
WANT(cvt_sat_u8_s32, int32_t, MAX(MIN(A, 255), 0))
WANT(cvt_sat_s32_u64, uint64_t, MIN(A, (uint64_t)INT32_MAX))
WANT(cvt_f32_u64, uint64_t, bits_of_f32((float)A))
WANT(cvt_f64_s32, int32_t, bits_of_f64(A))
WANT(cvt_rni_s32_f32, uint64_t, to_s32(rintf(f32_of(A))))
WANT(cvt_rmi_s32_f32, uint64_t, to_s32(floorf(f32_of(A))))
WANT(cvt_rzi_u64_f64, uint64_t, to_u64(trunc(f64_of(A))))
WANT(cvt_rpi_f64, uint64_t, bits_of_f64(ceil(f64_of(A))))
WANT(cvt_f64_f32, uint64_t, bits_of_f64((double)f32_of(A)))
WANT(cvt_f32_f64, uint64_t, bits_of_f32((float)f64_of(A)))

static void test_conversions(_unused_ void **state)
{
	static const struct op_case ops[] = {
		{"cvt.s64.s8 %d0, %r1;", 'd', want_cvt_s64_s8},
		{"cvt.u16.s32 %h0, %r1;", 'h', want_cvt_u16_s32},
		{"cvt.sat.u8.s32 %r0, %r1;", 'r', want_cvt_sat_u8_s32},
		{"cvt.sat.s32.u64 %r0, %d1;", 'r', want_cvt_sat_s32_u64},
		{"cvt.rn.f32.u64 %f0, %d1;", 'f', want_cvt_f32_u64},
		{"cvt.rn.f64.s32 %g0, %r1;", 'g', want_cvt_f64_s32},
		{"cvt.rni.s32.f32 %r0, %f1;", 'r', want_cvt_rni_s32_f32},
		{"cvt.rmi.s32.f32 %r0, %f1;", 'r', want_cvt_rmi_s32_f32},
		{"cvt.rzi.u64.f64 %d0, %g1;", 'd', want_cvt_rzi_u64_f64},
		{"cvt.rpi.f64.f64 %g0, %g1;", 'g', want_cvt_rpi_f64},
		{"cvt.f64.f32 %g0, %f1;", 'g', want_cvt_f64_f32},
		{"cvt.rn.f32.f64 %f0, %g1;", 'f', want_cvt_f32_f64},
	};

	check_ops(ops, ARRAY_SIZE(ops));
}

/* By the numbers: half of a float's bits at a time, exactly. */
static double half_value(uint16_t half)
{
	int exponent = half >> 10 & 31;
	double mantissa = half & 0x3ff;

	if (exponent == 31)
		return (half & 0x3ff) ? NAN : (half & 0x8000) ? -INFINITY : INFINITY;
	mantissa = exponent ? ldexp(mantissa + 1024, exponent - 25) : ldexp(mantissa, -24);
	return half & 0x8000 ? -mantissa : mantissa;
}

/* The half nearest to a value that a double holds exactly. */
static uint16_t half_nearest(double x)
{
	uint16_t sign = signbit(x) ? 0x8000 : 0;
	uint16_t low = 0, high = 0x7c00;

	if (x != x)
		return 0x7fff;
	x = fabs(x);
	if (x >= 65520)
		return sign | 0x7c00;
	while (high - low > 1) {
		uint16_t middle = (uint16_t)((low + high) / 2);

		if (half_value(middle) <= x)
			low = middle;
		else
			high = middle;
	}
	if (high < 0x7c00 || x > 65504) {
		double up = high < 0x7c00 ? half_value(high) : 65536;
		double down = half_value(low);

		if (x - down > up - x || (x - down == up - x && low & 1))
			low = high;
	}
	return sign | low;
}

WANT(add_f16, uint64_t, half_nearest(half_value((uint16_t)A) + half_value((uint16_t)B)))
WANT(mul_f16, uint64_t, half_nearest(half_value((uint16_t)A) * half_value((uint16_t)B)))
WANT(add_f16x2, uint64_t,
	half_nearest(half_value((uint16_t)A) + half_value((uint16_t)B)) |
		(uint64_t)half_nearest(
			half_value((uint16_t)(A >> 16)) + half_value((uint16_t)(B >> 16)))
			<< 16)
WANT(cvt_f16_f32, uint64_t, half_nearest(f32_of(A)))
WANT(cvt_f32_f16, uint64_t, bits_of_f32((float)half_value((uint16_t)A)))
WANT(cvt_bf16, uint64_t,
	f32_of(A) != f32_of(A) ? 0x7fff : ((uint32_t)A + 0x7fff + ((uint32_t)A >> 16 & 1)) >> 16)

static void test_halves(_unused_ void **state)
{
	static const struct op_case ops[] = {
		{"add.f16 %h0, %h1, %h2;", 'h', want_add_f16},
		{"mul.rn.f16 %h0, %h1, %h2;", 'h', want_mul_f16},
		{"add.f16x2 %r0, %r1, %r2;", 'r', want_add_f16x2},
		{"cvt.rn.f16.f32 %h0, %f1;", 'h', want_cvt_f16_f32},
		{"cvt.f32.f16 %f0, %h1;", 'f', want_cvt_f32_f16},
		{"cvt.rn.bf16.f32 %h0, %f1;", 'h', want_cvt_bf16},
	};

	check_ops(ops, ARRAY_SIZE(ops));
}

WANT(setp_lt_s32, int32_t, A < B)
WANT(setp_hi, uint32_t, A > B)
WANT(setp_and, int32_t, A<B && (int32_t)C> 0)
WANT(setp_pair, uint32_t, (A == B || (int32_t)C <= 0) + 2 * (A != B || (int32_t)C <= 0))
WANT(setp_ltu, uint64_t, !(f32_of(A) >= f32_of(B)))
WANT(setp_nan, uint64_t, f64_of(A) != f64_of(A) || f64_of(B) != f64_of(B))
WANT(set_f32, int32_t, A >= B ? 0x3f800000 : 0)
WANT(selp, uint64_t, (uint32_t)A ? B : C)
WANT(slct, uint64_t, (int32_t)C >= 0 ? A : B)

static void test_comparisons(_unused_ void **state)
{
	static const struct op_case ops[] = {
		{"setp.lt.s32 %p0, %r1, %r2;", 'p', want_setp_lt_s32},
		{"setp.hi.u32 %p0, %r1, %r2;", 'p', want_setp_hi},
		{"setp.lt.and.s32 %p0, %r1, %r2, %p3;", 'p', want_setp_and},
		{"setp.eq.or.u32 %p0|%p2, %r1, %r2, !%p3;"
		 "selp.u32 %r0, 1, 0, %p0; selp.u32 %r4, 2, 0, %p2; add.u32 %r0, %r0, %r4;",
			'r', want_setp_pair},
		{"setp.ltu.f32 %p0, %f1, %f2;", 'p', want_setp_ltu},
		{"setp.nan.f64 %p0, %g1, %g2;", 'p', want_setp_nan},
		{"set.ge.f32.s32 %f0, %r1, %r2;", 'f', want_set_f32},
		{"selp.b64 %d0, %d2, %d3, %p1;", 'd', want_selp},
		{"slct.u64.s32 %d0, %d1, %d2, %r3;", 'd', want_slct},
	};

	check_ops(ops, ARRAY_SIZE(ops));
}

WANT(sum_128, uint64_t,
	(uint64_t)((((unsigned __int128)B << 64 | A) + ((unsigned __int128)C << 64 | B)) >> 64))
WANT(difference_128, uint64_t,
	(uint64_t)((((unsigned __int128)B << 64 | A) - ((unsigned __int128)C << 64 | B)) >> 64))
WANT(no_borrow, uint32_t, A >= B)
WANT(guarded, uint32_t, A ? (uint32_t)(A + 1) : (B & 1 ? 5 : 7))
WANT(carry_product, uint64_t, (uint64_t)(((unsigned __int128)A * B + C) >> 64))

static void test_carries(_unused_ void **state)
{
	static const struct op_case ops[] = {
		{"add.cc.u64 %d4, %d1, %d2; addc.u64 %d0, %d2, %d3;", 'd', want_sum_128},
		{"sub.cc.u64 %d4, %d1, %d2; subc.u64 %d0, %d2, %d3;", 'd', want_difference_128},
		{"sub.cc.u32 %r4, %r1, %r2; addc.u32 %r0, 0, 0;", 'r', want_no_borrow},
		{"mad.lo.cc.u64 %d4, %d1, %d2, %d3; madc.hi.u64 %d0, %d1, %d2, 0;", 'd',
			want_carry_product},
		{"mov.u32 %r0, 7; @%p2 mov.u32 %r0, 5; @!%p1 bra L; add.u32 %r0, %r1, 1; L:", 'r',
			want_guarded},
	};

	check_ops(ops, ARRAY_SIZE(ops));
}

/* Operations that are documented as approximate: within `ulps' of the value. */
static void check_near(const char *body, double (*want)(double), double low, double high, int ulps)
{
	char text[4096];
	uint64_t params[2] = {device_address(0), device_address(N_INPUTS * sizeof(struct inputs))};
	struct inputs *in = (struct inputs *)(void *)device.memory;
	struct ptx_module *module;
	struct ptx_fault fault;

	snprintf(text, sizeof(text), "%s%s\n%sst.global.u64 [%%d5], %%d0;\nret;\n}\n", op_head,
		body, op_tail('f'));
	device_reset();
	for (uint32_t i = 0; i < N_INPUTS; i++)
		in[i].a = bits_of_f32((float)(low + (high - low) * i / N_INPUTS));
	module = load(text);
	assert_int_equal(run(module, "k", N_INPUTS / 64, 64, params, &fault), 0);
	for (uint32_t i = 0; i < N_INPUTS; i++) {
		double x = f32_of(in[i].a), exact = want(x), got;
		uint64_t bits;

		memcpy(&bits, (const void *)(uintptr_t)(params[1] + i * sizeof(bits)),
			sizeof(bits));
		got = f32_of(bits);
		if (!(fabs(got - exact) <= ulps * ldexp(fabs(exact), -23) + 0x1p-149))
			fail_msg("%s: %g gives %g, not %g", body, x, got, exact);
	}
	ptx_module_free(module);
}

static double reciprocal(double x)
{
	return 1 / x;
}

static double reciprocal_root(double x)
{
	return 1 / sqrt(x);
}

static void test_approximations(_unused_ void **state)
{
	check_near("rcp.approx.f32 %f0, %f1;", reciprocal, 0.01, 1000, 1);
	check_near("rsqrt.approx.f32 %f0, %f1;", reciprocal_root, 0.01, 1000, 2);
	check_near("sqrt.approx.f32 %f0, %f1;", sqrt, 0, 1000, 1);
	check_near("ex2.approx.ftz.f32 %f0, %f1;", exp2, -20, 20, 2);
	check_near("lg2.approx.f32 %f0, %f1;", log2, 2, 1000, 2);
	check_near("sin.approx.f32 %f0, %f1;", sin, 0.1, 3, 4);
	check_near("cos.approx.f32 %f0, %f1;", cos, 0.1, 1.5, 4);
	check_near("tanh.approx.f32 %f0, %f1;", tanh, -3, 3, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_integers),
		cmocka_unit_test(test_bits),
		cmocka_unit_test(test_floats),
		cmocka_unit_test(test_conversions),
		cmocka_unit_test(test_halves),
		cmocka_unit_test(test_comparisons),
		cmocka_unit_test(test_carries),
		cmocka_unit_test(test_approximations),
	};

	return cmocka_run_group_tests(tests, make_inputs, NULL);
}
