/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A session's places: opened, entered, ended. A worker.
 *
 * Invariant: a place is in session::places only when all of it was made.
 */

#include "server/session/fault.h"
#include "grant.h"
#include "green.h"
#include "limit_text.h"
#include "server/util/log.h"
#include "session_device.h"
#include "server/session/session.h"
#include "server/session/session_room.h"
#include "stream_pool.h"
#include "blocked_streams.h"

static atomic_uint pressure; /* counts calls of session_devices_reclaim() */

struct place *place_get(struct session *session, uint32_t device)
{
	return device < DEVICES_MAX ? session->places[device] : NULL;
}

int32_t place_priority(const struct place *place, int32_t priority)
{
	return priority_real(place->device, place->priorities, priority);
}

CUresult place_enter(struct session *session, struct place *place)
{
	CUresult result;

	if (likely(session->current == place))
		return CUDA_SUCCESS;
	result = cuda.cuCtxSetCurrent(place->share.context);
	session->current = result == CUDA_SUCCESS ? place : NULL;
	return result;
}

void place_enter_any(struct session *session)
{
	for (unsigned i = 0; i < DEVICES_MAX; i++)
		if (session->places[i] && place_enter(session, session->places[i]) == CUDA_SUCCESS)
			return;
}

CUresult place_get_entered(struct session *session, uint32_t device, struct place **ret_place)
{
	*ret_place = place_get(session, device);
	return *ret_place ? place_enter(session, *ret_place) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult place_take_stream(
	struct session *session, struct place *place, int32_t priority, CUstream *ret_real)
{
	return place->share.green
		       ? green_take_stream(session, place->share.green, priority, ret_real)
		       : stream_pool_take(session, place->device, priority, ret_real);
}

void place_give_stream(struct place *place, CUstream real, int32_t priority)
{
	if (place->share.green)
		green_give_stream(place->share.green, real);
	else
		stream_pool_give(place->device, real, priority);
}

void place_discard_stream(struct place *place, CUstream real)
{
	if (place->share.green)
		green_give_stream(place->share.green, real);
	else
		stream_pool_discard(place->device, real);
}

static struct grant grant_of(const struct session *session, const struct place *place)
{
	return (struct grant){
		.n_sms = place->share.n_sms,
		.priority = session->limits.priority,
		.memory = atomic_load(&place->memory->quota.limit),
	};
}

static void log_grant(const struct session *session, const struct device *device)
{
	const struct grant *grant = &session->grants[device->ordinal];
	uint64_t limit = session_memory_limit(session, device->ordinal);
	char memory[SIZE_TEXT_MAX] = "all";

	if (limit == UINT64_MAX && grant->priority == PRIORITY_NORMAL)
		return;
	if (limit != UINT64_MAX)
		format_size(limit, memory, sizeof(memory));
	log_line("Client " SESSION_NAME " on device %u: memory limit %s, priority %d",
		SESSION_NAME_ARGS(session), device->ordinal, memory, grant->priority);
}

static void log_arrival(struct session *session, const struct place *place)
{
	const struct device *device = place->device;
	char uuid[DEVICE_UUID_TEXT];

	device_uuid_text(device, uuid);
	log_line("Device %s (uuid %s) is associated", device->facts.name, uuid);
	session->grants[device->ordinal] = grant_of(session, place);
	atomic_fetch_or(&session->granted, (uint64_t)1 << device->ordinal);
	if (!atomic_exchange(&session->is_active, true))
		log_line("Status of client " SESSION_NAME " is ACTIVE", SESSION_NAME_ARGS(session));
	log_grant(session, device);
	session->on_news(session->on_news_arg);
}

/*
 * The GPUs of a session reach each other's memory where they can, whether or not the
 * program has asked for it: copies by whatever stream are then as they are without us.
 */
static CUresult grant_others_access(struct session *session, struct place *place)
{
	CUresult result = CUDA_SUCCESS;

	for (unsigned i = 0; i < DEVICES_MAX && result == CUDA_SUCCESS; i++) {
		struct place *other = session->places[i];

		if (other && device_reaches(other->device, place->device))
			result = arena_grant_access(&place->arena, other->device);
		if (result == CUDA_SUCCESS && other && device_reaches(place->device, other->device))
			result = arena_grant_access(&other->arena, place->device);
	}
	return result == CUDA_SUCCESS ? arena_sharing->admit(session, place->device) : result;
}

/* What the operator and the client itself allow. */
static uint64_t memory_limit(const struct session *session, uint32_t ordinal)
{
	uint64_t asked = session->memory_asked[ordinal];

	return asked > 0 ? MIN(asked, session->limits.memory[ordinal])
			 : session->limits.memory[ordinal];
}

/* Makes session::timeline, asked and passed behind it, device memory. Once is enough. */
static CUresult timeline_pin(struct session *session)
{
	uint64_t *timeline = session->page->timeline;
	CUresult result;

	if (session->timeline)
		return CUDA_SUCCESS;
	result = cuda.cuMemHostRegister_v2(timeline, PAGE_WORDS_BYTES,
		CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
	if (result != CUDA_SUCCESS)
		return result;
	result = cuda.cuMemHostGetDevicePointer_v2(&session->timeline, timeline, 0);
	if (result != CUDA_SUCCESS) {
		session->timeline = 0;
		exclusive_unpin(session, timeline);
	}
	return result;
}

static void timeline_unpin(struct session *session, bool is_lost)
{
	if (session->timeline && !is_lost)
		exclusive_unpin(session, session->page->timeline);
	session->timeline = 0;
}

/* The thread has the GPU's own context at first. */
static CUresult place_make(struct session *session, struct place *place)
{
	CUresult result = device_enter(place->device);

	if (result == CUDA_SUCCESS)
		result = timeline_pin(session);
	if (result == CUDA_SUCCESS)
		result = arena_init(&place->arena, place->device, session->id, session->account);
	if (result != CUDA_SUCCESS)
		return result;
	place->arena.memory = device_quota_ref(place->memory);
	result = grant_others_access(session, place);
	if (result == CUDA_SUCCESS)
		result = sm_share_take(session, place->device, &place->share);
	if (result == CUDA_SUCCESS && place->share.green)
		result = cuda.cuCtxSetCurrent(place->share.context);
	if (result != CUDA_SUCCESS) {
		sm_share_give(place->device, &place->share, result_is_fault(result));
		arena_fini(&place->arena, false);
	}
	return result;
}

/* The NULL stream of a place; it needs no end of its own. */
static void init_null(struct stream *stream, struct place *place)
{
	*stream = (struct stream){
		.id = place->device->ordinal,
		.place = place,
		.priority = place_priority(place, 0),
		.turns = &place->turns,
		.is_null = true,
	};
	place->turns.null = stream;
}

static CUresult place_new(struct session *session, struct device *device, struct place **ret_place)
{
	/* Its streams: the NULL stream, that of printf_capture.c, the one that releases pending
	 * waits. */
	_cleanup_account_ struct place *place =
		account_alloc(session->account, sizeof(*place), 3 * KEPT_STREAM + 2 * KEPT_EVENT);
	CUresult result;

	if (!place)
		return CUDA_ERROR_OUT_OF_MEMORY;
	place->device = device;
	place->memory = device_quota_new(session->account, session->group, device->ordinal,
		memory_limit(session, device->ordinal));
	if (!place->memory)
		return CUDA_ERROR_OUT_OF_MEMORY;
	place->priorities = priority_range(device, session->limits.priority);
	init_null(&place->null, place);
	session->current = NULL;
	result = place_make(session, place);
	if (result != CUDA_SUCCESS) {
		device_quota_unref(place->memory);
		return result;
	}
	session->current = place;
	*ret_place = TAKE_PTR(place);
	return CUDA_SUCCESS;
}

CUresult place_open(struct session *session, uint32_t device, struct place **ret_place)
{
	struct device *gpu = device_get(device);
	CUresult result;

	*ret_place = place_get(session, device);
	if (*ret_place)
		return CUDA_SUCCESS;
	result = gpu ? place_new(session, gpu, ret_place) : CUDA_ERROR_INVALID_DEVICE;
	if (result != CUDA_SUCCESS)
		return result;
	session->places[device] = *ret_place;
	log_arrival(session, *ret_place);
	return CUDA_SUCCESS;
}

CUresult do_device_open(struct session *session, uint32_t device, uint32_t active_threads,
	uint64_t asked_memory, uint32_t *ret_n_sms, uint64_t *ret_heap, uint64_t *ret_heap_size,
	uint64_t *ret_granularity, int32_t *ret_priority_least, int32_t *ret_priority_greatest,
	uint64_t limits[16])
{
	struct place *place;
	CUresult result;

	session->active_threads = active_threads ? active_threads : ACTIVE_THREADS_ALL;
	session->memory_asked[device] = asked_memory;
	result = place_open(session, device, &place);
	if (result != CUDA_SUCCESS)
		return result;
	/* It may have been opened before, by memory of another process. */
	atomic_store(&place->memory->quota.limit, memory_limit(session, device));
	*ret_n_sms = place->share.n_sms;
	*ret_heap = place->arena.base;
	*ret_heap_size = place->arena.size;
	*ret_granularity = place->device->granularity;
	*ret_priority_least = place->device->priority_least;
	*ret_priority_greatest = place->device->priority_least -
				 (place->priorities.least - place->priorities.greatest);
	for (unsigned i = 0; i < DEVICE_LIMITS; i++)
		limits[i] = place->device->limits[i];
	return CUDA_SUCCESS;
}

/* Ends the place; its streams are gone, no work of the session is on the GPU. */
static void place_free(struct session *session, struct place *place, bool is_lost)
{
	/* These know their context: where it cannot be entered they end as well. */
	if (!is_lost && place->turns.event)
		cuda.cuEventDestroy_v2(place->turns.event);
	if (!is_lost && place->text)
		place_give_stream(place, place->text, place_priority(place, 0));
	limits_forget(place, is_lost);
	if (is_lost)
		arena_fini(&place->arena, true);
	else
		arena_sharing->keep(&place->arena);
	device_quota_unref(place->memory);
	session->places[place->device->ordinal] = NULL;
	session->current = NULL;
	/* A context that nobody has any more may end at any time. */
	if (place->share.green && !is_lost)
		cuda.cuCtxSetCurrent(place->device->context);
	sm_share_give(place->device, &place->share, is_lost);
	account_free(place);
}

void places_trim(struct session *session)
{
	for (unsigned i = 0; i < DEVICES_MAX && session->has_spare; i++) {
		struct place *place = session->places[i];

		if (place && place->arena.spare && place_enter(session, place) == CUDA_SUCCESS)
			arena_trim(&place->arena);
	}
	session->has_spare = false;
	session->seen_pressure = atomic_load_explicit(&pressure, memory_order_relaxed);
}

void session_devices_reclaim(void)
{
	atomic_fetch_add(&pressure, 1);
}

bool session_devices_reclaim_wanted(const struct session *session)
{
	return session->has_spare &&
	       session->seen_pressure != atomic_load_explicit(&pressure, memory_order_relaxed);
}

static void places_begin(struct session *session, void *part)
{
	(void)part;
	devices_tell(session->page);
}

static void places_free(struct session *session, bool is_lost)
{
	for (unsigned i = 0; i < DEVICES_MAX; i++)
		if (session->places[i])
			place_free(session, session->places[i], is_lost);
}

const struct session_room timeline_room = {.end = timeline_unpin};

const struct session_room places_room = {
	.begin = places_begin,
	.end = places_free,
};
