/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Blocks and their clusters. Runs on the thread that runs the kernel. The memory
 * of a block is allocated once and serves every later block.
 */

#include "block.h"

#include <string.h>

static void block_fini(struct ptx_block *block)
{
	for (uint32_t w = 0; block->warps && w < block->run->n_warps; w++) {
		free(block->warps[w].rows);
		free(block->warps[w].local);
	}
	free(block->warps);
	free(block->shared);
}

void ptx_cluster_free(struct ptx_cluster *cluster)
{
	uint32_t n;

	if (!cluster)
		return;
	n = cluster->blocks[0].run->n_cluster_blocks;
	for (uint32_t i = 0; i < n; i++)
		block_fini(&cluster->blocks[i]);
	free(cluster);
}

static void cluster_freep(struct ptx_cluster **cluster)
{
	ptx_cluster_free(*cluster);
}

/* The state of a warp that is the same in every block. */
static int warp_init(struct ptx_warp *warp, struct ptx_block *block, uint32_t index)
{
	struct ptx_run *run = block->run;
	const uint32_t *dims = run->launch->block;
	const struct ptx_code *code = run->kernel->code;

	warp->run = run;
	warp->block = block;
	warp->index = index;
	warp->constants = run->kernel->module->constants;
	for (uint32_t l = 0; l < PTX_LANES; l++) {
		uint32_t thread = index * PTX_LANES + l;

		warp->tid[0][l] = thread % dims[0];
		warp->tid[1][l] = thread / dims[0] % dims[1];
		warp->tid[2][l] = thread / dims[0] / dims[1];
	}
	return ptx_warp_reserve(warp, code->n_rows, code->local_size) ? 0 : -ENOMEM;
}

static int block_init(struct ptx_block *block)
{
	const struct ptx_run *run = block->run;
	size_t shared_size = ALIGN_UP(MAX(run->shared_size, 1u), PTX_SHARED_ALIGN);

	block->warps = calloc(run->n_warps, sizeof(*block->warps));
	block->shared = aligned_alloc(PTX_SHARED_ALIGN, shared_size);
	if (!block->warps || !block->shared)
		return -ENOMEM;
	memset(block->shared, 0, shared_size);
	for (uint32_t w = 0; w < run->n_warps; w++) {
		int r = warp_init(&block->warps[w], block, w);

		if (r < 0)
			return r;
	}
	return 0;
}

int ptx_cluster_new(struct ptx_run *run, struct ptx_cluster **ret_cluster)
{
	uint32_t n = run->n_cluster_blocks;
	_cleanup_(cluster_freep) struct ptx_cluster *cluster =
		calloc(1, sizeof(*cluster) + n * sizeof(cluster->blocks[0]));

	if (!cluster)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++) {
		cluster->blocks[i].run = run;
		cluster->blocks[i].cluster = cluster;
		cluster->blocks[i].rank = i;
	}
	for (uint32_t i = 0; i < n; i++) {
		int r = block_init(&cluster->blocks[i]);

		if (r < 0)
			return r;
	}
	*ret_cluster = TAKE_PTR(cluster);
	return 0;
}

static void warp_begin(struct ptx_warp *warp)
{
	const struct ptx_run *run = warp->run;
	uint32_t left = run->n_threads - warp->index * PTX_LANES;

	warp->live = left >= PTX_LANES ? PTX_ALL_LANES : (1u << left) - 1;
	warp->ready = warp->live;
	warp->meeting = 0;
	warp->stopped = 0;
	warp->carry = 0;
	warp->cluster_arrived = 0;
	warp->cluster_waiting = 0;
	memset(warp->arrived, 0, sizeof(warp->arrived));
	memset(warp->frames, 0, sizeof(warp->frames));
	memset(warp->local_bases, 0, sizeof(warp->local_bases));
	ptx_warp_set_pc(warp, PTX_ALL_LANES, run->kernel->code->insns);
}

/* Sets the block's position in the grid, from its cluster and its position there. */
static void block_place(struct ptx_block *block, uint64_t cluster_index)
{
	const struct ptx_run *run = block->run;
	const uint32_t *grid = run->launch->grid;
	uint32_t rank = block->rank;

	for (unsigned i = 0; i < 3; i++) {
		uint32_t n = grid[i] / run->cluster[i];

		block->cluster_ctaid[i] = rank % run->cluster[i];
		block->ctaid[i] =
			(uint32_t)(cluster_index % n) * run->cluster[i] + block->cluster_ctaid[i];
		rank /= run->cluster[i];
		cluster_index /= n;
	}
	block->index =
		block->ctaid[0] + grid[0] * (block->ctaid[1] + (uint64_t)grid[1] * block->ctaid[2]);
}

static void block_begin(struct ptx_block *block, uint64_t cluster_index)
{
	block_place(block, cluster_index);
	memset(block->barriers, 0, sizeof(block->barriers));
	block->waited_for = 0;
	if (block->run->kernel->module->uses_reserved)
		memset(block->shared + block->run->shared_reserved, 0, PTX_SHARED_RESERVED);
	for (uint32_t w = 0; w < block->run->n_warps; w++)
		warp_begin(&block->warps[w]);
}

void ptx_cluster_begin(struct ptx_cluster *cluster, uint64_t index)
{
	cluster->is_awaited = false;
	for (uint32_t i = 0; i < cluster->blocks[0].run->n_cluster_blocks; i++)
		block_begin(&cluster->blocks[i], index);
}

/* Whether any of its threads is alive; *ret_has_run is set if one has run. */
static bool block_round(struct ptx_block *block, bool *ret_has_run)
{
	struct ptx_run *run = block->run;
	bool is_live = false;

	for (uint32_t w = 0; w < run->n_warps; w++) {
		struct ptx_warp *warp = &block->warps[w];

		if (warp->ready) {
			*ret_has_run = true;
			ptx_warp_run(warp);
			if (run->fault.kind != PTX_FAULT_NONE)
				return true;
			ptx_block_release(block);
		}
		is_live |= warp->live != 0;
	}
	return is_live;
}

bool ptx_cluster_round(struct ptx_cluster *cluster)
{
	struct ptx_run *run = cluster->blocks[0].run;
	bool is_live = false, has_run = false;

	for (uint32_t i = 0; i < run->n_cluster_blocks; i++) {
		is_live |= block_round(&cluster->blocks[i], &has_run);
		if (run->fault.kind != PTX_FAULT_NONE)
			return false;
		if (cluster->is_awaited)
			ptx_cluster_release(cluster);
	}
	if (is_live && !has_run)
		ptx_run_fault(run, PTX_FAULT_TRAP, 0, false);
	return !is_live;
}
