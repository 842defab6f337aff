/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Comparisons: setp and set. Runs on the thread that runs the kernel. A comparison
 * with a boolean operation becomes a comparison and a combination.
 */

#include "base.h"
#include "tests/softgpu/ptx/float.h"
#include "tests/softgpu/ptx/translate.h"
#include "tests/softgpu/ptx/warp.h"

enum compare {
	COMPARE_EQ,
	COMPARE_NE,
	COMPARE_LT,
	COMPARE_LE,
	COMPARE_GT,
	COMPARE_GE,
	COMPARE_EQU,
	COMPARE_NEU,
	COMPARE_LTU,
	COMPARE_LEU,
	COMPARE_GTU,
	COMPARE_GEU,
	COMPARE_NUM,
	COMPARE_NAN,
	COMPARE_N,
};

static const char *const compare_names[] = {"eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu",
	"leu", "gtu", "geu", "num", "nan", NULL};

#define COMPARE(name, T, READ, EXPR)                                                               \
	PTX_EXEC(name)                                                                             \
	{                                                                                          \
		PTX_SOURCE(a);                                                                     \
		PTX_SOURCE(b);                                                                     \
		PTX_DEST(d);                                                                       \
		PTX_LANES_DO(warp, const T x = READ(a); const T y = READ(b); d[l].u64 = (EXPR););  \
		return in + 1;                                                                     \
	}

