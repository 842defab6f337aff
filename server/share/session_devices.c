/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A session's parts of GPUs: opened, entered, ended. A worker.
 *
 * Invariant: a part is in session::devices only when it is complete.
 */

#include "session_devices.h"

#include "borrowers.h"
#include "eviction.h"
#include "grant.h"
#include "green.h"
#include "limit_text.h"
#include "messages.h"
#include "server/util/log.h"
#include "server/util/machine_memory.h"
#include "server/util/pack.h"
#include "server/session/fault.h"
#include "server/session/session.h"
#include "server/session/session_part.h"
#include "server/schedule/closed_gpu.h"
#include "server/schedule/quiet.h"
#include "server/schedule/stream_pool.h"
#include "do_share.h"

CUresult session_device_take_stream(
	struct session *session, struct session_device *sdev, int32_t priority, CUstream *ret_real)
{
	return sdev->share.green ? green_take_stream(session, sdev->share.green, priority, ret_real)
				 : stream_pool_take(session, sdev->device, priority, ret_real);
}

void session_device_give_stream(struct session_device *sdev, CUstream real, int32_t priority)
{
	if (sdev->share.green)
		green_give_stream(sdev->share.green, real);
	else
		stream_pool_give(sdev->device, real, priority);
}

void session_device_discard_stream(struct session_device *sdev, CUstream real)
{
	if (sdev->share.green)
		green_give_stream(sdev->share.green, real);
	else
		stream_pool_discard(sdev->device, real);
}

static struct grant grant_of(const struct session *session, const struct session_device *sdev)
{
	return (struct grant){
		.n_sms = sdev->share.n_sms,
		.priority = session->limits.priority,
		.memory = atomic_load(&sdev->memory->quota.limit),
	};
}

static void log_grant(const struct session *session, const struct device *device)
{
	const struct grant *grant = &session->grants[device->ordinal];
	uint64_t limit = grant_memory_limit(session, device->ordinal);
	char memory[SIZE_TEXT_MAX] = "all";

	if (limit == UINT64_MAX && grant->priority == PRIORITY_NORMAL)
		return;
	if (limit != UINT64_MAX)
		format_size(limit, memory, sizeof(memory));
	log_line("Client " SESSION_NAME " on device %u: memory limit %s, priority %d",
		SESSION_NAME_ARGS(session), device->ordinal, memory, grant->priority);
}

static void log_arrival(struct session *session, const struct session_device *sdev)
{
	const struct device *device = sdev->device;
	char uuid[DEVICE_UUID_TEXT];

	device_uuid_text(device, uuid);
	log_line("Device %s (uuid %s) is associated", device->facts.name, uuid);
	session->grants[device->ordinal] = grant_of(session, sdev);
	atomic_fetch_or(&session->granted, (uint64_t)1 << device->ordinal);
	if (!atomic_exchange(&session->is_active, true))
		log_line("Status of client " SESSION_NAME " is ACTIVE", SESSION_NAME_ARGS(session));
	log_grant(session, device);
	session->on_news(session->on_news_arg);
}

/*
 * The GPUs of a session reach each other's memory if they can, whether or not the program
 * has requested it. So copies behave as natively, on any stream.
 */
static CUresult grant_others_access(struct session *session, struct session_device *sdev)
{
	CUresult result = CUDA_SUCCESS;

	for (unsigned i = 0; i < DEVICES_MAX && result == CUDA_SUCCESS; i++) {
		struct session_device *other = session->devices[i];

		if (other && device_reaches(other->device, sdev->device))
			result = arena_grant_access(&sdev->arena, other->device);
		if (result == CUDA_SUCCESS && other && device_reaches(sdev->device, other->device))
			result = arena_grant_access(&other->arena, sdev->device);
	}
	return result == CUDA_SUCCESS ? arena_sharing->grant_access(session, sdev->device) : result;
}

/* The lower of the operator's and the client's limit. */
static uint64_t memory_limit(const struct session *session, uint32_t ordinal)
{
	uint64_t asked = session->memory_asked[ordinal];

	return asked > 0 ? MIN(asked, session->limits.memory[ordinal])
			 : session->limits.memory[ordinal];
}

