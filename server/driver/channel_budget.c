/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Counts what streams and graphs take of the driver's channels and memory.
 *
 * Invariant: the count is never less than what the driver has given.
 */

#include "device.h"
#include "server/util/log.h"
#include "channel_budget.h"
#include "blocked_streams.h"

static void set_at_least(atomic_uint *value, unsigned least)
{
	unsigned now = atomic_load(value);

	while (now < least && !atomic_compare_exchange_weak(value, &now, least))
		;
}

/* A graph of one node that any context can make. The caller owns its event, too. */
static CUresult model_make(CUgraph *ret_model, CUevent *ret_event)
{
	CUgraphNode node;
	CUresult result = cuda.cuEventCreate(ret_event, CU_EVENT_DISABLE_TIMING);

	if (result != CUDA_SUCCESS)
		*ret_event = NULL;
	else
		result = cuda.cuGraphCreate(ret_model, 0);
	if (result != CUDA_SUCCESS)
		*ret_model = NULL;
	else
		result = cuda.cuGraphAddEventRecordNode(&node, *ret_model, NULL, 0, *ret_event);
	return result;
}

void channel_budget_grow(struct device *device)
{
	struct channel_budget *budget = &device->channels;
	CUgraphExec made[CHANNEL_BUDGET_AHEAD];
	CUevent event = NULL;
	CUgraph model = NULL;
	CUresult result = model_make(&model, &event);
	unsigned n = 0;

	while (result == CUDA_SUCCESS && n < CHANNEL_BUDGET_AHEAD) {
		result = cuda.cuGraphInstantiateWithFlags(&made[n], model, 0);
		n += result == CUDA_SUCCESS;
	}
	if (n < CHANNEL_BUDGET_AHEAD)
		log_line("Device %u: made %u channels in advance instead of %u", device->ordinal, n,
			CHANNEL_BUDGET_AHEAD);
	set_at_least(&budget->n_made, atomic_load(&budget->n_parts) + n);
	/* The driver keeps the channels. */
	while (n > 0)
		cuda.cuGraphExecDestroy(made[--n]);
	if (model)
		cuda.cuGraphDestroy(model);
	if (event)
		cuda.cuEventDestroy_v2(event);
}

static void channel_budget_add(struct channel_budget *budget, const struct channel_part *part)
{
	atomic_fetch_add(&budget->n_channels, part->n_channels);
	atomic_fetch_add(&budget->n_nodes, part->n_nodes);
	atomic_fetch_add(&budget->n_parts, 1);
}

static bool has_channels(struct channel_budget *budget, unsigned n_made, unsigned n_kept)
{
	return atomic_load(&budget->n_channels) + n_kept <= n_made;
}

/* Whether there is room beside what the session has to leave to others. */
static bool is_there(struct channel_budget *budget, const struct session *session)
{
	unsigned n_kept = session && blocked_has(session)
				  ? CHANNEL_BUDGET_RESERVED
				  : CHANNEL_BUDGET_RESERVED + CHANNEL_BUDGET_BLOCKED;

	return has_channels(budget, atomic_load(&budget->n_made), n_kept) &&
	       atomic_load(&budget->n_nodes) <= CHANNEL_BUDGET_NODES;
}

/* The count of taken channels may be too high; making more for that is no use. */
static bool wants_channels(struct channel_budget *budget)
{
	const unsigned n_kept = CHANNEL_BUDGET_RESERVED + CHANNEL_BUDGET_BLOCKED;

	return !has_channels(budget, atomic_load(&budget->n_made), n_kept) &&
	       has_channels(budget, atomic_load(&budget->n_parts) + CHANNEL_BUDGET_AHEAD, n_kept);
}

enum channel_way channel_budget_take(struct session *session, struct device *device,
	const struct channel_part *part, unsigned most_ms)
{
	struct channel_budget *budget = &device->channels;

	channel_budget_add(budget, part);
	if (likely(is_there(budget, session)))
		return CHANNELS_THERE;
	/* While the session sleeps, others may have its channels. */
	channel_budget_release(device, part);
	if (!exclusive_call_begin(session, most_ms))
		return CHANNELS_NONE;
	channel_budget_add(budget, part);
	if (wants_channels(budget))
		channel_budget_grow(device);
	return CHANNELS_NEW;
}

void channel_budget_taken(enum channel_way way)
{
	if (unlikely(way == CHANNELS_NEW))
		exclusive_call_end();
}

void channel_budget_take_reserved(struct device *device)
{
	channel_budget_add(&device->channels, &(struct channel_part){.n_channels = 1});
}

void channel_budget_release(struct device *device, const struct channel_part *part)
{
	atomic_fetch_sub(&device->channels.n_channels, part->n_channels);
	atomic_fetch_sub(&device->channels.n_nodes, part->n_nodes);
	atomic_fetch_sub(&device->channels.n_parts, 1);
}
