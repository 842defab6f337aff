/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Clusters: their barrier, and shared memory of other blocks. Runs on the
 * thread that runs the kernel. An address of another block's shared memory
 * names the block by its rank; a plain one is of the block itself.
 */

#include "base.h"
#include "tests/softgpu/ptx/memory.h"
#include "tests/softgpu/ptx/translate.h"
#include "tests/softgpu/ptx/warp.h"

#define RANK_MASK 0xffu
#define OFFSET_MASK ((1u << PTX_RANK_SHIFT) - 1)

void *ptx_cluster_at(struct ptx_warp *warp, uint32_t at, uint32_t size, bool is_write)
{
	uint32_t rank = (at >> PTX_RANK_SHIFT) - 1, offset = at & OFFSET_MASK;

	if (at >> PTX_RANK_SHIFT && rank < warp->run->n_cluster_blocks &&
		range_ok(offset, size, warp->run->shared_size))
		return warp->block->cluster->blocks[rank].shared + offset;
	ptx_run_fault(warp->run, PTX_FAULT_ADDRESS, PTX_WINDOW_SHARED + at, is_write);
	return NULL;
}

/* Whether every thread of every block has arrived, or exited. */
static bool is_complete(const struct ptx_cluster *cluster)
{
	const struct ptx_run *run = cluster->blocks[0].run;

	for (uint32_t i = 0; i < run->n_cluster_blocks; i++) {
		for (uint32_t w = 0; w < run->n_warps; w++) {
			const struct ptx_warp *warp = &cluster->blocks[i].warps[w];

			if (warp->live & ~warp->cluster_arrived)
				return false;
		}
	}
	return true;
}

static void warp_release(struct ptx_warp *warp)
{
	uint32_t lanes = warp->cluster_waiting;

	warp->ready |= lanes;
	warp->cluster_waiting = 0;
	warp->cluster_arrived = 0;
	for (; lanes; lanes &= lanes - 1)
		warp->pc[__builtin_ctz(lanes)]++;
}

void ptx_cluster_release(struct ptx_cluster *cluster)
{
	const struct ptx_run *run = cluster->blocks[0].run;

	if (!is_complete(cluster))
		return;
	cluster->is_awaited = false;
	for (uint32_t i = 0; i < run->n_cluster_blocks; i++)
		for (uint32_t w = 0; w < run->n_warps; w++)
			warp_release(&cluster->blocks[i].warps[w]);
}

PTX_EXEC(exec_arrive)
{
	warp->cluster_arrived |= warp->mask;
	return in + 1;
}

/* A lane that arrived in an earlier phase continues at once. */
PTX_EXEC(exec_wait)
{
	uint32_t lanes = warp->mask & warp->cluster_arrived;

	if (!lanes)
		return in + 1;
	ptx_warp_set_pc(warp, warp->mask, in + 1);
	ptx_warp_set_pc(warp, lanes, in);
	warp->cluster_waiting |= lanes;
	warp->ready &= ~lanes;
	warp->block->cluster->is_awaited = true;
	return NULL;
}

void ptx_translate_cluster_barrier(struct ptx_tr *tr)
{
	bool waits = ptx_tr_take(tr, "wait");

	if (!waits && !ptx_tr_take(tr, "arrive"))
		ptx_tr_refuse(tr);
	ptx_tr_take_hints(tr);
	ptx_tr_take(tr, "aligned");
	if (ptx_tr_count(tr, 0))
		ptx_tr_emit(tr, waits ? exec_wait : exec_arrive)->flags = PTX_INSN_PARTS;
}

/* The same address in the shared memory of the block of rank b. imm: the window, or 0. */
PTX_EXEC(exec_mapa)
{
	PTX_SOURCE(a);
	PTX_SOURCE(b);
	PTX_DEST(d);

	PTX_LANES_DO(warp, uint32_t rank = (b[l].u32 + 1) << PTX_RANK_SHIFT;
		     d[l].u64 = (uint64_t)in->imm + (rank | (a[l].u32 & OFFSET_MASK)););
	return in + 1;
}

PTX_EXEC(exec_getctarank)
{
	uint32_t own = warp->block->rank;
	PTX_SOURCE(a);
	PTX_DEST(d);

	PTX_LANES_DO(warp, uint32_t rank = a[l].u32 >> PTX_RANK_SHIFT & RANK_MASK;
		     d[l].u64 = rank ? rank - 1 : own;);
	return in + 1;
}

/* mapa{.shared::cluster}.type d, a, rank: without the space of generic addresses. */
static void translate_mapa(struct ptx_tr *tr)
{
	bool is_shared = ptx_tr_take(tr, "shared::cluster");
	enum ptx_type type = ptx_tr_take_type(tr);
	int32_t rows[3];
	struct ptx_insn *in;

	if (type != PTX_U64 && (type != PTX_U32 || !is_shared))
		ptx_tr_refuse(tr);
	if (!ptx_tr_count(tr, 3))
		return;
	rows[1] = ptx_tr_source(tr, ptx_tr_operand(tr, 1), type);
	rows[2] = ptx_tr_source(tr, ptx_tr_operand(tr, 2), PTX_U32);
	rows[0] = ptx_tr_dest(tr, ptx_tr_operand(tr, 0), type);
	in = ptx_tr_emit(tr, exec_mapa);
	in->d = rows[0];
	in->a = rows[1];
	in->b = rows[2];
	in->imm = is_shared ? 0 : (int64_t)PTX_WINDOW_SHARED;
}

static void translate_getctarank(struct ptx_tr *tr)
{
	enum ptx_type type;
	int32_t source, dest;
	struct ptx_insn *in;

	ptx_tr_take(tr, "shared::cluster");
	type = ptx_tr_take_type(tr);
	if (type != PTX_U64 && type != PTX_U32)
		ptx_tr_refuse(tr);
	if (!ptx_tr_count(tr, 2))
		return;
	source = ptx_tr_source(tr, ptx_tr_operand(tr, 1), type);
	dest = ptx_tr_dest(tr, ptx_tr_operand(tr, 0), PTX_U32);
	in = ptx_tr_emit(tr, exec_getctarank);
	in->d = dest;
	in->a = source;
}

static const struct ptx_family families[] = {
	{"mapa", translate_mapa},
	{"getctarank", translate_getctarank},
};

const struct ptx_family_table ptx_cluster_families = {families, ARRAY_SIZE(families)};
