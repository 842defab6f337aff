/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Contexts' shares of the SMs. Any thread of the application.
 *
 * Invariant: a context with a share has its own NULL stream. A share keeps its
 * number until the server has been told of its end.
 */

#include "context_share.h"

#include <stdatomic.h>

#include "hooks.h"
#include "lock.h"
#include "share.h"
#include "wire.h"
#include "client/util/log.h"
#include "send_context.h"

static struct lock lock = LOCK_INIT(CONTEXT_SHARES);
static uint32_t taken; /* one bit for each number in use; under the lock */
_Static_assert(WIRE_CONTEXT_SHARES_MAX < 32, "they fit");

/* CONTEXT_SHARES_MAX: all numbers are in use. */
static uint32_t take_id(void)
{
	uint32_t id = 0;

	lock_hold(&lock);
	while (id < WIRE_CONTEXT_SHARES_MAX && taken >> id & 1)
		id++;
	if (id < WIRE_CONTEXT_SHARES_MAX)
		taken |= 1u << id;
	return id;
}

static void give_id(uint32_t id)
{
	lock_hold(&lock);
	taken &= ~(1u << id);
}

static CUresult context_share_make(struct context *context, uint32_t n_groups)
{
	uint32_t id = take_id();
	CUresult result;

	if (id == WIRE_CONTEXT_SHARES_MAX)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = send_context_share_create(id, context->device->index, n_groups, &context->n_sms);
	if (result != CUDA_SUCCESS) {
		give_id(id);
		return result;
	}
	atomic_store_explicit(&context->share, id, memory_order_relaxed);
	result = hooks.open_share(context);
	if (result != CUDA_SUCCESS)
		context_share_end(context);
	return result;
}

static CUresult refuse_affinity(const char *why)
{
	log_refused("cuCtxCreate", why);
	return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
}

/*
 * If the SMs cannot be divided, the environment has no effect, but an explicit
 * request of the program fails.
 */
CUresult context_share_begin(struct context *context, uint32_t asked)
{
	const struct device_facts *facts = device_facts(context->device);
	uint32_t n_sms = share_sms_of_process(context->device), n_groups;
	CUresult result;

	if (asked < n_sms && !share_is_per_context())
		return refuse_affinity(
			"a context cannot have fewer SMs than its process, which " SHARE_VARIABLE
			" limits, unless " SHARE_PER_CONTEXT "=1 is set when the process starts");
	if (!share_is_per_context() || (facts->sm_group == 0 && asked >= n_sms))
		return CUDA_SUCCESS;
	if (facts->sm_group == 0)
		return refuse_affinity("the driver cannot divide the GPU's SMs");
	n_groups = share_groups_now(context->device);
	if (asked < n_sms)
		n_groups = MIN(n_groups, MAX(asked / facts->sm_group, 1u));
	if (n_groups * facts->sm_group >= n_sms)
		return CUDA_SUCCESS;
	result = context_share_make(context, n_groups);
	if (result != CUDA_ERROR_NOT_SUPPORTED)
		return result;
	return asked >= n_sms ? CUDA_SUCCESS
			      : refuse_affinity("the operator has partitioned the GPU's SMs");
}

void context_share_end(struct context *context)
{
	uint32_t id = context_share_id(context);

	if (id == WIRE_CONTEXT_SHARES_MAX)
		return;
	atomic_store_explicit(&context->null, NULL, memory_order_release);
	atomic_store_explicit(&context->share, WIRE_CONTEXT_SHARES_MAX, memory_order_relaxed);
	/* Send this before another context can get the number. */
	(void)send_context_share_destroy(id);
	give_id(id);
}
