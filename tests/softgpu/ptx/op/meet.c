/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Joint operations of a warp's lanes: shuffles, votes, matches, reductions. Runs on
 * the thread that runs the kernel. Lanes that reach the operation separately wait
 * until all live lanes of the mask have reached it.
 */

#include "base.h"
#include "tests/softgpu/ptx/translate.h"
#include "tests/softgpu/ptx/warp.h"

/* The operand of lane `l', which may be at a different instruction. */
static const union ptx_reg *lane_source(const struct ptx_warp *warp, unsigned l, int32_t operand)
{
	return &ptx_source(warp, ptx_warp_frame(warp, l), operand)->v[l];
}

static union ptx_reg *lane_dest(const struct ptx_warp *warp, unsigned l, int32_t row)
{
	return &ptx_warp_frame(warp, l)[row].v[l];
}

static bool is_same_meeting(const struct ptx_insn *x, const struct ptx_insn *y)
{
	return x == y || (x->meet == y->meet && x->extra == y->extra && x->flags == y->flags);
}

/* The lanes that wait for the same operation as lane `first'. */
static uint32_t meeting_of(const struct ptx_warp *warp, unsigned first)
{
	uint32_t lanes = 0;

	for (uint32_t left = warp->meeting; left; left &= left - 1) {
		unsigned l = (unsigned)__builtin_ctz(left);

		if (warp->meeting_masks[l] == warp->meeting_masks[first] &&
			is_same_meeting(warp->pc[l], warp->pc[first]))
			lanes |= 1u << l;
	}
	return lanes;
}

void ptx_warp_resolve(struct ptx_warp *warp)
{
	for (uint32_t left = warp->meeting; left;) {
		unsigned first = (unsigned)__builtin_ctz(left);
		uint32_t lanes = meeting_of(warp, first);

		left &= ~lanes;
		if (warp->meeting_masks[first] & warp->live & ~lanes)
			continue;
		warp->pc[first]->meet(warp, lanes);
		warp->meeting &= ~lanes;
		warp->ready |= lanes;
		for (; lanes; lanes &= lanes - 1)
			warp->pc[__builtin_ctz(lanes)]++;
	}
}

/* Operand m is the member mask; INT32_MAX: all lanes that run now. */
PTX_EXEC(exec_meet)
{
	uint32_t left = warp->mask, waiting = 0;
	const union ptx_reg *m = in->m == INT32_MAX ? NULL : ptx_source(warp, r, in->m)->v;

	ptx_warp_set_pc(warp, warp->mask, in);
	while (left) {
		uint32_t mask = !m ? warp->mask : m[__builtin_ctz(left)].u32;
		uint32_t lanes = 0;

		for (uint32_t rest = left; rest; rest &= rest - 1) {
			unsigned l = (unsigned)__builtin_ctz(rest);

			if (!m || m[l].u32 == mask)
				lanes |= 1u << l;
		}
		left &= ~lanes;
		if (mask & warp->live & ~lanes) {
			for (uint32_t rest = lanes; rest; rest &= rest - 1)
				warp->meeting_masks[__builtin_ctz(rest)] = mask;
			waiting |= lanes;
		} else {
			in->meet(warp, lanes);
		}
	}
	if (!waiting)
		return in + 1;
	ptx_warp_set_pc(warp, warp->mask & ~waiting, in + 1);
	warp->meeting |= waiting;
	warp->ready &= ~waiting;
	ptx_warp_resolve(warp);
	return NULL;
}

enum shuffle {
	SHUFFLE_UP,
	SHUFFLE_DOWN,
	SHUFFLE_BFLY,
	SHUFFLE_IDX,
};

/* The lane from which `l' reads, or -1 if it is outside the segment. */
static int shuffle_from(enum shuffle mode, unsigned l, uint32_t b, uint32_t c)
{
	int lane = (int)l, by = (int)(b & 31);
	int segment = (int)(c >> 8 & 31);
	int limit = (lane & segment) | ((int)(c & 31) & ~segment);
	int from;

	switch (mode) {
	case SHUFFLE_UP:
		from = lane - by;
		return from >= limit ? from : -1;
	case SHUFFLE_DOWN:
		from = lane + by;
		break;
	case SHUFFLE_BFLY:
		from = lane ^ by;
		break;
	default:
		from = (lane & segment) | (by & ~segment);
		break;
	}
	return from <= limit ? from : -1;
}