/*
 * Makes session::timeline, and asked and passed behind it, device memory. Does nothing if
 * that was done.
 */
static CUresult timeline_pin(struct session *session)
{
	void *timeline = shm_raw(&session->page->timeline[0]);
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
		quiet_unpin(session, timeline);
	}
	return result;
}

static void timeline_unpin(struct session *session, bool device_lost)
{
	if (session->timeline && !device_lost)
		quiet_unpin(session, shm_raw(&session->page->timeline[0]));
	session->timeline = 0;
}

/* Where to look for VA windows: those that the session had in another server. */
static uint32_t from_of(const struct session *session, const struct device *device)
{
	uint64_t base = session->arena_bases[device->ordinal];

	return base > 0 ? owner_va_window(base) : 0;
}

/* The GPU's own context is current at first. */
static CUresult session_device_make(struct session *session, struct session_device *sdev)
{
	CUresult result = device_enter(sdev->device);

	if (result == CUDA_SUCCESS)
		result = timeline_pin(session);
	if (result == CUDA_SUCCESS)
		result = arena_init(&sdev->arena, sdev->device, session->id, session->account,
			from_of(session, sdev->device));
	if (result != CUDA_SUCCESS)
		return result;
	sdev->arena.memory = device_quota_ref(sdev->memory);
	result = grant_others_access(session, sdev);
	if (result == CUDA_SUCCESS)
		result = sm_share_take(session, sdev->device, &sdev->share);
	if (result == CUDA_SUCCESS && sdev->share.green)
		result = cuda.cuCtxSetCurrent(sdev->share.context);
	if (result != CUDA_SUCCESS) {
		sm_share_give(sdev->device, &sdev->share, result_is_fault(result));
		arena_fini(&sdev->arena, false);
	}
	return result;
}

/* The NULL stream of a session_device; it needs no separate end. */
static void init_null(
	const struct session *session, struct stream *stream, struct session_device *sdev)
{
	*stream = (struct stream){
		.id = sdev->device->ordinal,
		.device = sdev->device,
		.sdev = sdev,
		.priority = session_device_priority(sdev, 0),
		.turns = &sdev->turns,
		.is_null = true,
		.is_apart = session->limits.priority == PRIORITY_BACKGROUND,
	};
	sdev->turns.null = stream;
}

static CUresult session_device_new(
	struct session *session, struct device *device, struct session_device **ret_sdev)
{
	/* Its streams: the NULL stream, the stream of printf_capture.c, the release stream. */
	_cleanup_account_ struct session_device *sdev =
		account_alloc(session->account, sizeof(*sdev), 3 * KEPT_STREAM + 2 * KEPT_EVENT);
	CUresult result;

	if (!sdev)
		return CUDA_ERROR_OUT_OF_MEMORY;
	sdev->device = device;
	sdev->memory = device_quota_new(session->account, memory_limit(session, device->ordinal));
	if (!sdev->memory)
		return CUDA_ERROR_OUT_OF_MEMORY;
	/* It comes from another server. */
	sdev->memory->is_unchecked = session->script != NULL;
	for (unsigned i = 0; i < MEMBERSHIPS_MAX; i++)
		if (session_group(session, i))
			device_quota_join(sdev->memory, session_group(session, i), device->ordinal);
	session->current = NULL;
	result = session_device_make(session, sdev);
	if (result != CUDA_SUCCESS) {
		device_quota_unref(sdev->memory);
		return result;
	}
	/* The device is open now, so its stream priorities are known. */
	sdev->priorities = priority_range(device, session->limits.priority);
	init_null(session, &sdev->null, sdev);
	elastic_shares_take(session, sdev);
	session->current = sdev;
	*ret_sdev = TAKE_PTR(sdev);
	return CUDA_SUCCESS;
}

CUresult session_device_open(
	struct session *session, uint32_t device, struct session_device **ret_sdev)
{
	struct device *gpu = device_get(device);
	CUresult result;

