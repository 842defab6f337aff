/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Running a kernel: its clusters of blocks, one after the other on the calling thread.
 * If the running clusters do not end for a while, they may wait for clusters that
 * have not begun. So more and more clusters become resident, as many as on a device.
 */

#include <sched.h>
#include <string.h>

#include "base.h"
#include "block.h"
#include "warp.h"

#define BLOCK_THREADS_MAX 1024u
#define SHARED_MAX (227u << 10)
#define SM_THREADS 2048u
#define SM_BLOCKS 32u

#define CLUSTER_BLOCKS_MAX 16u

/* Memory of all resident blocks. */
#define RESIDENT_BYTES_MAX (1ull << 30)

/* Rounds in which no cluster ends before more become resident. */
#define PATIENCE 8u

struct schedule {
	struct ptx_cluster *resident;
	struct ptx_cluster *spare; /* at most one cluster that has ended */
	uint64_t n_resident;
	uint64_t n_wanted;
	uint64_t n_max;
	uint64_t n_begun;
	unsigned patience;
};

static void schedule_fini(struct schedule *schedule)
{
	while (schedule->resident) {
		struct ptx_cluster *cluster = schedule->resident;

		schedule->resident = cluster->next;
		ptx_cluster_free(cluster);
	}
	ptx_cluster_free(schedule->spare);
}

/* Starts clusters until enough are resident. */
static int schedule_fill(struct schedule *schedule, struct ptx_run *run)
{
	while (schedule->n_resident < schedule->n_wanted && schedule->n_begun < run->n_clusters) {
		struct ptx_cluster *cluster = TAKE_PTR(schedule->spare);
		int r = cluster ? 0 : ptx_cluster_new(run, &cluster);

		if (r < 0 && schedule->n_resident) {
			/* Continues with the clusters that are resident. */
			run->fault = (struct ptx_fault){0};
			schedule->n_wanted = schedule->n_max = schedule->n_resident;
			return 0;
		}
		if (r < 0)
			return r;
		ptx_cluster_begin(cluster, schedule->n_begun++);
		if (schedule->n_begun == run->n_clusters && run->launch->on_begun)
			run->launch->on_begun(run->launch->begun_user);
		cluster->next = schedule->resident;
		schedule->resident = cluster;
		schedule->n_resident++;
	}
	return 0;
}

/* A turn for each resident cluster; true if one ended. */
static bool schedule_round(struct schedule *schedule, struct ptx_run *run)
{
	struct ptx_cluster **link = &schedule->resident;
	bool has_ended = false;

	/* Mappings may have changed since then. */
	memset(run->ranges, 0, sizeof(run->ranges));
	while (*link && run->fault.kind == PTX_FAULT_NONE) {
		struct ptx_cluster *cluster = *link;

		if (!ptx_cluster_round(cluster)) {
			link = &cluster->next;
			continue;
		}
		has_ended = true;
		*link = cluster->next;
		cluster->next = NULL;
		schedule->n_resident--;
		ptx_cluster_free(schedule->spare);
		schedule->spare = cluster;
	}
	return has_ended;
}

static void schedule_adapt(struct schedule *schedule, bool has_ended)
{
	if (has_ended) {
		schedule->patience = PATIENCE;
		return;
	}
	if (schedule->patience--)
		return;
	schedule->patience = PATIENCE;
	if (schedule->n_wanted < schedule->n_max)
		schedule->n_wanted = MIN(schedule->n_wanted * 2, schedule->n_max);
	else
		sched_yield();
}

/* How many clusters may be resident: as on a device, and as memory allows. */
static uint64_t resident_max(const struct ptx_run *run)
{
	const struct ptx_code *code = run->kernel->code;
	uint64_t of_sm = MIN(SM_BLOCKS, MAX(SM_THREADS / run->n_threads, 1u));
	uint64_t bytes = run->shared_size +
			 (uint64_t)run->n_warps *
				 (sizeof(struct ptx_warp) + code->n_rows * sizeof(struct ptx_row) +
					 (uint64_t)code->local_size * PTX_LANES);

	of_sm = MIN(of_sm * MAX(run->launch->n_sms, 1u), RESIDENT_BYTES_MAX / bytes);
	return MAX(of_sm / run->n_cluster_blocks, 1u);
}