static void meet_shfl(struct ptx_warp *warp, uint32_t lanes)
{
	uint32_t values[PTX_LANES];

	for (uint32_t left = lanes; left; left &= left - 1) {
		unsigned l = (unsigned)__builtin_ctz(left);

		values[l] = lane_source(warp, l, warp->pc[l]->a)->u32;
	}
	for (uint32_t left = lanes; left; left &= left - 1) {
		unsigned l = (unsigned)__builtin_ctz(left);
		const struct ptx_insn *in = warp->pc[l];
		int from = shuffle_from((enum shuffle)in->flags & 3, l,
			lane_source(warp, l, in->b)->u32, lane_source(warp, l, in->c)->u32);
		bool is_inside = from >= 0 && from < (int)PTX_LANES;

		if (!is_inside || !(lanes >> from & 1))
			from = (int)l;
		lane_dest(warp, l, in->d)->u64 = values[from];
		lane_dest(warp, l, in->e)->u64 = is_inside;
	}
}

static uint32_t gather_votes(const struct ptx_warp *warp, uint32_t lanes)
{
	uint32_t votes = 0;

	for (uint32_t left = lanes; left; left &= left - 1) {
		unsigned l = (unsigned)__builtin_ctz(left);

		votes |= (uint32_t)(lane_source(warp, l, warp->pc[l]->a)->u8 & 1) << l;
	}
	return votes;
}

static void scatter(const struct ptx_warp *warp, uint32_t lanes, uint64_t value)
{
	for (; lanes; lanes &= lanes - 1) {
		unsigned l = (unsigned)__builtin_ctz(lanes);

		lane_dest(warp, l, warp->pc[l]->d)->u64 = value;
	}
}

enum vote {
	VOTE_ALL,
	VOTE_ANY,
	VOTE_UNI,
	VOTE_BALLOT,
};

static void meet_vote(struct ptx_warp *warp, uint32_t lanes)
{
	uint32_t votes = gather_votes(warp, lanes);

	switch (warp->pc[__builtin_ctz(lanes)]->extra) {
	case VOTE_ALL:
		scatter(warp, lanes, votes == lanes);
		break;
	case VOTE_ANY:
		scatter(warp, lanes, votes != 0);
		break;
	case VOTE_UNI:
		scatter(warp, lanes, votes == lanes || votes == 0);
		break;
	default:
		scatter(warp, lanes, votes);
		break;
	}
}

/* extra: all instead of any. */
static void meet_match(struct ptx_warp *warp, uint32_t lanes)
{
	uint64_t values[PTX_LANES];
	uint32_t equal[PTX_LANES] = {0};

	for (uint32_t left = lanes; left; left &= left - 1) {
		unsigned l = (unsigned)__builtin_ctz(left);

		values[l] = lane_source(warp, l, warp->pc[l]->a)->u64;
		if (warp->pc[l]->flags & 1)
			values[l] = (uint32_t)values[l];
	}
	for (uint32_t left = lanes; left; left &= left - 1) {
		unsigned l = (unsigned)__builtin_ctz(left);

		for (uint32_t rest = lanes; rest; rest &= rest - 1)
			if (values[__builtin_ctz(rest)] == values[l])
				equal[l] |= rest & -rest;
	}
	for (uint32_t left = lanes; left; left &= left - 1) {
		unsigned l = (unsigned)__builtin_ctz(left);
		const struct ptx_insn *in = warp->pc[l];
		bool is_all = equal[l] == lanes;

		lane_dest(warp, l, in->d)->u64 = in->extra && !is_all ? 0 : equal[l];
		lane_dest(warp, l, in->e)->u64 = is_all;
	}
}

enum reduction {
	REDUCE_ADD,
	REDUCE_MIN,
	REDUCE_MAX,
	REDUCE_AND,
	REDUCE_OR,
	REDUCE_XOR,
};

