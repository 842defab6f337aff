/* SPDX-License-Identifier: Apache-2.0 */

#include "stream_pool.h"

#include "channel_budget.h"
#include "lock.h"
#include "server/session/session.h"
#include "server/device/device.h"
#include "server/device/priority.h"

/* No caller waits for a pooled stream. */
#define POOL_MS 1

static const struct channel_part one = {.n_channels = 1};

/* Of all pools. */
static struct lock lock = LOCK_INIT(STREAM_POOLS);

/* In the GPU's own context: in a green context the stream would have only its SMs. */
static CUresult stream_pool_create(
	const struct device *device, int32_t priority, CUstream *ret_real)
{
	CUcontext before;
	CUresult result = cuda.cuCtxGetCurrent(&before);
	bool is_other;

	if (result != CUDA_SUCCESS)
		return result;
	/* While the GPU's own context is being made, it is current but not noted yet. */
	is_other = device->context && before != device->context;
	if (is_other)
		result = cuda.cuCtxSetCurrent(device->context);
	if (result == CUDA_SUCCESS)
		result =
			cuda.cuStreamCreateWithPriority(ret_real, CU_STREAM_NON_BLOCKING, priority);
	if (is_other)
		cuda.cuCtxSetCurrent(before);
	return result;
}

/* Gives up after `most_ms' if channels have to be made; 0: no limit. */
static CUresult stream_pool_make(struct session *session, struct device *device, int32_t priority,
	unsigned most_ms, CUstream *ret_real)
{
	struct channel_part part = one;
	enum channel_way way = channel_budget_take(session, device, &part, most_ms);
	CUresult result;

	*ret_real = NULL;
	if (way == CHANNELS_NONE)
		return CUDA_ERROR_MPS_RPC_FAILURE;
	result = stream_pool_create(device, priority, ret_real);
	channel_budget_taken(device, &part, way, result == CUDA_SUCCESS);
	return result;
}

/* Returns no stream if no more than `n_left' are in the pool. */
static struct pooled_stream stream_pool_pop(struct stream_pool *pool, unsigned n_left)
{
	struct pooled_stream spare = {0};

	lock_take(&lock);
	if (pool->n > n_left)
		spare = pool->list[--pool->n];
	lock_release(&lock);
	return spare;
}

static void stream_pool_end(struct device *device, CUstream real)
{
	cuda.cuStreamDestroy_v2(real);
	channel_budget_release(device, &one);
}

void stream_pool_give(struct device *device, CUstream real, int32_t priority)
{
	struct stream_pool *pool = device->stream_pool;
	bool is_kept;

	lock_take(&lock);
	is_kept = pool->n < STREAM_POOL_MAX;
	if (is_kept)
		pool->list[pool->n++] = (struct pooled_stream){real, priority};
	lock_release(&lock);
	if (!is_kept)
		stream_pool_end(device, real);
}

static CUresult with_priority(struct device *device, struct pooled_stream spare, int32_t priority)
{
	CUstreamAttrValue value = {.priority = priority};
	CUresult result = CUDA_SUCCESS;

	if (spare.priority != priority)
		result =
			cuda.cuStreamSetAttribute(spare.real, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value);
	if (result != CUDA_SUCCESS)
		stream_pool_give(device, spare.real, spare.priority);
	return result;
}

static CUresult pool_one_stream(struct device *device)
{
	int32_t priority = priority_normal(device);
	CUstream real;
	CUresult result = stream_pool_make(NULL, device, priority, POOL_MS, &real);

	if (result == CUDA_SUCCESS)
		stream_pool_give(device, real, priority);
	return result;
}

static CUresult stream_pool_begin(struct device *device)
{
	static struct stream_pool all[DEVICES_MAX];

	device->stream_pool = &all[device->ordinal];
	return CUDA_SUCCESS;
}

/* Fills the pool. */
static CUresult stream_pool_open(struct device *device)
{
	unsigned n = 0;

	while (n < STREAM_POOL_MAX && pool_one_stream(device) == CUDA_SUCCESS)
		n++;
	return CUDA_SUCCESS;
}

/* The streams end with their contexts. */
static void stream_pool_close(void)
{
	for (uint32_t i = 0; i < devices_count(); i++)
		device_get(i)->stream_pool->n = 0;
}

const struct device_part stream_pool_part = {
	.begin = stream_pool_begin,
	.open = stream_pool_open,
	.close = stream_pool_close,
};

void stream_pool_discard(struct device *device, CUstream real)
{
	stream_pool_end(device, real);
	(void)pool_one_stream(device);
}

CUresult stream_pool_take(
	struct session *session, struct device *device, int32_t priority, CUstream *ret_real)
{
	struct pooled_stream spare = stream_pool_pop(device->stream_pool, STREAM_POOL_RESERVED);

	*ret_real = spare.real;
	return spare.real ? with_priority(device, spare, priority)
			  : stream_pool_make(session, device, priority, 0, ret_real);
}

CUresult stream_pool_take_reserved(struct device *device, CUstream *ret_real)
{
	struct pooled_stream spare = stream_pool_pop(device->stream_pool, 0);
	struct channel_part part = one;
	CUresult result;

	*ret_real = spare.real;
	if (spare.real)
		return with_priority(device, spare, device->priority_greatest);
	channel_budget_take_reserved(device, &part);
	result = stream_pool_create(device, device->priority_greatest, ret_real);
	channel_budget_taken(device, &part, CHANNELS_THERE, result == CUDA_SUCCESS);
	return result;
}