#define ORDERED(name, T, READ)                                                                     \
	COMPARE(eq_##name, T, READ, x == y)                                                        \
	COMPARE(lt_##name, T, READ, x < y)                                                         \
	COMPARE(le_##name, T, READ, x <= y)                                                        \
	COMPARE(gt_##name, T, READ, x > y)                                                         \
	COMPARE(ge_##name, T, READ, x >= y)

#define INTEGER(name, T, READ)                                                                     \
	ORDERED(name, T, READ)                                                                     \
	COMPARE(ne_##name, T, READ, x != y)                                                        \
	static ptx_exec_fn *const compare_##name[COMPARE_N] = {                                    \
		eq_##name, ne_##name, lt_##name, le_##name, gt_##name, ge_##name};

/* A comparison that is false for a NaN; with u, true. */
#define FLOATING(name, T, READ)                                                                    \
	ORDERED(name, T, READ)                                                                     \
	COMPARE(ne_##name, T, READ, x<y || x> y)                                                   \
	COMPARE(equ_##name, T, READ, !(x < y || x > y))                                            \
	COMPARE(neu_##name, T, READ, x != y)                                                       \
	COMPARE(ltu_##name, T, READ, !(x >= y))                                                    \
	COMPARE(leu_##name, T, READ, !(x > y))                                                     \
	COMPARE(gtu_##name, T, READ, !(x <= y))                                                    \
	COMPARE(geu_##name, T, READ, !(x < y))                                                     \
	COMPARE(num_##name, T, READ, x == x && y == y)                                             \
	COMPARE(nan_##name, T, READ, x != x || y != y)                                             \
	static ptx_exec_fn *const compare_##name[COMPARE_N] = {eq_##name, ne_##name, lt_##name,    \
		le_##name, gt_##name, ge_##name, equ_##name, neu_##name, ltu_##name, leu_##name,   \
		gtu_##name, geu_##name, num_##name, nan_##name};

#define READ_U16(x) ((x)[l].u16)
#define READ_S16(x) ((x)[l].s16)
#define READ_U32(x) ((x)[l].u32)
#define READ_S32(x) ((x)[l].s32)
#define READ_U64(x) ((x)[l].u64)
#define READ_S64(x) ((x)[l].s64)
#define READ_F32(x) ((x)[l].f32)
#define READ_FTZ(x) ptx_f32_flush((x)[l].f32)
#define READ_F64(x) ((x)[l].f64)
#define READ_F16(x) ptx_f16_to_f32((x)[l].u16)
#define READ_BF16(x) ptx_bf16_to_f32((x)[l].u16)
#define READ_F16_HIGH(x) ptx_f16_to_f32((uint16_t)((x)[l].u32 >> 16))
#define READ_BF16_HIGH(x) ptx_bf16_to_f32((uint16_t)((x)[l].u32 >> 16))

INTEGER(u16, uint16_t, READ_U16)
INTEGER(s16, int16_t, READ_S16)
INTEGER(u32, uint32_t, READ_U32)
INTEGER(s32, int32_t, READ_S32)
INTEGER(u64, uint64_t, READ_U64)
INTEGER(s64, int64_t, READ_S64)
FLOATING(f32, float, READ_F32)
FLOATING(ftz, float, READ_FTZ)
FLOATING(f64, double, READ_F64)
FLOATING(f16, float, READ_F16)
FLOATING(bf16, float, READ_BF16)
FLOATING(f16_high, float, READ_F16_HIGH)
FLOATING(bf16_high, float, READ_BF16_HIGH)

static ptx_exec_fn *const *compare_execs(enum ptx_type type, bool flush, bool is_high)
{
	switch (type) {
	case PTX_B16:
	case PTX_U16:
		return compare_u16;
	case PTX_S16:
		return compare_s16;
	case PTX_B32:
	case PTX_U32:
		return compare_u32;
	case PTX_S32:
		return compare_s32;
	case PTX_B64:
	case PTX_U64:
		return compare_u64;
	case PTX_S64:
		return compare_s64;
	case PTX_F32:
		return flush ? compare_ftz : compare_f32;
	case PTX_F64:
		return compare_f64;
	case PTX_F16:
	case PTX_F16X2:
		return is_high ? compare_f16_high : compare_f16;
	case PTX_BF16:
	case PTX_BF16X2:
		return is_high ? compare_bf16_high : compare_bf16;
	default:
		return NULL;
	}
}

enum boolean {
	BOOLEAN_AND,
	BOOLEAN_OR,
	BOOLEAN_XOR,
};

/* d = (a ^ extra) op b */
PTX_EXEC(exec_combine)
{
	uint64_t flip = in->extra;
	PTX_SOURCE(a);
	PTX_SOURCE(b);
	PTX_DEST(d);

	switch (in->imm) {
	case BOOLEAN_AND:
		PTX_LANES_DO(warp, d[l].u64 = (a[l].u64 ^ flip) & b[l].u64;);
		break;
	case BOOLEAN_OR:
		PTX_LANES_DO(warp, d[l].u64 = (a[l].u64 ^ flip) | b[l].u64;);
		break;
	default:
		PTX_LANES_DO(warp, d[l].u64 = (a[l].u64 ^ flip) ^ b[l].u64;);
		break;
	}
	return in + 1;
}

/* d = a ? b : c, of constants: the result of set. */
PTX_EXEC(exec_set)
{
	PTX_SOURCE(a);
	PTX_SOURCE(b);
	PTX_DEST(d);

	PTX_LANES_DO(warp, d[l].u64 = a[l].u64 ? b[l].u64 : 0;);
	return in + 1;
}

/* d = a | b << 16 */
PTX_EXEC(exec_join)
{
	PTX_SOURCE(a);
	PTX_SOURCE(b);
	PTX_DEST(d);

	PTX_LANES_DO(warp, d[l].u64 = a[l].u64 | b[l].u64 << 16;);
	return in + 1;
}

struct comparison {
	int compare;
	int boolean; /* -1: none */
	bool flush;
	enum ptx_type type;
	int32_t a, b, c;
};

/* lo, ls, hi, hs are the unsigned names of lt, le, gt, ge. */
static int take_compare(struct ptx_tr *tr)
{
	static const char *const unsigned_names[] = {"lo", "ls", "hi", "hs", NULL};
	int i = ptx_tr_take_one(tr, compare_names);

	if (i >= 0)
		return i;
	i = ptx_tr_take_one(tr, unsigned_names);
	return i < 0 ? -1 : i + COMPARE_LT;
}

/* The part of setp and set that does not depend on the type of the operands. */
static struct comparison take_comparison(struct ptx_tr *tr)
{
	static const char *const booleans[] = {"and", "or", "xor", NULL};
	struct comparison comparison = {.compare = take_compare(tr)};

	comparison.boolean = ptx_tr_take_one(tr, booleans);
	comparison.flush = ptx_tr_take(tr, "ftz");
	return comparison;
}

static bool take_operands(struct ptx_tr *tr, struct comparison *comparison)
{
	ptx_exec_fn *const *execs = compare_execs(comparison->type, false, false);

	if (comparison->compare < 0 || !execs || !execs[comparison->compare]) {
		ptx_tr_refuse(tr);
		return false;
	}
	if (!ptx_tr_count(tr, comparison->boolean < 0 ? 3 : 4))
		return false;
	comparison->a = ptx_tr_source(tr, ptx_tr_operand(tr, 1), comparison->type);
	comparison->b = ptx_tr_source(tr, ptx_tr_operand(tr, 2), comparison->type);
	if (comparison->boolean >= 0)
		comparison->c = ptx_tr_source(tr, ptx_tr_operand(tr, 3), PTX_PRED);
	return true;
}

static void emit_compare(
	struct ptx_tr *tr, const struct comparison *comparison, bool is_high, int32_t dest)
{
	ptx_exec_fn *const *execs = compare_execs(comparison->type, comparison->flush, is_high);
	struct ptx_insn *in = ptx_tr_emit(tr, execs[comparison->compare]);

	in->d = dest;
	in->a = comparison->a;
	in->b = comparison->b;
}

static void emit_combine(struct ptx_tr *tr, const struct comparison *comparison, int32_t dest,
	int32_t source, bool is_inverse)
{
	struct ptx_insn *in;

	if (comparison->boolean < 0 && is_inverse) {
		ptx_tr_emit_not(tr, dest, source);
		return;
	}
	in = ptx_tr_emit(tr, exec_combine);
	in->d = dest;
	in->a = source;
	in->extra = is_inverse;
	in->b = comparison->boolean < 0 ? ptx_tr_constant(tr, 0) : comparison->c;
	in->imm = comparison->boolean < 0 ? BOOLEAN_OR : comparison->boolean;
}

static void emit_copy(struct ptx_tr *tr, int32_t dest, int32_t source)
{
	static const struct comparison plain = {.boolean = -1};

	emit_combine(tr, &plain, dest, source, false);
}

/*
 * p|q: q gets the result of the high halves if a register has two values, else the
 * inverse of p. p may be the register of the third source.
 */
static void emit_pair(
	struct ptx_tr *tr, const struct comparison *comparison, bool is_x2, const int32_t *dests)
{
	int32_t first = ptx_tr_temp(tr), second = ptx_tr_temp(tr);

	emit_compare(tr, comparison, false, first);
	emit_compare(tr, comparison, is_x2, second);
	emit_combine(tr, comparison, second, second, !is_x2);
	emit_combine(tr, comparison, dests[0], first, false);
	emit_copy(tr, dests[1], second);
}

static void translate_setp(struct ptx_tr *tr)
{
	struct comparison comparison = take_comparison(tr);
	const struct ptx_operand *out = ptx_tr_operand(tr, 0);
	bool is_pair = out->kind == PTX_OPERAND_PAIR, is_x2;
	int32_t temp, dests[2];

	comparison.type = ptx_tr_take_type(tr);
	is_x2 = comparison.type == PTX_F16X2 || comparison.type == PTX_BF16X2;
	if (!take_operands(tr, &comparison))
		return;
	if (is_x2 && !is_pair) {
		ptx_tr_bad_operand(tr, 0);
		return;
	}
	dests[0] = ptx_tr_dest(tr, is_pair ? &out->items[0] : out, PTX_PRED);
	if (!is_pair && comparison.boolean < 0) {
		emit_compare(tr, &comparison, false, dests[0]);
		return;
	}
	if (is_pair) {
		dests[1] = ptx_tr_dest(tr, &out->items[1], PTX_PRED);
		emit_pair(tr, &comparison, is_x2, dests);
		return;
	}
	temp = ptx_tr_temp(tr);
	emit_compare(tr, &comparison, false, temp);
	emit_combine(tr, &comparison, dests[0], temp, false);
}

/* The value of true in a result of set. */
static uint64_t true_value(enum ptx_type type)
{
	switch (type) {
	case PTX_F32:
		return 0x3f800000;
	case PTX_F16:
	case PTX_F16X2:
		return 0x3c00;
	case PTX_BF16:
	case PTX_BF16X2:
		return 0x3f80;
	case PTX_U16:
	case PTX_S16:
		return 0xffff;
	default:
		return 0xffffffff;
	}
}

static int32_t emit_set(
	struct ptx_tr *tr, const struct comparison *comparison, bool is_high, uint64_t value)
{
	int32_t temp = ptx_tr_temp(tr), result = ptx_tr_temp(tr);
	int32_t constant = ptx_tr_constant(tr, value);
	struct ptx_insn *in;

	emit_compare(tr, comparison, is_high, temp);
	emit_combine(tr, comparison, temp, temp, false);
	in = ptx_tr_emit(tr, exec_set);
	in->d = result;
	in->a = temp;
	in->b = constant;
	return result;
}

static void translate_set(struct ptx_tr *tr)
{
	struct comparison comparison = take_comparison(tr);
	enum ptx_type type = ptx_tr_take_type(tr);
	bool is_x2;
	uint64_t value;
	int32_t rows[2], dest;
	struct ptx_insn *in;

	comparison.type = ptx_tr_take_type(tr);
	is_x2 = comparison.type == PTX_F16X2 || comparison.type == PTX_BF16X2;
	if (ptx_type_size(type) != 2 && ptx_type_size(type) != 4)
		ptx_tr_refuse(tr);
	if (!take_operands(tr, &comparison))
		return;
	value = is_x2 && ptx_type_size(type) == 4 && type != comparison.type ? 0xffff
									     : true_value(type);
	rows[0] = emit_set(tr, &comparison, false, value);
	rows[1] = is_x2 ? emit_set(tr, &comparison, true, value) : ptx_tr_constant(tr, 0);
	dest = ptx_tr_dest(tr, ptx_tr_operand(tr, 0), type);
	in = ptx_tr_emit(tr, exec_join);
	in->d = dest;
	in->a = rows[0];
	in->b = rows[1];
}

static const struct ptx_family families[] = {
	{"setp", translate_setp},
	{"set", translate_set},
};

const struct ptx_family_table ptx_compare_families = {families, ARRAY_SIZE(families)};
