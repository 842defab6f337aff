/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Products that are wider than their factors, dot products, and sums and products
 * with carry. Runs on the thread that runs the kernel.
 */

#include "base.h"
#include "tests/softgpu/ptx/translate.h"
#include "tests/softgpu/ptx/warp.h"

/* x and y of type T from FIELD; z, if there is one, from WIDE. */
#define MUL_WIDE(name, T, FIELD, U)                                                                \
	PTX_EXEC(mul_wide_##name)                                                                  \
	{                                                                                          \
		PTX_SOURCE(a);                                                                     \
		PTX_SOURCE(b);                                                                     \
		PTX_DEST(d);                                                                       \
		PTX_LANES_DO(warp, d[l].u64 = (U)((T)a[l].FIELD * (T)b[l].FIELD););                \
		return in + 1;                                                                     \
	}

#define MAD_WIDE(name, T, FIELD, U, WIDE)                                                          \
	PTX_EXEC(mad_wide_##name)                                                                  \
	{                                                                                          \
		PTX_SOURCE(a);                                                                     \
		PTX_SOURCE(b);                                                                     \
		PTX_SOURCE(c);                                                                     \
		PTX_DEST(d);                                                                       \
		PTX_LANES_DO(                                                                      \
			warp, d[l].u64 = (U)((U)((T)a[l].FIELD * (T)b[l].FIELD) + c[l].WIDE););    \
		return in + 1;                                                                     \
	}

#define WIDE(name, T, FIELD, U, WIDE_FIELD)                                                        \
	MUL_WIDE(name, T, FIELD, U)                                                                \
	MAD_WIDE(name, T, FIELD, U, WIDE_FIELD)

WIDE(u16, uint32_t, u16, uint32_t, u32)
WIDE(s16, int32_t, s16, uint32_t, u32)
WIDE(u32, uint64_t, u32, uint64_t, u64)
WIDE(s32, int64_t, s32, uint64_t, u64)

static int64_t byte_of(uint32_t x, unsigned i, bool is_signed)
{
	uint8_t byte = (uint8_t)(x >> (8 * i));

	return is_signed ? (int8_t)byte : byte;
}

static int64_t half_of(uint32_t x, unsigned i, bool is_signed)
{
	uint16_t half = (uint16_t)(x >> (16 * i));

	return is_signed ? (int16_t)half : half;
}

static uint32_t dot4(uint32_t x, uint32_t y, uint32_t z, bool x_signed, bool y_signed)
{
	int64_t sum = z;

	for (unsigned i = 0; i < 4; i++)
		sum += byte_of(x, i, x_signed) * byte_of(y, i, y_signed);
	return (uint32_t)sum;
}

static uint32_t dot2(
	uint32_t x, uint32_t y, uint32_t z, unsigned first, bool x_signed, bool y_signed)
{
	int64_t sum = z;

	for (unsigned i = 0; i < 2; i++)
		sum += half_of(x, i, x_signed) * byte_of(y, first + i, y_signed);
	return (uint32_t)sum;
}

#define DOT(name, EXPR)                                                                            \
	PTX_EXEC(name)                                                                             \
	{                                                                                          \
		PTX_SOURCE(a);                                                                     \
		PTX_SOURCE(b);                                                                     \
		PTX_SOURCE(c);                                                                     \
		PTX_DEST(d);                                                                       \
		PTX_LANES_DO(warp, const uint32_t x = a[l].u32; const uint32_t y = b[l].u32;       \
			     const uint32_t z = c[l].u32; d[l].u64 = (EXPR););                     \
		return in + 1;                                                                     \
	}

#define DOTS(name, x_signed, y_signed)                                                             \
	DOT(dp4a_##name, dot4(x, y, z, x_signed, y_signed))                                        \
	DOT(dp2a_lo_##name, dot2(x, y, z, 0, x_signed, y_signed))                                  \
	DOT(dp2a_hi_##name, dot2(x, y, z, 2, x_signed, y_signed))
DOTS(uu, false, false)
DOTS(us, false, true)
DOTS(su, true, false)
DOTS(ss, true, true)

#define DOT_OPS(types, name)                                                                       \
	{"dp4a." types, "wwww", dp4a_##name}, {"dp2a.lo." types, "wwww", dp2a_lo_##name},          \
	{                                                                                          \
		"dp2a.hi." types, "wwww", dp2a_hi_##name                                           \
	}

static const struct ptx_op ops[] = {
	{"mul.wide.u16", "whh", mul_wide_u16},
	{"mul.wide.s16", "whh", mul_wide_s16},
	{"mul.wide.u32", "xww", mul_wide_u32},
	{"mul.wide.s32", "xww", mul_wide_s32},
	{"mad.wide.u16", "whhw", mad_wide_u16},
	{"mad.wide.s16", "whhw", mad_wide_s16},
	{"mad.wide.u32", "xwwx", mad_wide_u32},
	{"mad.wide.s32", "xwwx", mad_wide_s32},
	DOT_OPS("u32.u32", uu),
	DOT_OPS("u32.s32", us),
	DOT_OPS("s32.u32", su),
	DOT_OPS("s32.s32", ss),
};

const struct ptx_op_table ptx_wide_ops = {ops, ARRAY_SIZE(ops)};

static void set_carry(struct ptx_warp *warp, unsigned l, bool carry)
{
	warp->carry = (warp->carry & ~(1u << l)) | (uint32_t)carry << l;
}

static uint64_t get_carry(const struct ptx_warp *warp, unsigned l)
{
	return warp->carry >> l & 1;
}

/*
 * The flag is that of an adder: a difference is x + ~y + 1, so the flag says that
 * there was no borrow, and an instruction may continue one of the other kind. SUM is
 * in T, which is wider than a result of U; its bit BITS is the carry.
 */
#define CARRY(name, T, FIELD, U, BITS, SUM)                                                        \
	PTX_EXEC(name)                                                                             \
	{                                                                                          \
		PTX_SOURCE(a);                                                                     \
		PTX_SOURCE(b);                                                                     \
		PTX_SOURCE(c);                                                                     \
		PTX_DEST(d);                                                                       \
		for (uint32_t left = warp->mask; left; left &= left - 1) {                         \
			unsigned l = (unsigned)__builtin_ctz(left);                                \
			const T x = a[l].FIELD;                                                    \
			const T y = b[l].FIELD;                                                    \
			const T z _unused_ = c[l].FIELD;                                           \
			const T sum = (SUM);                                                       \
			if (in->imm)                                                               \
				set_carry(warp, l, sum >> (BITS)&1);                               \
			d[l].u64 = (U)sum;                                                         \
		}                                                                                  \
		return in + 1;                                                                     \
	}

#define CARRIES(bits, T, FIELD, U)                                                                 \
	CARRY(add_cc_##bits, T, FIELD, U, bits, x + y)                                             \
	CARRY(addc_##bits, T, FIELD, U, bits, x + y + get_carry(warp, l))                          \
	CARRY(sub_cc_##bits, T, FIELD, U, bits, x + (U)~y + 1)                                     \
	CARRY(subc_##bits, T, FIELD, U, bits, x + (U)~y + get_carry(warp, l))                      \
	CARRY(mad_lo_cc_##bits, T, FIELD, U, bits, (T)(U)(x * y) + z)                              \
	CARRY(madc_lo_##bits, T, FIELD, U, bits, (T)(U)(x * y) + z + get_carry(warp, l))

CARRIES(32, uint64_t, u32, uint32_t)
CARRIES(64, unsigned __int128, u64, uint64_t)

#define HIGH(x, y, SIGNED, bits) ((SIGNED)(x) * (SIGNED)(y) >> (bits))
CARRY(mad_hi_cc_u32, uint64_t, u32, uint32_t, 32, (x * y >> 32) + z)
CARRY(madc_hi_u32, uint64_t, u32, uint32_t, 32, (x * y >> 32) + z + get_carry(warp, l))
CARRY(mad_hi_cc_s32, uint64_t, u32, uint32_t, 32,
	(uint32_t)HIGH((int32_t)x, (int32_t)y, int64_t, 32) + z)
CARRY(madc_hi_s32, uint64_t, u32, uint32_t, 32,
	(uint32_t)HIGH((int32_t)x, (int32_t)y, int64_t, 32) + z + get_carry(warp, l))
CARRY(mad_hi_cc_u64, unsigned __int128, u64, uint64_t, 64, (x * y >> 64) + z)
CARRY(madc_hi_u64, unsigned __int128, u64, uint64_t, 64, (x * y >> 64) + z + get_carry(warp, l))
CARRY(mad_hi_cc_s64, unsigned __int128, u64, uint64_t, 64,
	(unsigned __int128)(uint64_t)HIGH((int64_t)x, (int64_t)y, __int128, 64) + z)
CARRY(madc_hi_s64, unsigned __int128, u64, uint64_t, 64,
	(unsigned __int128)(uint64_t)HIGH((int64_t)x, (int64_t)y, __int128, 64) + z +
		get_carry(warp, l))

/* By operation, 64 bits, sign. */
static ptx_exec_fn *const carry_execs[][2][2] = {
	{{add_cc_32, add_cc_32}, {add_cc_64, add_cc_64}},
	{{addc_32, addc_32}, {addc_64, addc_64}},
	{{sub_cc_32, sub_cc_32}, {sub_cc_64, sub_cc_64}},
	{{subc_32, subc_32}, {subc_64, subc_64}},
	{{mad_lo_cc_32, mad_lo_cc_32}, {mad_lo_cc_64, mad_lo_cc_64}},
	{{madc_lo_32, madc_lo_32}, {madc_lo_64, madc_lo_64}},
	{{mad_hi_cc_u32, mad_hi_cc_s32}, {mad_hi_cc_u64, mad_hi_cc_s64}},
	{{madc_hi_u32, madc_hi_s32}, {madc_hi_u64, madc_hi_s64}},
};

void ptx_translate_carry(struct ptx_tr *tr)
{
	bool is_mad = tr->mnemonic[0] == 'm';
	bool takes_carry = tr->mnemonic[3] == 'c';
	bool is_high = is_mad && ptx_tr_take(tr, "hi");
	bool sets_carry = ptx_tr_take(tr, "cc");
	enum ptx_type type = ptx_tr_take_type(tr);
	bool is_64 = ptx_type_size(type) == 8;
	unsigned row = is_mad ? (is_high ? 6 : 4) : tr->mnemonic[0] == 's' ? 2 : 0;
	int32_t rows[4] = {0};
	struct ptx_insn *in;

	if (is_mad && !is_high && !ptx_tr_take(tr, "lo"))
		ptx_tr_refuse(tr);
	if ((type != PTX_U32 && type != PTX_S32 && type != PTX_U64 && type != PTX_S64) ||
		(!sets_carry && !takes_carry))
		ptx_tr_refuse(tr);
	if (!ptx_tr_count(tr, is_mad ? 4 : 3))
		return;
	for (uint32_t i = 1; i < tr->stmt->n_operands; i++)
		rows[i] = ptx_tr_source(tr, &tr->stmt->operands[i], type);
	rows[0] = ptx_tr_dest(tr, &tr->stmt->operands[0], type);
	in = ptx_tr_emit(tr, carry_execs[row + takes_carry][is_64][ptx_type_is_signed(type)]);
	in->d = rows[0];
	in->a = rows[1];
	in->b = rows[2];
	in->c = rows[3];
	in->imm = sets_carry;
}
