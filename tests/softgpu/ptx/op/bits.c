/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Logic, shifts and bit fields. Runs on the thread that runs the kernel. A shift
 * amount is clamped before the host shifts by it.
 */

#include "base.h"
#include "tests/softgpu/ptx/translate.h"
#include "tests/softgpu/ptx/warp.h"

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

BINARY(and_16, uint32_t, u16, uint16_t, x &y)
BINARY(and_32, uint32_t, u32, uint32_t, x &y)
BINARY(and_64, uint64_t, u64, uint64_t, x &y)
BINARY(or_16, uint32_t, u16, uint16_t, x | y)
BINARY(or_32, uint32_t, u32, uint32_t, x | y)
BINARY(or_64, uint64_t, u64, uint64_t, x | y)
BINARY(xor_16, uint32_t, u16, uint16_t, x ^ y)
BINARY(xor_32, uint32_t, u32, uint32_t, x ^ y)
BINARY(xor_64, uint64_t, u64, uint64_t, x ^ y)
UNARY(not_16, uint32_t, u16, uint16_t, ~x)
UNARY(not_32, uint32_t, u32, uint32_t, ~x)
UNARY(not_64, uint64_t, u64, uint64_t, ~x)
UNARY(not_pred, uint64_t, u64, uint64_t, !x)
UNARY(cnot_16, uint32_t, u16, uint16_t, !x)
UNARY(cnot_32, uint32_t, u32, uint32_t, !x)
UNARY(cnot_64, uint64_t, u64, uint64_t, !x)

/* A shift by the width or more leaves only the bits that are shifted in. */
#define SHIFT(name, T, FIELD, U, BITS, EXPR, FAR)                                                  \
	PTX_EXEC(name)                                                                             \
	{                                                                                          \
		PTX_SOURCE(a);                                                                     \
		PTX_SOURCE(b);                                                                     \
		PTX_DEST(d);                                                                       \
		PTX_LANES_DO(warp, const T x = a[l].FIELD; const uint32_t n = b[l].u32;            \
			     d[l].u64 = n < (BITS) ? (U)(EXPR) : (U)(FAR););                       \
		return in + 1;                                                                     \
	}

SHIFT(shl_16, uint32_t, u16, uint16_t, 16, x << n, 0)
SHIFT(shl_32, uint32_t, u32, uint32_t, 32, x << n, 0)
SHIFT(shl_64, uint64_t, u64, uint64_t, 64, x << n, 0)
SHIFT(shr_u16, uint32_t, u16, uint16_t, 16, x >> n, 0)
SHIFT(shr_u32, uint32_t, u32, uint32_t, 32, x >> n, 0)
SHIFT(shr_u64, uint64_t, u64, uint64_t, 64, x >> n, 0)
SHIFT(shr_s16, int32_t, s16, uint16_t, 16, x >> n, x >> 15)
SHIFT(shr_s32, int32_t, s32, uint32_t, 32, x >> n, x >> 31)
SHIFT(shr_s64, int64_t, s64, uint64_t, 64, x >> n, x >> 63)

/* A funnel is the pair b:a, shifted; half of it is the result. */
#define FUNNEL(name, AMOUNT, EXPR)                                                                 \
	PTX_EXEC(name)                                                                             \
	{                                                                                          \
		PTX_SOURCE(a);                                                                     \
		PTX_SOURCE(b);                                                                     \
		PTX_SOURCE(c);                                                                     \
		PTX_DEST(d);                                                                       \
		PTX_LANES_DO(warp, const uint64_t x = (uint64_t)b[l].u32 << 32 | a[l].u32;         \
			     const uint32_t n = (AMOUNT); d[l].u64 = (uint32_t)(EXPR););           \
		return in + 1;                                                                     \
	}

FUNNEL(shf_l_wrap, c[l].u32 & 31, x << n >> 32)
FUNNEL(shf_r_wrap, c[l].u32 & 31, x >> n)
FUNNEL(shf_l_clamp, MIN(c[l].u32, 32u), x << n >> 32)
FUNNEL(shf_r_clamp, MIN(c[l].u32, 32u), x >> n)

static inline uint32_t clz_32(uint32_t x)
{
	return x ? (uint32_t)__builtin_clz(x) : 32;
}

static inline uint32_t clz_64(uint64_t x)
{
	return x ? (uint32_t)__builtin_clzll(x) : 64;
}

static inline uint32_t reverse_32(uint32_t x)
{
	x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
	x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
	x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
	return __builtin_bswap32(x);
}

static inline uint64_t reverse_64(uint64_t x)
{
	return (uint64_t)reverse_32((uint32_t)x) << 32 | reverse_32((uint32_t)(x >> 32));
}

