/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Integers of 16 and 8 bits, two or four to a register. Runs on the thread
 * that runs the kernel.
 */

#include <string.h>

#include "base.h"
#include "tests/softgpu/ptx/translate.h"
#include "tests/softgpu/ptx/warp.h"

enum simd {
	SIMD_ADD,
	SIMD_SUB,
	SIMD_AVRG,
	SIMD_ABSDIFF,
	SIMD_MIN,
	SIMD_MAX,
};

enum simd_flags {
	SIMD_SAT = 1 << 0,
	SIMD_SUM = 1 << 1,  /* .add: the sum of all parts and c */
	SIMD_RELU = 1 << 2, /* no value below zero */
	SIMD_A_SIGNED = 1 << 3,
	SIMD_B_SIGNED = 1 << 4,
	SIMD_D_SIGNED = 1 << 5,
};

static int32_t part_of(uint32_t x, unsigned bits, unsigned i, bool is_signed)
{
	uint32_t top = x << (32 - bits * (i + 1));

	return is_signed ? (int32_t)top >> (32 - bits) : (int32_t)(top >> (32 - bits));
}

static int32_t apply(enum simd op, int32_t x, int32_t y)
{
	switch (op) {
	case SIMD_ADD:
		return x + y;
	case SIMD_SUB:
		return x - y;
	case SIMD_AVRG:
		/* Rounded away from zero. */
		return x + y >= 0 ? (x + y + 1) >> 1 : -((-(x + y) + 1) >> 1);
	case SIMD_ABSDIFF:
		return x < y ? y - x : x - y;
	case SIMD_MIN:
		return MIN(x, y);
	default:
		return MAX(x, y);
	}
}

static int32_t saturate(int32_t x, unsigned bits, bool is_signed)
{
	int32_t most = (1 << (bits - is_signed)) - 1;
	int32_t least = is_signed ? -most - 1 : 0;

	return MIN(MAX(x, least), most);
}

/* imm: the operation; extra: bits of a part. */
PTX_EXEC(exec_simd)
{
	unsigned bits = in->extra, n = 32 / bits;
	uint32_t mask = (1u << bits) - 1, flags = in->flags;
	PTX_SOURCE(a);
	PTX_SOURCE(b);
	PTX_SOURCE(c);
	PTX_DEST(d);

	PTX_LANES_DO(
		warp, uint32_t parts = 0; uint32_t sum = c[l].u32;
		for (unsigned i = 0; i < n; i++) {
			int32_t v = apply((enum simd)in->imm,
				part_of(a[l].u32, bits, i, flags & SIMD_A_SIGNED),
				part_of(b[l].u32, bits, i, flags & SIMD_B_SIGNED));

			if (flags & SIMD_SAT)
				v = saturate(v, bits, flags & SIMD_D_SIGNED);
			if (flags & SIMD_RELU)
				v = MAX(v, 0);
			sum += (uint32_t)v;
			parts |= ((uint32_t)v & mask) << (bits * i);
		} d[l]
			.u64 = flags & SIMD_SUM ? sum : parts;);
	return in + 1;
}

static void emit_simd(
	struct ptx_tr *tr, enum simd op, unsigned bits, uint32_t flags, uint32_t n_operands)
{
	int32_t rows[4] = {0};
	struct ptx_insn *in;

	if (!ptx_tr_count(tr, n_operands))
		return;
	for (uint32_t i = 1; i < n_operands; i++)
		rows[i] = ptx_tr_source(tr, ptx_tr_operand(tr, i), PTX_B32);
	rows[0] = ptx_tr_dest(tr, ptx_tr_operand(tr, 0), PTX_B32);
	in = ptx_tr_emit(tr, exec_simd);
	in->d = rows[0];
	in->a = rows[1];
	in->b = rows[2];
	in->c = rows[3];
	in->imm = op;
	in->extra = bits;
	in->flags = flags;
}

static const struct {
	const char *name;
	enum simd op;
	unsigned bits;
} video[] = {
	{"vadd2", SIMD_ADD, 16},
	{"vadd4", SIMD_ADD, 8},
	{"vsub2", SIMD_SUB, 16},
	{"vsub4", SIMD_SUB, 8},
	{"vavrg2", SIMD_AVRG, 16},
	{"vavrg4", SIMD_AVRG, 8},
	{"vabsdiff2", SIMD_ABSDIFF, 16},
	{"vabsdiff4", SIMD_ABSDIFF, 8},
	{"vmin2", SIMD_MIN, 16},
	{"vmin4", SIMD_MIN, 8},
	{"vmax2", SIMD_MAX, 16},
	{"vmax4", SIMD_MAX, 8},
};

/* vop4.dtype.atype.btype{.sat|.add} d, a, b, c, without selectors and masks. */
static void translate_video(struct ptx_tr *tr)
{
	static const uint32_t signs[] = {SIMD_D_SIGNED, SIMD_A_SIGNED, SIMD_B_SIGNED};
	uint32_t flags = 0;

	for (unsigned i = 0; i < ARRAY_SIZE(signs); i++) {
		enum ptx_type type = ptx_tr_take_type(tr);

		if (type != PTX_U32 && type != PTX_S32)
			ptx_tr_refuse(tr);
		flags |= type == PTX_S32 ? signs[i] : 0;
	}
	if (ptx_tr_take(tr, "sat"))
		flags |= SIMD_SAT;
	else if (ptx_tr_take(tr, "add"))
		flags |= SIMD_SUM;
	for (unsigned i = 0; i < ARRAY_SIZE(video); i++)
		if (!strcmp(video[i].name, tr->mnemonic))
			emit_simd(tr, video[i].op, video[i].bits, flags, 4);
}

bool ptx_translate_pair(struct ptx_tr *tr)
{
	bool is_min = !strcmp(tr->mnemonic, "min"), is_max = !strcmp(tr->mnemonic, "max");
	bool is_signed = ptx_tr_take(tr, "s16x2");
	uint32_t flags = is_signed ? SIMD_A_SIGNED | SIMD_B_SIGNED : 0;

	if (!is_signed && !ptx_tr_take(tr, "u16x2"))
		return false;
	if (is_signed && (is_min || is_max) && ptx_tr_take(tr, "relu"))
		flags |= SIMD_RELU;
	if (is_min || is_max)
		emit_simd(tr, is_min ? SIMD_MIN : SIMD_MAX, 16, flags, 3);
	else if (!strcmp(tr->mnemonic, "add"))
		emit_simd(tr, SIMD_ADD, 16, flags, 3);
	else
		ptx_tr_refuse(tr);
	return true;
}

static const struct ptx_family families[] = {
	{"vadd2", translate_video},
	{"vadd4", translate_video},
	{"vsub2", translate_video},
	{"vsub4", translate_video},
	{"vavrg2", translate_video},
	{"vavrg4", translate_video},
	{"vabsdiff2", translate_video},
	{"vabsdiff4", translate_video},
	{"vmin2", translate_video},
	{"vmin4", translate_video},
	{"vmax2", translate_video},
	{"vmax4", translate_video},
};

const struct ptx_family_table ptx_simd_families = {families, ARRAY_SIZE(families)};