	*ret_sdev = session_device_get(session, device);
	if (*ret_sdev)
		return CUDA_SUCCESS;
	result = gpu ? session_device_new(session, gpu, ret_sdev) : CUDA_ERROR_INVALID_DEVICE;
	if (result != CUDA_SUCCESS)
		return result;
	session->devices[device] = *ret_sdev;
	atomic_fetch_add(&gpu->n_sessions, 1);
	launching_join(session);
	eviction_join(session);
	if (!session->quotas[device])
		session->quotas[device] = device_quota_ref((*ret_sdev)->memory);
	log_arrival(session, *ret_sdev);
	return CUDA_SUCCESS;
}

CUresult do_device_open(struct session *session, const struct msg_device_open *msg,
	uint32_t *ret_n_sms, uint64_t *ret_heap, uint64_t *ret_heap_size, uint64_t *ret_granularity,
	int32_t *ret_priority_least, int32_t *ret_priority_greatest, uint64_t limits[16])
{
	struct session_device *sdev;
	CUresult result;

	session->active_threads = msg->active_threads ? msg->active_threads : ACTIVE_THREADS_ALL;
	session->memory_asked[msg->device] = msg->memory_limit;
	result = session_device_open(session, msg->device, &sdev);
	if (result != CUDA_SUCCESS)
		return result;
	/* It may have been opened earlier, by memory of another process. */
	atomic_store(&sdev->memory->quota.limit, memory_limit(session, msg->device));
	*ret_n_sms = sdev->share.n_sms;
	*ret_heap = sdev->arena.base;
	*ret_heap_size = sdev->arena.size;
	*ret_granularity = sdev->device->granularity;
	*ret_priority_least = sdev->device->priority_least;
	*ret_priority_greatest =
		sdev->device->priority_least - (sdev->priorities.least - sdev->priorities.greatest);
	for (unsigned i = 0; i < DEVICE_LIMITS; i++)
		limits[i] = sdev->device->limits[i];
	return CUDA_SUCCESS;
}

/* Ends the session_device. Its streams have ended, and no work of the session is on the GPU. */
static void session_device_free(
	struct session *session, struct session_device *sdev, bool device_lost)
{
	/* These know their context, so they end even if it cannot be entered. */
	if (!device_lost && sdev->turns.event)
		cuda.cuEventDestroy_v2(sdev->turns.event);
	if (!device_lost && sdev->text)
		session_device_give_stream(sdev, sdev->text, session_device_priority(sdev, 0));
	cu_limits_forget(sdev, device_lost);
	if (device_lost)
		arena_fini(&sdev->arena, true);
	else
		arena_sharing->keep(&sdev->arena);
	device_quota_unref(sdev->memory);
	session->devices[sdev->device->ordinal] = NULL;
	atomic_fetch_sub(&sdev->device->n_sessions, 1);
	session->current = NULL;
	/* A context without users may end at any time. */
	if (sdev->share.green && !device_lost)
		cuda.cuCtxSetCurrent(sdev->device->context);
	elastic_shares_give(sdev, device_lost);
	sm_share_give(sdev->device, &sdev->share, device_lost);
	account_free(sdev);
}

void session_devices_trim(struct session *session)
{
	for (unsigned i = 0; i < DEVICES_MAX && session->has_unused; i++) {
		struct session_device *sdev = session->devices[i];

		if (sdev && sdev->arena.spare &&
			session_device_enter(session, sdev) == CUDA_SUCCESS)
			arena_trim(&sdev->arena);
	}
	session->has_unused = false;
	atomic_fetch_and(&session->memory_wanted, ~WANTED_TRIM);
}

static void session_devices_begin(struct session *session, _unused_ void *part)
{
	devices_fill_page(session->page);
}

static void session_devices_free(struct session *session, bool device_lost)
{
	bool is_last = eviction_leave(session);

	for (unsigned i = 0; i < DEVICES_MAX; i++)
		if (session->devices[i])
			session_device_free(session, session->devices[i], device_lost);
	borrowers_note_end(session);
	/* A GPU's own context is current now. */
	if (is_last && !device_lost)
		host_store_trim(session);
}

