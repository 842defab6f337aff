/* SPDX-License-Identifier: Apache-2.0 */

#include "device.h"
#include "priority.h"
#include "server/session/session.h"
#include "stream_pool.h"

/* Nobody waits for a spare one. */
#define SPARE_MS 1

static const struct room_part one = {.n_channels = 1};

/* In the GPU's own context: where a green one is current, a stream would have its SMs alone. */
static CUresult create(const struct device *device, int32_t priority, CUstream *ret_real)
{
	CUcontext before;
	CUresult result = cuda.cuCtxGetCurrent(&before);
	bool is_other;

	if (result != CUDA_SUCCESS)
		return result;
	/* While the GPU's own is being made, it is current and not noted yet. */
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

/* In `most_ms', if that needs room that has to be made; 0: it may take for ever. */
static CUresult make(struct session *session, struct device *device, int32_t priority,
	unsigned most_ms, CUstream *ret_real)
{
	enum room_way way = room_take(session, device, &one, most_ms);
	CUresult result;

	*ret_real = NULL;
	if (way == ROOM_NONE)
		return CUDA_ERROR_MPS_RPC_FAILURE;
	result = create(device, priority, ret_real);
	room_taken(way);
	if (result != CUDA_SUCCESS)
		room_leave(device, &one);
	return result;
}

/* Without a stream: no more than `n_left' are there. */
static struct spare take(struct spares *spares, unsigned n_left)
{
	struct spare spare = {0};

	pthread_mutex_lock(&spares->lock);
	if (spares->n > n_left)
		spare = spares->list[--spares->n];
	pthread_mutex_unlock(&spares->lock);
	return spare;
}

static void end(struct device *device, CUstream real)
{
	cuda.cuStreamDestroy_v2(real);
	room_leave(device, &one);
}

void spare_give(struct device *device, CUstream real, int32_t priority)
{
	struct spares *spares = &device->spares;
	bool is_kept;

	pthread_mutex_lock(&spares->lock);
	is_kept = spares->n < SPARES_AHEAD;
	if (is_kept)
		spares->list[spares->n++] = (struct spare){real, priority};
	pthread_mutex_unlock(&spares->lock);
	if (!is_kept)
		end(device, real);
}

static CUresult with_priority(struct device *device, struct spare spare, int32_t priority)
{
	CUstreamAttrValue value = {.priority = priority};
	CUresult result = CUDA_SUCCESS;

	if (spare.priority != priority)
		result =
			cuda.cuStreamSetAttribute(spare.real, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value);
	if (result != CUDA_SUCCESS)
		spare_give(device, spare.real, spare.priority);
	return result;
}

static CUresult make_spare(struct device *device)
{
	int32_t priority = priority_normal(device);
	CUstream real;
	CUresult result = make(NULL, device, priority, SPARE_MS, &real);

	if (result == CUDA_SUCCESS)
		spare_give(device, real, priority);
	return result;
}

void spares_fill(struct device *device)
{
	unsigned n = 0;

	while (n < SPARES_AHEAD && make_spare(device) == CUDA_SUCCESS)
		n++;
}

void spare_discard(struct device *device, CUstream real)
{
	end(device, real);
	(void)make_spare(device);
}

CUresult spare_take(
	struct session *session, struct device *device, int32_t priority, CUstream *ret_real)
{
	struct spare spare = take(&device->spares, SPARES_KEYS);

	*ret_real = spare.real;
	return spare.real ? with_priority(device, spare, priority)
			  : make(session, device, priority, 0, ret_real);
}

CUresult spare_take_key(struct device *device, CUstream *ret_real)
{
	struct spare spare = take(&device->spares, 0);
	CUresult result;

	*ret_real = spare.real;
	if (spare.real)
		return with_priority(device, spare, device->priority_greatest);
	room_take_key(device);
	result = create(device, device->priority_greatest, ret_real);
	if (result != CUDA_SUCCESS)
		room_leave(device, &one);
	return result;
}
