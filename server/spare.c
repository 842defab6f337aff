/* SPDX-License-Identifier: Apache-2.0 */

#include "device.h"
#include "session.h"
#include "spare.h"
#include "standing.h"

/* When the first have been made, it is seldom that one waits: more seldom than streams stand. */
#define PATIENCE_MS 500

static CUresult make(int32_t priority, CUstream *ret_real)
{
	*ret_real = NULL;
	return cuda.cuStreamCreateWithPriority(ret_real, CU_STREAM_NON_BLOCKING, priority);
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

static void give(struct spares *spares, struct spare spare)
{
	bool is_kept;

	pthread_mutex_lock(&spares->lock);
	is_kept = spares->n < SPARES_AHEAD;
	if (is_kept)
		spares->list[spares->n++] = spare;
	pthread_mutex_unlock(&spares->lock);
	if (!is_kept)
		cuda.cuStreamDestroy_v2(spare.real);
}

void spares_fill(struct spares *spares)
{
	struct spare spare = {0};

	for (unsigned i = 0; i < SPARES_AHEAD && make(0, &spare.real) == CUDA_SUCCESS; i++)
		give(spares, spare);
}

static CUresult with_priority(struct device *device, struct spare spare, int32_t priority)
{
	CUstreamAttrValue value = {.priority = priority};
	CUresult result = CUDA_SUCCESS;

	if (spare.priority != priority)
		result =
			cuda.cuStreamSetAttribute(spare.real, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value);
	if (result != CUDA_SUCCESS)
		give(&device->spares, spare);
	return result;
}

static void owe(struct spares *spares)
{
	pthread_mutex_lock(&spares->lock);
	spares->n_owed++;
	pthread_mutex_unlock(&spares->lock);
}

/* Whether one is owed, which is its caller's to make then. */
static bool take_debt(struct spares *spares)
{
	bool is_owed;

	pthread_mutex_lock(&spares->lock);
	is_owed = spares->n_owed > 0;
	spares->n_owed -= is_owed;
	pthread_mutex_unlock(&spares->lock);
	return is_owed;
}

/* One in place of one that was discarded, unless some stream stands still. */
static void repay(struct session *session, struct device *device)
{
	struct spare spare = {0};

	if (standing_any() || !take_debt(&device->spares))
		return;
	if (standing_call_begin(session, 1)) {
		/* Whatever GPU's context this thread has. */
		session->current = NULL;
		if (device_enter(device) == CUDA_SUCCESS)
			make(0, &spare.real);
		standing_call_end();
	}
	if (spare.real)
		give(&device->spares, spare);
	else
		owe(&device->spares);
}

void spare_discard(struct session *session, struct device *device, CUstream real)
{
	cuda.cuStreamDestroy_v2(real);
	owe(&device->spares);
	repay(session, device);
}

CUresult spare_take(
	struct session *session, struct device *device, int32_t priority, CUstream *ret_real)
{
	struct spare spare = take(&device->spares, SPARES_KEYS);
	CUresult result;
	bool may;

	*ret_real = spare.real;
	if (spare.real)
		return with_priority(device, spare, priority);
	may = standing_call_begin(session, standing_has(session) ? 1 : PATIENCE_MS);
	result = make(priority, ret_real);
	if (may)
		standing_call_end();
	return result;
}

CUresult spare_take_key(struct device *device, CUstream *ret_real)
{
	struct spare spare = take(&device->spares, 0);

	*ret_real = spare.real;
	return spare.real ? with_priority(device, spare, device->priority_greatest)
			  : make(device->priority_greatest, ret_real);
}

void spare_give(struct session *session, struct device *device, CUstream real, int32_t priority)
{
	give(&device->spares, (struct spare){real, priority});
	repay(session, device);
}