UNARY(popc_32, uint32_t, u32, uint32_t, __builtin_popcount(x))
UNARY(popc_64, uint64_t, u64, uint32_t, __builtin_popcountll(x))
UNARY(clz_b32, uint32_t, u32, uint32_t, clz_32(x))
UNARY(clz_b64, uint64_t, u64, uint32_t, clz_64(x))
UNARY(brev_32, uint32_t, u32, uint32_t, reverse_32(x))
UNARY(brev_64, uint64_t, u64, uint64_t, reverse_64(x))

/* The highest bit that differs from the sign; all ones if none does. */
UNARY(bfind_u32, uint32_t, u32, uint32_t, 31 - clz_32(x))
UNARY(bfind_u64, uint64_t, u64, uint32_t, 63 - clz_64(x))
UNARY(bfind_s32, int32_t, s32, uint32_t, 31 - clz_32((uint32_t)(x ^ x >> 31)))
UNARY(bfind_s64, int64_t, s64, uint32_t, 63 - clz_64((uint64_t)(x ^ x >> 63)))
#define SHIFT_AMOUNT(lead, bits) ((lead) == (bits) ? UINT32_MAX : (lead))
UNARY(bfind_shift_u32, uint32_t, u32, uint32_t, SHIFT_AMOUNT(clz_32(x), 32))
UNARY(bfind_shift_u64, uint64_t, u64, uint32_t, SHIFT_AMOUNT(clz_64(x), 64))
UNARY(bfind_shift_s32, int32_t, s32, uint32_t, SHIFT_AMOUNT(clz_32((uint32_t)(x ^ x >> 31)), 32))
UNARY(bfind_shift_s64, int64_t, s64, uint32_t, SHIFT_AMOUNT(clz_64((uint64_t)(x ^ x >> 63)), 64))

static uint64_t extract(uint64_t x, uint32_t at, uint32_t len, uint32_t bits, bool is_signed)
{
	uint32_t top = MIN(at + len, bits) - 1;
	uint64_t sign = 0, field;

	if (len == 0)
		return 0;
	if (is_signed && x >> top & 1)
		sign = UINT64_MAX;
	field = at < bits ? x >> at : 0;
	if (at >= bits)
		return sign;
	if (top - at + 1 < 64) {
		uint64_t mask = (1ull << (top - at + 1)) - 1;

		field = (field & mask) | (sign & ~mask);
	}
	return field;
}

#define EXTRACT(name, U, FIELD, BITS, SIGNED)                                                      \
	PTX_EXEC(name)                                                                             \
	{                                                                                          \
		PTX_SOURCE(a);                                                                     \
		PTX_SOURCE(b);                                                                     \
		PTX_SOURCE(c);                                                                     \
		PTX_DEST(d);                                                                       \
		PTX_LANES_DO(                                                                      \
			warp, d[l].u64 = (U)extract(a[l].FIELD, b[l].u8, c[l].u8, BITS, SIGNED);); \
		return in + 1;                                                                     \
	}
EXTRACT(bfe_u32, uint32_t, u32, 32, false)
EXTRACT(bfe_s32, uint32_t, u32, 32, true)
EXTRACT(bfe_u64, uint64_t, u64, 64, false)
EXTRACT(bfe_s64, uint64_t, u64, 64, true)

/* y with `len' bits of x, from bit `at' on. */
static uint64_t insert(uint64_t x, uint64_t y, uint32_t at, uint32_t len, uint32_t bits)
{
	uint64_t mask;

	if (at >= bits || len == 0)
		return y;
	mask = len < 64 ? (1ull << len) - 1 : UINT64_MAX;
	return (y & ~(mask << at)) | (x & mask) << at;
}

#define INSERT(name, U, FIELD, BITS)                                                               \
	PTX_EXEC(name)                                                                             \
	{                                                                                          \
		PTX_SOURCE(a);                                                                     \
		PTX_SOURCE(b);                                                                     \
		PTX_SOURCE(c);                                                                     \
		PTX_SOURCE(e);                                                                     \
		PTX_DEST(d);                                                                       \
		PTX_LANES_DO(warp, d[l].u64 = (U)insert(                                           \
					   a[l].FIELD, b[l].FIELD, c[l].u8, e[l].u8, BITS););      \
		return in + 1;                                                                     \
	}
INSERT(bfi_32, uint32_t, u32, 32)
INSERT(bfi_64, uint64_t, u64, 64)

static uint32_t extend_sign(uint32_t x, uint32_t n, bool is_signed)
{
	if (n == 0)
		return 0;
	if (n >= 32)
		return x;
	x <<= 32 - n;
	return is_signed ? (uint32_t)((int32_t)x >> (32 - n)) : x >> (32 - n);
}