const struct session_part timeline_part = {.end = timeline_unpin};

static bool session_devices_are_settled(const struct session *session)
{
	return !session->has_unused;
}

static void session_devices_trim_all(struct session *session, _unused_ bool all)
{
	session_devices_trim(session);
}

/* The file with the bytes lies beside the store. */
static const char *session_devices_stay(const struct session *session)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < DEVICES_MAX; i++) {
		const struct session_device *sdev = session->devices[i];

		bytes += sdev ? sdev->arena.away + sdev->allocations_away : 0;
	}
	return bytes > 0 && bytes > machine_memory_free("") / 2
		       ? "its evicted memory takes more than half of the free host memory"
		       : NULL;
}

static int session_devices_pack(struct session *session, struct pack *pack)
{
	int r = 0;

	for (unsigned i = 0; i < DEVICES_MAX; i++) {
		const struct session_device *sdev = session->devices[i];

		pack_put_number(pack, session->memory_asked[i]);
		pack_put_number(pack, sdev ? sdev->arena.base : 0);
	}
	for (unsigned i = 0; i < DEVICES_MAX && r == 0; i++) {
		struct session_device *sdev = session->devices[i];

		/* A chunk is exported without a context, also after a fault. */
		if (sdev)
			r = arena_pack(&sdev->arena, pack);
	}
	return r;
}

static uint64_t heap_size(const struct device *device)
{
	return ALIGN_UP(device->facts.total_memory, VA_WINDOW);
}

/* What the client has asked for, and the addresses that it knows. */
static int unpack_bases(struct session *session, struct pack *pack)
{
	for (unsigned i = 0; i < DEVICES_MAX; i++) {
		const struct device *device = device_get(i);
		uint64_t base;

		session->memory_asked[i] = pack_get_number(pack, UINT64_MAX);
		session->arena_bases[i] = base = pack_get_number(pack, DEVICE_SPACE_END);
		if (base > 0 && (!device || base < DEVICE_SPACE || base % VA_WINDOW ||
					heap_size(device) > DEVICE_SPACE_END - base))
			return -EBADMSG;
	}
	return pack->is_bad ? -EBADMSG : 0;
}

static int session_devices_check(struct session *session, struct pack *pack)
{
	int r = unpack_bases(session, pack);

	for (unsigned i = 0; i < DEVICES_MAX && r == 0; i++)
		if (session->arena_bases[i] > 0)
			r = arena_check(session->account, session->arena_bases[i],
				heap_size(device_get(i)), false, pack);
	return r;
}

/* Opens the GPU with the addresses that the client knows. */
static int reopen(struct session *session, unsigned ordinal)
{
	uint64_t base = session->arena_bases[ordinal];
	struct session_device *sdev;

	if (base == 0)
		return 0;
	if (session_device_open(session, ordinal, &sdev) != CUDA_SUCCESS)
		return -EIO;
	return sdev->arena.base == base ? 0 : -EADDRINUSE;
}

/* All GPUs first: each maps the memory of all. */
static int session_devices_unpack(struct session *session, struct pack *pack)
{
	int r = unpack_bases(session, pack);

	for (unsigned i = 0; i < DEVICES_MAX && r == 0; i++)
		r = reopen(session, i);
	for (unsigned i = 0; i < DEVICES_MAX && r == 0; i++) {
		struct session_device *sdev = session->devices[i];

		if (sdev && session_device_enter(session, sdev) != CUDA_SUCCESS)
			r = -EIO;
		else if (sdev)
			r = arena_unpack(&sdev->arena, pack);
	}
	return r;
}

const struct session_part session_devices_part = {
	.stays = session_devices_stay,
	.pack = session_devices_pack,
	.check = session_devices_check,
	.unpack = session_devices_unpack,
	.begin = session_devices_begin,
	.is_settled = session_devices_are_settled,
	.trim = session_devices_trim_all,
	.end = session_devices_free,
};