static int run_grid(struct ptx_run *run)
{
	_cleanup_(schedule_fini) struct schedule schedule = {
		.n_wanted = 1, .n_max = resident_max(run), .patience = PATIENCE};
	const atomic_bool *cancelled = run->launch->cancelled;

	while (run->fault.kind == PTX_FAULT_NONE) {
		int r = schedule_fill(&schedule, run);

		if (r < 0)
			return r;
		if (!schedule.n_resident)
			return 0;
		schedule_adapt(&schedule, schedule_round(&schedule, run));
		if (cancelled && atomic_load_explicit(cancelled, memory_order_relaxed))
			ptx_run_fault(run, PTX_FAULT_CANCELLED, 0, false);
	}
	return -EFAULT;
}

static int check_shared(struct ptx_run *run)
{
	const struct ptx_kernel *kernel = run->kernel;
	uint32_t dynamic = run->launch->shared_dynamic;

	run->shared_dynamic = ALIGN_UP(kernel->info.shared_static, kernel->shared_align);
	if (dynamic > SHARED_MAX || run->shared_dynamic + dynamic > SHARED_MAX)
		return -EINVAL;
	run->shared_size = run->shared_dynamic + dynamic;
	run->shared_reserved = ALIGN_UP(run->shared_size, PTX_SHARED_ALIGN);
	if (kernel->module->uses_reserved)
		run->shared_size = run->shared_reserved + PTX_SHARED_RESERVED;
	return 0;
}

/* The clusters of the grid, if any were requested; else each block is a cluster. */
static int check_clusters(struct ptx_run *run)
{
	const struct ptx_launch *launch = run->launch;
	const uint32_t *cluster = launch->cluster[0] ? launch->cluster : run->kernel->info.cluster;
	uint64_t n = 1;

	run->n_clusters = 1;
	run->has_clusters = cluster[0] != 0;
	for (unsigned i = 0; i < 3; i++) {
		run->cluster[i] = cluster[i] ? cluster[i] : 1;
		if (run->cluster[i] > CLUSTER_BLOCKS_MAX || launch->grid[i] % run->cluster[i])
			return -EINVAL;
		n *= run->cluster[i];
		run->n_clusters *= launch->grid[i] / run->cluster[i];
	}
	run->n_cluster_blocks = (uint32_t)n;
	return n <= CLUSTER_BLOCKS_MAX ? 0 : -EINVAL;
}

static int check_shape(struct ptx_run *run)
{
	const struct ptx_launch *launch = run->launch;
	const struct ptx_kernel *kernel = run->kernel;
	uint64_t n_threads = 1;
	int r;

	for (unsigned i = 0; i < 3; i++) {
		if (!launch->grid[i] || !launch->block[i] || launch->grid[i] > INT32_MAX ||
			launch->block[i] > BLOCK_THREADS_MAX || (i && launch->grid[i] > UINT16_MAX))
			return -EINVAL;
		n_threads *= launch->block[i];
	}
	if (n_threads > kernel->info.max_threads || (kernel->info.param_size && !launch->params))
		return -EINVAL;
	run->n_threads = (uint32_t)n_threads;
	run->n_warps = (run->n_threads + PTX_LANES - 1) / PTX_LANES;
	run->workspace[0] = sizeof(run->workspace);
	r = check_clusters(run);
	return r < 0 ? r : check_shared(run);
}

int ptx_kernel_run(const struct ptx_kernel *kernel, const struct ptx_launch *launch,
	struct ptx_fault *ret_fault)
{
	_cleanup_free_ uint8_t *params = NULL;
	struct ptx_run run = {.launch = launch, .kernel = kernel};
	int r;

	r = check_shape(&run);
	if (r < 0)
		return r;
	params = malloc(MAX(kernel->info.param_size, 1u));
	if (!params)
		return -ENOMEM;
	if (kernel->info.param_size)
		memcpy(params, launch->params, kernel->info.param_size);
	run.params = params;
	r = run_grid(&run);
	if (r == -EFAULT)
		*ret_fault = run.fault;
	return r; /* NOLINT(clang-analyzer-unix.Malloc): the cleanup frees it */
}