BINARY(szext_wrap_u32, uint32_t, u32, uint32_t, extend_sign(x, y & 31, false))
BINARY(szext_wrap_s32, uint32_t, u32, uint32_t, extend_sign(x, y & 31, true))
BINARY(szext_clamp_u32, uint32_t, u32, uint32_t, extend_sign(x, y, false))
BINARY(szext_clamp_s32, uint32_t, u32, uint32_t, extend_sign(x, y, true))

/* `len' ones from `at' on. */
static uint32_t make_mask(uint32_t at, uint32_t len)
{
	if (at >= 32 || len == 0)
		return 0;
	return (len >= 32 ? UINT32_MAX : (1u << len) - 1) << at;
}

BINARY(bmsk_wrap, uint32_t, u32, uint32_t, make_mask(x & 31, y & 31))
BINARY(bmsk_clamp, uint32_t, u32, uint32_t, make_mask(x, y))

/* The nth set bit from `base' on, upwards or, for a negative n, downwards. */
static uint32_t find_nth(uint32_t mask, uint32_t base, int32_t n)
{
	int32_t step = n >= 0 ? 1 : -1;
	int32_t left = n >= 0 ? n : -n;

	if (n == 0)
		return base < 32 && mask >> base & 1 ? base : UINT32_MAX;
	if (n == INT32_MIN)
		return UINT32_MAX;
	for (int64_t at = base; at >= 0 && at < 32; at += step)
		if (mask >> at & 1 && --left == 0)
			return (uint32_t)at;
	return UINT32_MAX;
}

PTX_EXEC(fns_b32)
{
	PTX_SOURCE(a);
	PTX_SOURCE(b);
	PTX_SOURCE(c);
	PTX_DEST(d);

	PTX_LANES_DO(warp, d[l].u64 = find_nth(a[l].u32, b[l].u32, c[l].s32););
	return in + 1;
}

enum permute_mode {
	PERMUTE_INDEX,
	PERMUTE_F4E,
	PERMUTE_B4E,
	PERMUTE_RC8,
	PERMUTE_ECL,
	PERMUTE_ECR,
	PERMUTE_RC16,
};

/* Which byte of the pair goes to byte i of the result; bit 3 spreads its sign. */
static uint32_t permute_selector(enum permute_mode mode, uint32_t i, uint32_t n)
{
	switch (mode) {
	case PERMUTE_F4E:
		return n + i;
	case PERMUTE_B4E:
		return (n - i) & 7;
	case PERMUTE_RC8:
		return n;
	case PERMUTE_ECL:
		return MAX(n, i);
	case PERMUTE_ECR:
		return MIN(n, i);
	default:
		return (n & 1) * 2 + (i & 1);
	}
}

static uint32_t permute(uint32_t x, uint32_t y, uint32_t selectors, enum permute_mode mode)
{
	uint64_t pair = (uint64_t)y << 32 | x;
	uint32_t value = 0;

	for (uint32_t i = 0; i < 4; i++) {
		uint32_t selector = mode == PERMUTE_INDEX
					    ? selectors >> (4 * i) & 15
					    : permute_selector(mode, i, selectors & 3);
		uint32_t byte = (uint32_t)(pair >> (8 * (selector & 7))) & 0xff;

		if (selector & 8)
			byte = byte & 0x80 ? 0xff : 0;
		value |= byte << (8 * i);
	}
	return value;
}

#define PERMUTE(name, mode)                                                                        \
	PTX_EXEC(name)                                                                             \
	{                                                                                          \
		PTX_SOURCE(a);                                                                     \
		PTX_SOURCE(b);                                                                     \
		PTX_SOURCE(c);                                                                     \
		PTX_DEST(d);                                                                       \
		PTX_LANES_DO(warp, d[l].u64 = permute(a[l].u32, b[l].u32, c[l].u32, mode););       \
		return in + 1;                                                                     \
	}
PERMUTE(prmt_b32, PERMUTE_INDEX)
PERMUTE(prmt_f4e, PERMUTE_F4E)
PERMUTE(prmt_b4e, PERMUTE_B4E)
PERMUTE(prmt_rc8, PERMUTE_RC8)
PERMUTE(prmt_ecl, PERMUTE_ECL)
PERMUTE(prmt_ecr, PERMUTE_ECR)
PERMUTE(prmt_rc16, PERMUTE_RC16)

PTX_EXEC(lop3_b32)
{
	uint32_t table = ptx_source(warp, r, in->e)->v[0].u32;
	PTX_SOURCE(a);
	PTX_SOURCE(b);
	PTX_SOURCE(c);
	PTX_DEST(d);

	PTX_LANES_DO(warp, const uint32_t x = a[l].u32; const uint32_t y = b[l].u32;
		     const uint32_t z = c[l].u32; uint32_t v = 0;
		     v |= table & 0x01 ? ~x & ~y & ~z : 0; v |= table & 0x02 ? ~x & ~y & z : 0;
		     v |= table & 0x04 ? ~x & y & ~z : 0; v |= table & 0x08 ? ~x & y & z : 0;
		     v |= table & 0x10 ? x & ~y & ~z : 0; v |= table & 0x20 ? x & ~y & z : 0;
		     v |= table & 0x40 ? x & y & ~z : 0; v |= table & 0x80 ? x & y & z : 0;
		     d[l].u64 = v;);
	return in + 1;
}

