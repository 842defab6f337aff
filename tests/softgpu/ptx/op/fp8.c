/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Conversions to and from floats of 8 bits, two at a time. Runs on the thread
 * that runs the kernel. They saturate: there is no infinity to round to.
 */

#include "base.h"
#include "tests/softgpu/ptx/float.h"
#include "tests/softgpu/ptx/translate.h"
#include "tests/softgpu/ptx/warp.h"

#define FP8_NAN 0x7fu

static const struct ptx_float_format *const formats[] = {&ptx_e4m3, &ptx_e5m2};

static uint64_t narrow(float x, const struct ptx_float_format *format, uint32_t flags)
{
	uint32_t bits;

	if (flags & PTX_FLOAT_RELU && x <= 0)
		x = 0;
	if (x != x)
		return FP8_NAN;
	bits = ptx_float_round(x, format, PTX_ROUND_NEAREST);
	return (bits & 0x7f) > format->limit ? bits - 1 : bits;
}

static uint64_t widen(uint8_t bits, bool is_e5m2, uint32_t flags)
{
	float x;

	if (is_e5m2)
		x = ptx_f16_to_f32((uint16_t)(bits << 8));
	else if ((bits & 0x7f) == FP8_NAN)
		return PTX_F16_NAN;
	else if (bits & 0x78)
		x = ptx_f32_from((uint32_t)(bits & 0x80) << 24 |
				 (((uint32_t)(bits & 0x7f) << 20) + 0x3c000000u));
	else
		x = (bits & 0x80 ? -1.0f : 1.0f) * (float)(bits & 7) * 0x1p-9f;
	if (x != x)
		return PTX_F16_NAN;
	if (flags & PTX_FLOAT_RELU && x <= 0)
		x = 0;
	return ptx_float_round(x, &ptx_f16, PTX_ROUND_NEAREST);
}

/* extra: the format. */
PTX_EXEC(from_f32)
{
	const struct ptx_float_format *format = formats[in->extra];
	PTX_SOURCE(a);
	PTX_SOURCE(b);
	PTX_DEST(d);

	PTX_LANES_DO(warp, d[l].u64 = narrow(a[l].f32, format, in->flags) << 8 |
				      narrow(b[l].f32, format, in->flags););
	return in + 1;
}

PTX_EXEC(from_f16x2)
{
	const struct ptx_float_format *format = formats[in->extra];
	PTX_SOURCE(a);
	PTX_DEST(d);

	PTX_LANES_DO(
		warp, float low = ptx_f16_to_f32(a[l].u16);
		float high = ptx_f16_to_f32((uint16_t)(a[l].u32 >> 16));
		d[l].u64 = narrow(high, format, in->flags) << 8 | narrow(low, format, in->flags););
	return in + 1;
}

PTX_EXEC(to_f16x2)
{
	PTX_SOURCE(a);
	PTX_DEST(d);

	PTX_LANES_DO(warp, uint64_t low = widen(a[l].u8, in->extra, in->flags);
		     uint64_t high = widen((uint8_t)(a[l].u16 >> 8), in->extra, in->flags);
		     d[l].u64 = high << 16 | low;);
	return in + 1;
}

static void emit(struct ptx_tr *tr, ptx_exec_fn *exec, uint32_t format, uint32_t flags)
{
	bool widens = exec == to_f16x2, is_pair = exec == from_f32;
	enum ptx_type from = widens ? PTX_B16 : PTX_B32;
	int32_t rows[3] = {0};
	struct ptx_insn *in;

	if (!ptx_tr_count(tr, is_pair ? 3 : 2))
		return;
	rows[1] = ptx_tr_source(tr, ptx_tr_operand(tr, 1), from);
	if (is_pair)
		rows[2] = ptx_tr_source(tr, ptx_tr_operand(tr, 2), from);
	rows[0] = ptx_tr_dest(tr, ptx_tr_operand(tr, 0), widens ? PTX_B32 : PTX_B16);
	in = ptx_tr_emit(tr, exec);
	in->d = rows[0];
	in->a = rows[1];
	in->b = rows[2];
	in->extra = format;
	in->flags = flags;
}

bool ptx_translate_fp8(struct ptx_tr *tr)
{
	static const char *const names[] = {"e4m3x2", "e5m2x2", NULL};
	const char *last = tr->n_modifiers ? tr->modifiers[tr->n_modifiers - 1] : "";
	bool widens = !strcmp(last, names[0]) || !strcmp(last, names[1]);
	int format = ptx_tr_take_one(tr, names);
	uint32_t flags;

	if (format < 0)
		return false;
	flags = ptx_tr_take(tr, "relu") ? PTX_FLOAT_RELU : 0;
	if (!ptx_tr_take(tr, "rn") || (!widens && !ptx_tr_take(tr, "satfinite")))
		ptx_tr_refuse(tr);
	if (ptx_tr_take(tr, "f16x2"))
		emit(tr, widens ? to_f16x2 : from_f16x2, (uint32_t)format, flags);
	else if (!widens && ptx_tr_take(tr, "f32"))
		emit(tr, from_f32, (uint32_t)format, flags);
	else
		ptx_tr_refuse(tr);
	return true;
}
