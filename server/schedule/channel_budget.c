/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Counts what streams and graphs take of the driver's channels and memory.
 *
 * Invariant: the driver has at least as many free channels as the count says. How many
 * channels a graph takes is not known, only a range: its taking is counted as the most, and
 * its end as the most if the count began before it was made, else as the least.
 */

#include "channel_budget.h"

#include "blocked_streams.h"
#include "lock.h"
#include "quiet.h"
#include "server/util/log.h"
#include "server/device/device.h"

static struct lock lock = LOCK_INIT(CHANNEL_BUDGETS);

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

/* Returns how many channels existed and were free at the same time. */
static unsigned make_channels(void)
{
	CUgraphExec made[CHANNEL_BUDGET_AHEAD];
	CUevent event = NULL;
	CUgraph model = NULL;
	CUresult result = model_make(&model, &event);
	unsigned n = 0;

	while (result == CUDA_SUCCESS && n < CHANNEL_BUDGET_AHEAD) {
		result = cuda.cuGraphInstantiateWithFlags(&made[n], model, 0);
		n += result == CUDA_SUCCESS;
	}
	/* The driver keeps the channels. */
	for (unsigned i = 0; i < n; i++)
		cuda.cuGraphExecDestroy(made[i]);
	if (model)
		cuda.cuGraphDestroy(model);
	if (event)
		cuda.cuEventDestroy_v2(event);
	return n;
}

/* Other workers may take channels meanwhile, or may have taken some that are not in use yet. */
void channel_budget_grow(struct device *device)
{
	struct channel_budget *budget = device->channels;
	uint64_t n_taken, n_pending;
	unsigned n;

	lock_take(&lock);
	n_taken = budget->n_taken;
	n_pending = budget->n_pending;
	lock_release(&lock);
	n = make_channels();
	if (n < CHANNEL_BUDGET_AHEAD)
		log_line("Device %u: made %u channels in advance instead of %u", device->ordinal, n,
			CHANNEL_BUDGET_AHEAD);
	lock_take(&lock);
	budget->n_free = (int64_t)n - (int64_t)(n_pending + budget->n_taken - n_taken);
	budget->n_growths++;
	lock_release(&lock);
}

/* Under the lock. */
static void channel_budget_add(struct channel_budget *budget, struct channel_part *part)
{
	budget->n_free -= part->n_channels;
	budget->n_taken += part->n_channels;
	budget->n_pending += part->n_channels;
	budget->n_nodes += part->n_nodes;
	budget->n_nodes_pending += part->n_nodes;
	part->n_growths = budget->n_growths;
}

/* Under the lock: whether there is space beside what the session has to leave to others. */
static bool is_there(
	const struct channel_budget *budget, const struct channel_part *part, bool is_blocked)
{
	unsigned n_kept = CHANNEL_BUDGET_RESERVED + (is_blocked ? 0 : CHANNEL_BUDGET_BLOCKED);
	unsigned n_nodes_kept = is_blocked ? 0 : CHANNEL_BUDGET_NODES_BLOCKED;

	return budget->n_free >= (int64_t)part->n_channels + n_kept &&
	       (part->n_nodes == 0 || budget->n_nodes + part->n_nodes + n_nodes_kept <=
					      CHANNEL_BUDGET_NODES + budget->n_nodes_more);
}

enum channel_way channel_budget_take(
	struct session *session, struct device *device, struct channel_part *part, unsigned most_ms)
{
	const bool is_blocked = session && blocked_has(session);
	struct channel_budget *budget = device->channels;
	bool found;

	lock_take(&lock);
	found = is_there(budget, part, is_blocked);
	if (found)
		channel_budget_add(budget, part);
	lock_release(&lock);
	if (likely(found))
		return CHANNELS_THERE;
	if (!quiet_call_begin(session, device, most_ms))
		return CHANNELS_NONE;
	channel_budget_take_reserved(device, part);
	return CHANNELS_NEW;
}

/* Under the lock. */
static void channel_budget_give(struct channel_budget *budget, const struct channel_part *part)
{
	budget->n_free +=
		part->n_growths == budget->n_growths ? part->n_channels : MIN(part->n_channels, 1u);
	budget->n_nodes -= part->n_nodes;
}