static const struct ptx_op ops[] = {
	{"and.b16", "hhh", and_16},
	{"and.b32", "www", and_32},
	{"and.b64", "xxx", and_64},
	{"and.pred", "ppp", and_64},
	{"or.b16", "hhh", or_16},
	{"or.b32", "www", or_32},
	{"or.b64", "xxx", or_64},
	{"or.pred", "ppp", or_64},
	{"xor.b16", "hhh", xor_16},
	{"xor.b32", "www", xor_32},
	{"xor.b64", "xxx", xor_64},
	{"xor.pred", "ppp", xor_64},
	{"not.b16", "hh", not_16},
	{"not.b32", "ww", not_32},
	{"not.b64", "xx", not_64},
	{"not.pred", "pp", not_pred},
	{"cnot.b16", "hh", cnot_16},
	{"cnot.b32", "ww", cnot_32},
	{"cnot.b64", "xx", cnot_64},
	{"shl.b16", "hhw", shl_16},
	{"shl.b32", "www", shl_32},
	{"shl.b64", "xxw", shl_64},
	{"shr.b16", "hhw", shr_u16},
	{"shr.u16", "hhw", shr_u16},
	{"shr.s16", "hhw", shr_s16},
	{"shr.b32", "www", shr_u32},
	{"shr.u32", "www", shr_u32},
	{"shr.s32", "www", shr_s32},
	{"shr.b64", "xxw", shr_u64},
	{"shr.u64", "xxw", shr_u64},
	{"shr.s64", "xxw", shr_s64},
	{"shf.l.wrap.b32", "wwww", shf_l_wrap},
	{"shf.r.wrap.b32", "wwww", shf_r_wrap},
	{"shf.l.clamp.b32", "wwww", shf_l_clamp},
	{"shf.r.clamp.b32", "wwww", shf_r_clamp},
	{"popc.b32", "ww", popc_32},
	{"popc.b64", "wx", popc_64},
	{"clz.b32", "ww", clz_b32},
	{"clz.b64", "wx", clz_b64},
	{"brev.b32", "ww", brev_32},
	{"brev.b64", "xx", brev_64},
	{"bfind.u32", "ww", bfind_u32},
	{"bfind.u64", "wx", bfind_u64},
	{"bfind.s32", "ww", bfind_s32},
	{"bfind.s64", "wx", bfind_s64},
	{"bfind.shiftamt.u32", "ww", bfind_shift_u32},
	{"bfind.shiftamt.u64", "wx", bfind_shift_u64},
	{"bfind.shiftamt.s32", "ww", bfind_shift_s32},
	{"bfind.shiftamt.s64", "wx", bfind_shift_s64},
	{"bfe.u32", "wwww", bfe_u32},
	{"bfe.s32", "wwww", bfe_s32},
	{"bfe.u64", "xxww", bfe_u64},
	{"bfe.s64", "xxww", bfe_s64},
	{"bfi.b32", "wwwww", bfi_32},
	{"bfi.b64", "xxxww", bfi_64},
	{"szext.wrap.u32", "www", szext_wrap_u32},
	{"szext.wrap.s32", "www", szext_wrap_s32},
	{"szext.clamp.u32", "www", szext_clamp_u32},
	{"szext.clamp.s32", "www", szext_clamp_s32},
	{"bmsk.wrap.b32", "www", bmsk_wrap},
	{"bmsk.clamp.b32", "www", bmsk_clamp},
	{"fns.b32", "wwww", fns_b32},
	{"prmt.b32", "wwww", prmt_b32},
	{"prmt.b32.f4e", "wwww", prmt_f4e},
	{"prmt.b32.b4e", "wwww", prmt_b4e},
	{"prmt.b32.rc8", "wwww", prmt_rc8},
	{"prmt.b32.ecl", "wwww", prmt_ecl},
	{"prmt.b32.ecr", "wwww", prmt_ecr},
	{"prmt.b32.rc16", "wwww", prmt_rc16},
	{"lop3.b32", "wwwww", lop3_b32},
};

const struct ptx_op_table ptx_bits_ops = {ops, ARRAY_SIZE(ops)};

void ptx_tr_emit_not(struct ptx_tr *tr, int32_t dest, int32_t source)
{
	struct ptx_insn *in = ptx_tr_emit(tr, not_pred);

	in->d = dest;
	in->a = source;
}
