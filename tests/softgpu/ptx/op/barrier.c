/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Barriers of a block. Runs on the thread that runs the kernel. A waiting lane stays
 * at its instruction; the release writes the lane's result, if any, and advances the
 * lane.
 */

#include "base.h"
#include "tests/softgpu/ptx/translate.h"
#include "tests/softgpu/ptx/warp.h"

enum barrier_kind {
	BARRIER_SYNC,
	BARRIER_ARRIVE,
	BARRIER_POPC,
	BARRIER_AND,
	BARRIER_OR,
};

/* a: the barrier; b: the number of threads, or constant 0; c: the vote; extra: the kind. */
PTX_EXEC(exec_barrier)
{
	bool waits = in->extra != BARRIER_ARRIVE;
	bool votes = in->extra >= BARRIER_POPC;
	PTX_SOURCE(a);
	PTX_SOURCE(b);
	PTX_SOURCE(c);

	for (uint32_t left = warp->mask; left; left &= left - 1) {
		unsigned l = (unsigned)__builtin_ctz(left);
		struct ptx_barrier *barrier;

		if (a[l].u32 >= PTX_BARRIERS)
			return ptx_run_fault(warp->run, PTX_FAULT_TRAP, 0, false);
		barrier = &warp->block->barriers[a[l].u32];
		barrier->expected = b[l].u32;
		if (votes) {
			barrier->n_votes += c[l].u8 & 1;
			barrier->n_votes_cast++;
		}
		warp->arrived[a[l].u32] |= 1u << l;
		warp->barrier_ids[l] = a[l].u8;
		warp->block->waited_for |= (uint32_t)waits << a[l].u32;
	}
	ptx_warp_set_pc(warp, warp->mask, waits ? in : in + 1);
	if (waits) {
		warp->stopped |= warp->mask;
		warp->ready &= ~warp->mask;
	}
	return NULL;
}

static bool is_complete(const struct ptx_block *block, unsigned id)
{
	uint32_t expected = block->barriers[id].expected;
	bool is_reached = false;
	uint64_t n = 0;

	for (uint32_t w = 0; w < block->run->n_warps; w++) {
		const struct ptx_warp *warp = &block->warps[w];
		uint32_t arrived = warp->arrived[id];

		is_reached |= arrived != 0;
		/* A whole warp counts, with lanes that have exited or never existed. */
		if (arrived)
			n += (uint64_t)__builtin_popcount(arrived | ~warp->live);
		if (!expected && warp->live & ~arrived)
			return false;
	}
	return is_reached && n >= expected;
}

static uint64_t barrier_result(const struct ptx_barrier *barrier, uint32_t kind)
{
	switch (kind) {
	case BARRIER_POPC:
		return barrier->n_votes;
	case BARRIER_AND:
		return barrier->n_votes == barrier->n_votes_cast;
	default:
		return barrier->n_votes != 0;
	}
}

static void release_lane(struct ptx_warp *warp, unsigned l, const struct ptx_barrier *barrier)
{
	const struct ptx_insn *in = warp->pc[l];

	if (in->extra >= BARRIER_POPC)
		ptx_warp_frame(warp, l)[in->d].v[l].u64 = barrier_result(barrier, in->extra);
	warp->pc[l] = in + 1;
	warp->stopped &= ~(1u << l);
	warp->ready |= 1u << l;
}

static void release(struct ptx_block *block, unsigned id)
{
	struct ptx_barrier *barrier = &block->barriers[id];

	for (uint32_t w = 0; w < block->run->n_warps; w++) {
		struct ptx_warp *warp = &block->warps[w];

		for (uint32_t left = warp->stopped; left; left &= left - 1) {
			unsigned l = (unsigned)__builtin_ctz(left);

			if (warp->barrier_ids[l] == id)
				release_lane(warp, l, barrier);
		}
		warp->arrived[id] = 0;
	}
	block->waited_for &= ~(1u << id);
	*barrier = (struct ptx_barrier){0};
}

void ptx_block_release(struct ptx_block *block)
{
	for (uint32_t left = block->waited_for; left; left &= left - 1) {
		unsigned id = (unsigned)__builtin_ctz(left);

		if (is_complete(block, id))
			release(block, id);
	}
}

static void emit_barrier(struct ptx_tr *tr, enum barrier_kind kind, uint32_t first)
{
	bool votes = kind >= BARRIER_POPC;
	uint32_t n = tr->stmt->n_operands - first;
	bool has_count = n == (votes ? 3u : 2u);
	enum ptx_type type = kind == BARRIER_POPC ? PTX_U32 : PTX_PRED;
	int32_t id, count, vote, dest = 0;
	struct ptx_insn *in;

	id = ptx_tr_source(tr, ptx_tr_operand(tr, first), PTX_U32);
	count = has_count ? ptx_tr_source(tr, ptx_tr_operand(tr, first + 1), PTX_U32)
			  : ptx_tr_constant(tr, 0);
	vote = votes ? ptx_tr_source(tr, ptx_tr_operand(tr, tr->stmt->n_operands - 1), PTX_PRED)
		     : ptx_tr_constant(tr, 0);
	if (votes)
		dest = ptx_tr_dest(tr, ptx_tr_operand(tr, 0), type);
	in = ptx_tr_emit(tr, exec_barrier);
	in->a = id;
	in->b = count;
	in->c = vote;
	in->d = dest;
	in->extra = kind;
	in->flags = PTX_INSN_PARTS;
}

static void translate_reduction(struct ptx_tr *tr)
{
	static const char *const names[] = {"popc", "and", "or", NULL};
	int op = ptx_tr_take_one(tr, names);

	if (op < 0 || !ptx_tr_take(tr, op == 0 ? "u32" : "pred")) {
		ptx_tr_refuse(tr);
		return;
	}
	if (tr->stmt->n_operands != 4)
		ptx_tr_count(tr, 3);
	emit_barrier(tr, (enum barrier_kind)(BARRIER_POPC + op), 1);
}

static void translate_barrier(struct ptx_tr *tr)
{
	bool is_cta = ptx_tr_take(tr, "cta");

	if (!is_cta && ptx_tr_take(tr, "cluster")) {
		ptx_translate_cluster_barrier(tr);
		return;
	}
	if (!is_cta && ptx_tr_take(tr, "warp")) {
		if (!ptx_tr_take(tr, "sync"))
			ptx_tr_refuse(tr);
		ptx_translate_warp_barrier(tr);
		return;
	}
	ptx_tr_take(tr, "aligned");
	if (ptx_tr_take(tr, "red")) {
		translate_reduction(tr);
	} else if (ptx_tr_take(tr, "arrive")) {
		if (ptx_tr_count(tr, 2))
			emit_barrier(tr, BARRIER_ARRIVE, 0);
	} else if (ptx_tr_take(tr, "sync")) {
		if (tr->stmt->n_operands == 2 || ptx_tr_count(tr, 1))
			emit_barrier(tr, BARRIER_SYNC, 0);
	} else {
		ptx_tr_refuse(tr);
	}
}

static const struct ptx_family families[] = {
	{"bar", translate_barrier},
	{"barrier", translate_barrier},
};

const struct ptx_family_table ptx_barrier_families = {families, ARRAY_SIZE(families)};
