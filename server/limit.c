/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Limits of a GPU's context that kernels feel: the stack of each thread, the
 * device heap, the buffer of printf. They are everybody's, so they only ever
 * rise, to what the most demanding client has asked for. A worker.
 *
 * Local memory of kernels that is no stack is had in the same way: a stack of
 * that size is room enough (measured on an H200, driver 580).
 *
 * To change the stack the driver waits for everybody's kernels, so it rises to
 * powers of two, of which there are few, however small the steps of clients are.
 *
 * Invariant: what a client was told to have is there before its next launch.
 */

#include <time.h>

#include "device.h"
#include "limit.h"
#include "log.h"
#include "place.h"
#include "session.h"
#include "standing.h"

/* How long the stack waits for streams that wait for words: who asks has the lock so long. */
#define STANDING_WAIT_MS 5000

/* A stack that the driver had no room for is not asked for again, nor a larger one, so long. */
#define REFUSED_S 10

static pthread_mutex_t lock =
	PTHREAD_MUTEX_INITIALIZER; /* of every device's `raised', `stack_refused' */

static const char *limit_name(CUlimit limit)
{
	return limit == CU_LIMIT_STACK_SIZE         ? "the stack of a thread"
	       : limit == CU_LIMIT_MALLOC_HEAP_SIZE ? "the heap"
						    : "the buffer of printf";
}

static CUresult set_limit(
	struct session *session, struct device *device, CUlimit limit, uint64_t value)
{
	size_t now = 0;
	CUresult result;

	result = cuda.cuCtxSetLimit(limit, value);
	if (result == CUDA_SUCCESS)
		result = cuda.cuCtxGetLimit(&now, limit);
	if (result != CUDA_SUCCESS)
		return result;
	device->raised[limit] = MAX(now, value);
	log_line("Client " SESSION_NAME " raised %s of device %u to %llu bytes, for everybody",
		SESSION_NAME_ARGS(session), limit_name(limit), device->ordinal,
		(unsigned long long)now);
	return CUDA_SUCCESS;
}

/* Wraps to 0 above the largest there is. */
static uint64_t power_above(uint64_t value)
{
	uint64_t power = 1;

	while (power && power < value)
		power <<= 1;
	return power;
}

static int64_t now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec;
}

/*
 * Where there is no room for twice as much there may be for what was asked. But then a client
 * could go on in small steps, or fail for ever: so whatever was refused is left alone for a while.
 */
static CUresult set_stack(struct session *session, struct device *device, uint64_t value)
{
	uint64_t power = power_above(value);
	CUresult result = set_limit(session, device, CU_LIMIT_STACK_SIZE, power ? power : value);

	if (result == CUDA_SUCCESS || result_is_fault(result))
		return result;
	device->stack_refused = power ? power : value;
	device->stack_refusal = result;
	if (power && power != value)
		result = set_limit(session, device, CU_LIMIT_STACK_SIZE, value);
	device->stack_refused_s = now_s();
	return result;
}

/* Whether the driver was asked for so much a moment ago, in vain. Under the lock. */
static bool is_refused(const struct device *device, uint64_t bytes)
{
	return device->stack_refused && bytes >= device->stack_refused &&
	       now_s() - device->stack_refused_s < REFUSED_S;
}

/* The driver waits for all that is on the GPU, however long. */
static CUresult raise_stack(struct session *session, struct device *device, uint64_t value)
{
	uint64_t power = power_above(value);
	CUresult result;

	if (is_refused(device, power ? power : UINT64_MAX))
		return device->stack_refusal;
	if (!standing_call_begin(session, STANDING_WAIT_MS)) {
		log_line("Client " SESSION_NAME " asked for a stack of %llu bytes: not while "
			 "streams of others wait for their clients",
			SESSION_NAME_ARGS(session), (unsigned long long)value);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	result = set_stack(session, device, value);
	standing_call_end();
	return result;
}

/* In steps of an eighth: what a kernel has need not be doubled, nor be had in every size. */
static uint64_t step_above(uint64_t value)
{
	uint64_t step = MAX(power_above(value) / 16, 16u);

	return (value + step - 1) / step * step;
}

/* What is known without asking the driver; CUDA_ERROR_NOT_READY: nothing. Under the lock. */
static CUresult known(const struct device *device, uint64_t bytes)
{
	uint64_t stack =
		MAX(device->limits[CU_LIMIT_STACK_SIZE], device->raised[CU_LIMIT_STACK_SIZE]);

	if (bytes <= stack)
		return CUDA_SUCCESS;
	return is_refused(device, bytes) ? device->stack_refusal : CUDA_ERROR_NOT_READY;
}

/* While nobody stands. Under the lock. */
static CUresult cover(struct session *session, struct device *device, uint64_t bytes)
{
	uint64_t most = step_above(bytes);
	CUresult result = known(device, bytes);

	if (result != CUDA_ERROR_NOT_READY)
		return result;
	if (!is_refused(device, most))
		result = set_limit(session, device, CU_LIMIT_STACK_SIZE, most);
	if (result != CUDA_SUCCESS && !result_is_fault(result))
		result = set_limit(session, device, CU_LIMIT_STACK_SIZE, bytes);
	if (result != CUDA_SUCCESS && !result_is_fault(result)) {
		device->stack_refused = bytes;
		device->stack_refusal = result;
		device->stack_refused_s = now_s();
	}
	return result;
}

CUresult limit_cover_local(struct session *session, struct device *device, uint32_t bytes)
{
	CUresult result;

	if (likely(bytes <= device->limits[CU_LIMIT_STACK_SIZE]))
		return CUDA_SUCCESS;
	pthread_mutex_lock(&lock);
	result = known(device, bytes);
	pthread_mutex_unlock(&lock);
	if (result != CUDA_ERROR_NOT_READY)
		return result;
	if (!standing_call_begin(session, 0))
		return CUDA_ERROR_MPS_RPC_FAILURE;
	pthread_mutex_lock(&lock);
	result = cover(session, device, bytes);
	pthread_mutex_unlock(&lock);
	standing_call_end();
	return result;
}

/* The lock may be held as long as kernels run: only others who raise wait for it. */
CUresult do_limit_raise(struct session *session, uint32_t ordinal, uint32_t limit, uint64_t value)
{
	struct device *device;
	struct place *place;
	CUresult result = place_get_entered(session, ordinal, &place);

	if (result != CUDA_SUCCESS)
		return result;
	device = place->device;
	pthread_mutex_lock(&lock);
	if (value > MAX(device->limits[limit], device->raised[limit]))
		result = limit == CU_LIMIT_STACK_SIZE
				 ? raise_stack(session, device, value)
				 : set_limit(session, device, (CUlimit)limit, value);
	pthread_mutex_unlock(&lock);
	return result;
}
