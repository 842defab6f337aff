/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Special registers. Runs on the thread that runs the kernel.
 */

#include <string.h>
#include <time.h>

#include "base.h"
#include "translate.h"
#include "warp.h"

PTX_EXEC(exec_tid)
{
	const uint32_t *tid = warp->tid[in->imm];
	PTX_DEST(d);

	PTX_LANES_DO(warp, d[l].u64 = tid[l];);
	return in + 1;
}

PTX_EXEC(exec_laneid)
{
	PTX_DEST(d);

	PTX_LANES_DO(warp, d[l].u64 = l;);
	return in + 1;
}

enum lanemask {
	LANEMASK_EQ,
	LANEMASK_LT,
	LANEMASK_LE,
	LANEMASK_GT,
	LANEMASK_GE,
};

static uint32_t lanemask(unsigned lane, enum lanemask kind)
{
	uint32_t bit = 1u << lane;

	switch (kind) {
	case LANEMASK_EQ:
		return bit;
	case LANEMASK_LT:
		return bit - 1;
	case LANEMASK_LE:
		return bit | (bit - 1);
	case LANEMASK_GT:
		return ~(bit | (bit - 1));
	default:
		return ~(bit - 1);
	}
}

PTX_EXEC(exec_lanemask)
{
	PTX_DEST(d);

	PTX_LANES_DO(warp, d[l].u64 = lanemask(l, (enum lanemask)in->imm););
	return in + 1;
}

/* The registers that are the same for all lanes of a warp. */
enum uniform {
	UNIFORM_CTAID_X,
	UNIFORM_CTAID_Y,
	UNIFORM_CTAID_Z,
	UNIFORM_NTID_X,
	UNIFORM_NTID_Y,
	UNIFORM_NTID_Z,
	UNIFORM_NCTAID_X,
	UNIFORM_NCTAID_Y,
	UNIFORM_NCTAID_Z,
	UNIFORM_CLUSTERID_X,
	UNIFORM_CLUSTERID_Y,
	UNIFORM_CLUSTERID_Z,
	UNIFORM_NCLUSTERID_X,
	UNIFORM_NCLUSTERID_Y,
	UNIFORM_NCLUSTERID_Z,
	UNIFORM_CLUSTER_CTAID_X,
	UNIFORM_CLUSTER_CTAID_Y,
	UNIFORM_CLUSTER_CTAID_Z,
	UNIFORM_CLUSTER_NCTAID_X,
	UNIFORM_CLUSTER_NCTAID_Y,
	UNIFORM_CLUSTER_NCTAID_Z,
	UNIFORM_CLUSTER_RANK,
	UNIFORM_CLUSTER_RANKS,
	UNIFORM_HAS_CLUSTERS,
	UNIFORM_WARPID,
	UNIFORM_NWARPID,
	UNIFORM_SMID,
	UNIFORM_NSMID,
	UNIFORM_CLOCK,
	UNIFORM_CLOCK_HI,
	UNIFORM_CLOCK64,
	UNIFORM_TIMER,
	UNIFORM_TIMER_LO,
	UNIFORM_TIMER_HI,
	UNIFORM_SHARED_TOTAL,
	UNIFORM_SHARED_DYNAMIC,
	UNIFORM_RESERVED_BEGIN,
	UNIFORM_RESERVED_HALF,
	UNIFORM_RESERVED_END,
	UNIFORM_WORKSPACE_LOW,
	UNIFORM_WORKSPACE_HIGH,
	UNIFORM_ONE,
	UNIFORM_LANES,
};