static uint32_t reduce(uint32_t x, uint32_t y, enum reduction op, bool is_signed)
{
	bool less = is_signed ? (int32_t)x < (int32_t)y : x < y;

	switch (op) {
	case REDUCE_ADD:
		return x + y;
	case REDUCE_MIN:
		return less ? x : y;
	case REDUCE_MAX:
		return less ? y : x;
	case REDUCE_AND:
		return x & y;
	case REDUCE_OR:
		return x | y;
	default:
		return x ^ y;
	}
}

static void meet_redux(struct ptx_warp *warp, uint32_t lanes)
{
	unsigned first = (unsigned)__builtin_ctz(lanes);
	const struct ptx_insn *in = warp->pc[first];
	uint32_t value = lane_source(warp, first, in->a)->u32;

	for (uint32_t left = lanes & (lanes - 1); left; left &= left - 1) {
		unsigned l = (unsigned)__builtin_ctz(left);

		value = reduce(value, lane_source(warp, l, warp->pc[l]->a)->u32,
			(enum reduction)in->extra, in->flags & 1);
	}
	scatter(warp, lanes, value);
}

static void meet_elect(struct ptx_warp *warp, uint32_t lanes)
{
	unsigned leader = (unsigned)__builtin_ctz(lanes);

	for (uint32_t left = lanes; left; left &= left - 1) {
		unsigned l = (unsigned)__builtin_ctz(left);

		lane_dest(warp, l, warp->pc[l]->d)->u64 = leader;
		lane_dest(warp, l, warp->pc[l]->e)->u64 = l == leader;
	}
}

/* The lanes of a warp run on one thread, so their meeting is enough. */
static void meet_sync(_unused_ struct ptx_warp *warp, _unused_ uint32_t lanes)
{
}

/* `mask': the operand with the member mask; -1: the lanes that run now. */
static struct ptx_insn *emit_meet(struct ptx_tr *tr, ptx_meet_fn *meet, int mask)
{
	int32_t row = mask < 0 ? INT32_MAX
			       : ptx_tr_source(tr, ptx_tr_operand(tr, (uint32_t)mask), PTX_B32);
	struct ptx_insn *in = ptx_tr_emit(tr, exec_meet);

	in->meet = meet;
	in->m = row;
	in->flags = PTX_INSN_PARTS;
	return in;
}

/* A destination, or a pair of destinations: the value and the predicate. */
static void dest_pair(
	struct ptx_tr *tr, const struct ptx_operand *out, int32_t *ret_dest, int32_t *ret_pred)
{
	bool is_pair = out->kind == PTX_OPERAND_PAIR;

	*ret_dest = ptx_tr_dest(tr, is_pair ? &out->items[0] : out, PTX_B32);
	*ret_pred = is_pair ? ptx_tr_dest(tr, &out->items[1], PTX_PRED) : ptx_tr_temp(tr);
}

static void translate_shfl(struct ptx_tr *tr)
{
	static const char *const modes[] = {"up", "down", "bfly", "idx", NULL};
	bool is_sync = ptx_tr_take(tr, "sync");
	int mode = ptx_tr_take_one(tr, modes);
	int32_t a, b, c, dest, pred;
	struct ptx_insn *in;

	if (mode < 0 || !ptx_tr_take(tr, "b32"))
		ptx_tr_refuse(tr);
	if (!ptx_tr_count(tr, is_sync ? 5 : 4))
		return;
	a = ptx_tr_source(tr, ptx_tr_operand(tr, 1), PTX_B32);
	b = ptx_tr_source(tr, ptx_tr_operand(tr, 2), PTX_B32);
	c = ptx_tr_source(tr, ptx_tr_operand(tr, 3), PTX_B32);
	dest_pair(tr, ptx_tr_operand(tr, 0), &dest, &pred);
	in = emit_meet(tr, meet_shfl, is_sync ? 4 : -1);
	in->a = a;
	in->b = b;
	in->c = c;
	in->d = dest;
	in->e = pred;
	in->flags |= (uint32_t)mode & 3;
}

