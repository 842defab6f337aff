/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Why there is no more memory for this process. Any thread of the application.
 *
 * Invariant: a number that the server has written is only printed.
 */

#include "refusal.h"

#include <stdatomic.h>

#include "client/util/log.h"

static const struct {
	const char *limit, *advice;
} texts[REFUSALS] = {
	[REFUSAL_BY_CLIENT] = {"this program has reached its limit of a GPU's memory",
		"free memory, or raise the limit (CUDA_MPS_PINNED_DEVICE_MEM_LIMIT, or "
		"mps-control set_device_pinned_mem_limit)"},
	[REFUSAL_BY_GROUP] = {"the group of this program has reached its limit of a GPU's memory",
		"free memory, also in other programs of the group (mps-control ps -l), or raise "
		"the limit (mps-control group set)"},
	[REFUSAL_BY_HOST] = {"the service holds as much host memory for this program as it may",
		"destroy streams, graphs, modules or other objects (server.log counts them), or "
		"raise MPS_CLIENT_HOST_MIB of the daemon"},
};

void refusal_log(const struct page __shm *page)
{
	static _Atomic uint32_t logged; /* one bit for each limit */
	uint32_t refusal = shm_load32(&page->refusal);
	unsigned long long mib = shm_load64(&page->refusal_limit) >> 20;
	uint32_t bit;

	if (refusal == REFUSAL_NONE || refusal >= REFUSALS)
		return;
	bit = 1u << refusal;
	if (atomic_fetch_or_explicit(&logged, bit, memory_order_relaxed) & bit)
		return;
	log_warn("%s (%llu MiB): %s", texts[refusal].limit, mib, texts[refusal].advice);
}