static uint64_t read_clock(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t read_time(enum uniform kind)
{
	uint64_t now = read_clock();

	switch (kind) {
	case UNIFORM_CLOCK_HI:
	case UNIFORM_TIMER_HI:
		return now >> 32;
	case UNIFORM_CLOCK:
	case UNIFORM_TIMER_LO:
		return (uint32_t)now;
	default:
		return now;
	}
}

static uint64_t read_sm(const struct ptx_launch *launch, uint64_t block)
{
	uint64_t i = block % MAX(launch->n_sms, 1u);

	return launch->sms ? launch->sms[i] : i;
}

static uint64_t read_cluster(const struct ptx_warp *warp, enum uniform kind)
{
	const struct ptx_block *block = warp->block;
	const struct ptx_run *run = warp->run;
	unsigned i = (unsigned)(kind - UNIFORM_CLUSTERID_X) % 3;

	switch (kind) {
	case UNIFORM_CLUSTER_RANK:
		return block->rank;
	case UNIFORM_CLUSTER_RANKS:
		return run->n_cluster_blocks;
	case UNIFORM_HAS_CLUSTERS:
		return run->has_clusters;
	default:
		break;
	}
	if (kind <= UNIFORM_CLUSTERID_Z)
		return block->ctaid[i] / run->cluster[i];
	if (kind <= UNIFORM_NCLUSTERID_Z)
		return run->launch->grid[i] / run->cluster[i];
	return kind <= UNIFORM_CLUSTER_CTAID_Z ? block->cluster_ctaid[i] : run->cluster[i];
}

static uint64_t read_uniform(const struct ptx_warp *warp, enum uniform kind)
{
	const struct ptx_run *run = warp->run;

	if (kind >= UNIFORM_CLUSTERID_X && kind <= UNIFORM_HAS_CLUSTERS)
		return read_cluster(warp, kind);
	switch (kind) {
	case UNIFORM_CTAID_X:
	case UNIFORM_CTAID_Y:
	case UNIFORM_CTAID_Z:
		return warp->block->ctaid[kind - UNIFORM_CTAID_X];
	case UNIFORM_NTID_X:
	case UNIFORM_NTID_Y:
	case UNIFORM_NTID_Z:
		return run->launch->block[kind - UNIFORM_NTID_X];
	case UNIFORM_NCTAID_X:
	case UNIFORM_NCTAID_Y:
	case UNIFORM_NCTAID_Z:
		return run->launch->grid[kind - UNIFORM_NCTAID_X];
	case UNIFORM_WARPID:
		return warp->index;
	case UNIFORM_NWARPID:
		return 64;
	case UNIFORM_SMID:
		return read_sm(run->launch, warp->block->index);
	case UNIFORM_NSMID:
		return MAX(
			run->launch->n_sms_all ? run->launch->n_sms_all : run->launch->n_sms, 1u);
	case UNIFORM_SHARED_TOTAL:
		return run->shared_size;
	case UNIFORM_SHARED_DYNAMIC:
		return run->launch->shared_dynamic;
	case UNIFORM_RESERVED_BEGIN:
		return run->shared_reserved;
	case UNIFORM_RESERVED_HALF:
		return run->shared_reserved + PTX_SHARED_RESERVED / 2;
	case UNIFORM_RESERVED_END:
		return run->shared_reserved + PTX_SHARED_RESERVED;
	case UNIFORM_WORKSPACE_LOW:
		return (uint32_t)PTX_WINDOW_RUN;
	case UNIFORM_WORKSPACE_HIGH:
		return (uint32_t)(PTX_WINDOW_RUN >> 32);
	case UNIFORM_ONE:
		return 1;
	case UNIFORM_LANES:
		return PTX_LANES;
	default:
		return read_time(kind);
	}
}

PTX_EXEC(exec_uniform)
{
	uint64_t value = read_uniform(warp, (enum uniform)in->imm);
	PTX_DEST(d);

	PTX_LANES_DO(warp, d[l].u64 = value;);
	return in + 1;
}

static const struct {
	const char *name;
	ptx_exec_fn *exec;
	int imm;
} specials[] = {
	{"%tid.x", exec_tid, 0},
	{"%tid.y", exec_tid, 1},
	{"%tid.z", exec_tid, 2},
	{"%tid", exec_tid, 0},
	{"%laneid", exec_laneid, 0},
	{"%lanemask_eq", exec_lanemask, LANEMASK_EQ},
	{"%lanemask_lt", exec_lanemask, LANEMASK_LT},
	{"%lanemask_le", exec_lanemask, LANEMASK_LE},
	{"%lanemask_gt", exec_lanemask, LANEMASK_GT},
	{"%lanemask_ge", exec_lanemask, LANEMASK_GE},
	{"%ctaid.x", exec_uniform, UNIFORM_CTAID_X},
	{"%ctaid.y", exec_uniform, UNIFORM_CTAID_Y},
	{"%ctaid.z", exec_uniform, UNIFORM_CTAID_Z},
	{"%ntid.x", exec_uniform, UNIFORM_NTID_X},
	{"%ntid.y", exec_uniform, UNIFORM_NTID_Y},
	{"%ntid.z", exec_uniform, UNIFORM_NTID_Z},
	{"%nctaid.x", exec_uniform, UNIFORM_NCTAID_X},
	{"%nctaid.y", exec_uniform, UNIFORM_NCTAID_Y},
	{"%nctaid.z", exec_uniform, UNIFORM_NCTAID_Z},
	{"%warpid", exec_uniform, UNIFORM_WARPID},
	{"%nwarpid", exec_uniform, UNIFORM_NWARPID},
	{"%smid", exec_uniform, UNIFORM_SMID},
	{"%nsmid", exec_uniform, UNIFORM_NSMID},
	{"%gridid", exec_uniform, UNIFORM_ONE},
	{"%clock", exec_uniform, UNIFORM_CLOCK},
	{"%clock_hi", exec_uniform, UNIFORM_CLOCK_HI},
	{"%clock64", exec_uniform, UNIFORM_CLOCK64},
	{"%globaltimer", exec_uniform, UNIFORM_TIMER},
	{"%globaltimer_lo", exec_uniform, UNIFORM_TIMER_LO},
	{"%globaltimer_hi", exec_uniform, UNIFORM_TIMER_HI},
	{"%total_smem_size", exec_uniform, UNIFORM_SHARED_TOTAL},
	{"%aggr_smem_size", exec_uniform, UNIFORM_SHARED_TOTAL},
	{"%dynamic_smem_size", exec_uniform, UNIFORM_SHARED_DYNAMIC},
	{"%reserved_smem_offset_begin", exec_uniform, UNIFORM_RESERVED_BEGIN},
	{"%reserved_smem_offset_0", exec_uniform, UNIFORM_RESERVED_BEGIN},
	{"%reserved_smem_offset_1", exec_uniform, UNIFORM_RESERVED_HALF},
	{"%reserved_smem_offset_end", exec_uniform, UNIFORM_RESERVED_END},
	{"%reserved_smem_offset_cap", exec_uniform, UNIFORM_RESERVED_END},
	{"%envreg1", exec_uniform, UNIFORM_WORKSPACE_HIGH},
	{"%envreg2", exec_uniform, UNIFORM_WORKSPACE_LOW},
	{"%is_explicit_cluster", exec_uniform, UNIFORM_HAS_CLUSTERS},
	{"%clusterid.x", exec_uniform, UNIFORM_CLUSTERID_X},
	{"%clusterid.y", exec_uniform, UNIFORM_CLUSTERID_Y},
	{"%clusterid.z", exec_uniform, UNIFORM_CLUSTERID_Z},
	{"%nclusterid.x", exec_uniform, UNIFORM_NCLUSTERID_X},
	{"%nclusterid.y", exec_uniform, UNIFORM_NCLUSTERID_Y},
	{"%nclusterid.z", exec_uniform, UNIFORM_NCLUSTERID_Z},
	{"%cluster_ctaid.x", exec_uniform, UNIFORM_CLUSTER_CTAID_X},
	{"%cluster_ctaid.y", exec_uniform, UNIFORM_CLUSTER_CTAID_Y},
	{"%cluster_ctaid.z", exec_uniform, UNIFORM_CLUSTER_CTAID_Z},
	{"%cluster_nctaid.x", exec_uniform, UNIFORM_CLUSTER_NCTAID_X},
	{"%cluster_nctaid.y", exec_uniform, UNIFORM_CLUSTER_NCTAID_Y},
	{"%cluster_nctaid.z", exec_uniform, UNIFORM_CLUSTER_NCTAID_Z},
	{"%cluster_ctarank", exec_uniform, UNIFORM_CLUSTER_RANK},
	{"%cluster_nctarank", exec_uniform, UNIFORM_CLUSTER_RANKS},
	{"WARP_SZ", exec_uniform, UNIFORM_LANES},
};

bool ptx_tr_special(struct ptx_tr *tr, const char *name, int32_t row)
{
	for (unsigned i = 0; i < ARRAY_SIZE(specials); i++) {
		struct ptx_insn *in;

		if (strcmp(specials[i].name, name) != 0)
			continue;
		tr->module->uses_reserved |= !strncmp(name, "%reserved", 9);
		in = ptx_tr_emit(tr, specials[i].exec);
		in->d = row;
		in->imm = specials[i].imm;
		return true;
	}
	return false;
}
