/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Limits of a GPU's context that kernels feel: the stack of each thread, the
 * device heap, the buffer of printf. They are everybody's, so they only ever
 * rise, to what the most demanding client has asked for. A worker.
 *
 * Invariant: what a client was told to have is there before its next launch.
 */

#include <time.h>

#include "deferred.h"
#include "device.h"
#include "log.h"
#include "place.h"
#include "session.h"

/* To change the stack the driver waits for all kernels: how long before for those of gates. */
#define STANDING_WAIT_MS 5000

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of every device's `raised' */

/* Beside a stream that waits for its client's word that could be for ever. */
static bool wait_for_standing(struct session *session)
{
	const struct timespec nap = {.tv_nsec = 1000000};

	for (unsigned i = 0; deferred_has_standing(); i++) {
		if (i >= STANDING_WAIT_MS || atomic_load(&session->is_ending))
			return false;
		nanosleep(&nap, NULL);
	}
	return true;
}

/* Under the lock, which may be held as long as kernels run: only others who raise wait for it. */
static CUresult raise_limit(
	struct session *session, struct device *device, CUlimit limit, uint64_t value)
{
	size_t now = 0;
	CUresult result;

	if (limit == CU_LIMIT_STACK_SIZE && !wait_for_standing(session)) {
		log_line("Client " SESSION_NAME " asked for a stack of %llu bytes: not while "
			 "streams of others wait for their clients",
			SESSION_NAME_ARGS(session), (unsigned long long)value);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	result = cuda.cuCtxSetLimit(limit, value);
	if (result == CUDA_SUCCESS)
		result = cuda.cuCtxGetLimit(&now, limit);
	if (result != CUDA_SUCCESS)
		return result;
	device->raised[limit] = MAX(now, value);
	log_line("Client " SESSION_NAME " raised %s of device %u to %llu bytes, for everybody",
		SESSION_NAME_ARGS(session),
		limit == CU_LIMIT_STACK_SIZE         ? "the stack of a thread"
		: limit == CU_LIMIT_MALLOC_HEAP_SIZE ? "the heap"
						     : "the buffer of printf",
		device->ordinal, (unsigned long long)now);
	return CUDA_SUCCESS;
}

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
		result = raise_limit(session, device, (CUlimit)limit, value);
	pthread_mutex_unlock(&lock);
	return result;
}