static void translate_vote(struct ptx_tr *tr)
{
	static const char *const modes[] = {"all", "any", "uni", "ballot", NULL};
	bool is_sync = ptx_tr_take(tr, "sync");
	int mode = ptx_tr_take_one(tr, modes);
	bool is_ballot = mode == VOTE_BALLOT;
	int32_t source, dest;
	struct ptx_insn *in;

	if (mode < 0 || !ptx_tr_take(tr, is_ballot ? "b32" : "pred"))
		ptx_tr_refuse(tr);
	if (!ptx_tr_count(tr, is_sync ? 3 : 2))
		return;
	source = ptx_tr_source(tr, ptx_tr_operand(tr, 1), PTX_PRED);
	dest = ptx_tr_dest(tr, ptx_tr_operand(tr, 0), is_ballot ? PTX_B32 : PTX_PRED);
	in = emit_meet(tr, meet_vote, is_sync ? 2 : -1);
	in->a = source;
	in->d = dest;
	in->extra = (uint32_t)mode;
}

static void translate_match(struct ptx_tr *tr)
{
	bool is_all = ptx_tr_take(tr, "all");
	bool is_any = ptx_tr_take(tr, "any");
	enum ptx_type type = ptx_tr_take_type(tr);
	int32_t source, dest, pred;
	struct ptx_insn *in;

	if (is_all == is_any || !ptx_tr_take(tr, "sync") || (type != PTX_B32 && type != PTX_B64))
		ptx_tr_refuse(tr);
	if (!ptx_tr_count(tr, 3))
		return;
	source = ptx_tr_source(tr, ptx_tr_operand(tr, 1), type);
	dest_pair(tr, ptx_tr_operand(tr, 0), &dest, &pred);
	in = emit_meet(tr, meet_match, 2);
	in->a = source;
	in->d = dest;
	in->e = pred;
	in->extra = is_all;
	in->flags |= type == PTX_B32;
}

static void translate_redux(struct ptx_tr *tr)
{
	static const char *const ops[] = {"add", "min", "max", "and", "or", "xor", NULL};
	int op = ptx_tr_take_one(tr, ops);
	enum ptx_type type = ptx_tr_take_type(tr);
	bool is_bits = op >= REDUCE_AND;
	int32_t source, dest;
	struct ptx_insn *in;

	if (op < 0 || !ptx_tr_take(tr, "sync") ||
		(is_bits ? type != PTX_B32 : type != PTX_U32 && type != PTX_S32))
		ptx_tr_refuse(tr);
	if (!ptx_tr_count(tr, 3))
		return;
	source = ptx_tr_source(tr, ptx_tr_operand(tr, 1), PTX_B32);
	dest = ptx_tr_dest(tr, ptx_tr_operand(tr, 0), PTX_B32);
	in = emit_meet(tr, meet_redux, 2);
	in->a = source;
	in->d = dest;
	in->extra = (uint32_t)op;
	in->flags |= type == PTX_S32;
}

static void translate_elect(struct ptx_tr *tr)
{
	int32_t dest, pred;
	struct ptx_insn *in;

	if (!ptx_tr_take(tr, "sync"))
		ptx_tr_refuse(tr);
	if (!ptx_tr_count(tr, 2))
		return;
	dest_pair(tr, ptx_tr_operand(tr, 0), &dest, &pred);
	in = emit_meet(tr, meet_elect, 1);
	in->d = dest;
	in->e = pred;
}

PTX_EXEC(exec_activemask)
{
	uint32_t mask = warp->mask;
	PTX_DEST(d);

	PTX_LANES_DO(warp, d[l].u64 = mask;);
	return in + 1;
}

static void translate_activemask(struct ptx_tr *tr)
{
	int32_t dest;

	if (!ptx_tr_take(tr, "b32"))
		ptx_tr_refuse(tr);
	if (!ptx_tr_count(tr, 1))
		return;
	dest = ptx_tr_dest(tr, ptx_tr_operand(tr, 0), PTX_B32);
	ptx_tr_emit(tr, exec_activemask)->d = dest;
}

void ptx_translate_warp_barrier(struct ptx_tr *tr)
{
	if (ptx_tr_count(tr, 1))
		emit_meet(tr, meet_sync, 0);
}

static const struct ptx_family families[] = {
	{"shfl", translate_shfl},
	{"vote", translate_vote},
	{"match", translate_match},
	{"redux", translate_redux},
	{"elect", translate_elect},
	{"activemask", translate_activemask},
};

const struct ptx_family_table ptx_meet_families = {families, ARRAY_SIZE(families)};