/* Under the lock. The nodes that are being made now may not have their memory yet. */
static void learn_nodes(struct channel_budget *budget)
{
	uint64_t n = budget->n_nodes - budget->n_nodes_pending;

	if (n > CHANNEL_BUDGET_NODES + budget->n_nodes_more)
		budget->n_nodes_more = n - CHANNEL_BUDGET_NODES;
}

static void note_taken(struct channel_budget *budget, const struct channel_part *part, bool is_made)
{
	lock_take(&lock);
	budget->n_pending -= part->n_channels;
	budget->n_nodes_pending -= part->n_nodes;
	if (is_made)
		learn_nodes(budget);
	else
		channel_budget_give(budget, part);
	lock_release(&lock);
}

static CUresult add_node(CUgraph graph, CUgraphNode after, CUgraphNode *ret_node)
{
	for (unsigned i = 0; device_parts[i]; i++)
		if (device_parts[i]->add_node)
			return device_parts[i]->add_node(graph, after, ret_node);
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* Makes an executable graph of one branch. The caller owns both, also after a failure. */
static CUresult make_chain(unsigned n_nodes, CUgraph *ret_model, CUgraphExec *ret_exec)
{
	CUgraphNode last = NULL;
	CUresult result = cuda.cuGraphCreate(ret_model, 0);

	*ret_exec = NULL;
	if (result != CUDA_SUCCESS)
		*ret_model = NULL;
	for (unsigned i = 0; i < n_nodes && result == CUDA_SUCCESS; i++)
		result = add_node(*ret_model, last, &last);
	if (result == CUDA_SUCCESS)
		result = cuda.cuGraphInstantiateWithFlags(ret_exec, *ret_model, 0);
	if (result != CUDA_SUCCESS)
		*ret_exec = NULL;
	return result;
}

/* Makes memory for nodes, with a graph that counts while it exists. */
static void make_nodes(struct device *device)
{
	struct channel_part part = {.n_channels = 1, .n_nodes = CHANNEL_BUDGET_NODES_AHEAD};
	CUcontext before = NULL;
	CUgraph model = NULL;
	CUgraphExec exec = NULL;
	CUresult result = cuda.cuCtxGetCurrent(&before);

	if (result == CUDA_SUCCESS)
		result = cuda.cuCtxSetCurrent(device->context);
	channel_budget_take_reserved(device, &part);
	if (result == CUDA_SUCCESS)
		result = make_chain(part.n_nodes, &model, &exec);
	note_taken(device->channels, &part, result == CUDA_SUCCESS);
	if (exec) {
		cuda.cuGraphExecDestroy(exec);
		channel_budget_release(device, &part);
	} else {
		log_line("Device %u: cannot make nodes of graphs in advance: %s", device->ordinal,
			result_name(result));
	}
	if (model)
		cuda.cuGraphDestroy(model);
	if (before)
		cuda.cuCtxSetCurrent(before);
}

void channel_budget_taken(
	struct device *device, const struct channel_part *part, enum channel_way way, bool is_made)
{
	struct channel_budget *budget = device->channels;
	bool lacks_channels, lacks_nodes;

	note_taken(budget, part, is_made);
	if (likely(way != CHANNELS_NEW))
		return;
	lock_take(&lock);
	lacks_channels = budget->n_free <= CHANNEL_BUDGET_RESERVED + CHANNEL_BUDGET_BLOCKED;
	lacks_nodes = budget->n_nodes + CHANNEL_BUDGET_NODES_BLOCKED >
		      CHANNEL_BUDGET_NODES + budget->n_nodes_more;
	lock_release(&lock);
	if (lacks_channels)
		channel_budget_grow(device);
	if (lacks_nodes)
		make_nodes(device);
	quiet_call_end(device);
}

void channel_budget_take_reserved(struct device *device, struct channel_part *part)
{
	lock_take(&lock);
	channel_budget_add(device->channels, part);
	lock_release(&lock);
}

void channel_budget_release(struct device *device, const struct channel_part *part)
{
	lock_take(&lock);
	channel_budget_give(device->channels, part);
	lock_release(&lock);
}

static CUresult channel_budget_begin(struct device *device)
{
	static struct channel_budget all[DEVICES_MAX];

	device->channels = &all[device->ordinal];
	return CUDA_SUCCESS;
}

static CUresult channel_budget_open(struct device *device)
{
	channel_budget_grow(device);
	return CUDA_SUCCESS;
}

const struct device_part channel_budget_part = {
	.begin = channel_budget_begin,
	.open = channel_budget_open,
};
