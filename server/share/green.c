/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Green contexts. A worker.
 *
 * Invariant: only the driver and the server determine SMs. A client describes how the SMs
 * were divided, and the driver divides them again. It divides in the same way each time, so
 * the parts of one division do not overlap.
 */

#include "green.h"

#include <string.h>

#include "hash.h"
#include "lock.h"
#include "messages.h"
#include "session_device.h"
#include "wire.h"
#include "server/util/log.h"
#include "server/session/session.h"
#include "server/session/session_part.h"
#include "server/driver/driver_facts.h"
#include "server/schedule/blocked_streams.h"
#include "server/schedule/quiet.h"
#include "do_share.h"

/* Each green context has its own channels for its streams, less a reserve. Graphs take the GPU's.
 */
#define CHANNELS_LEFT 4u

/*
 * The green context of a share gets this many channels in advance, in 27 MiB of the GPU's
 * memory, because all streams of its sessions use it. Sessions without blocked streams leave
 * a part of them to the others.
 */
#define CHANNELS_AHEAD 80u
#define CHANNELS_KEPT_PART 4u

/*
 * The most green contexts: those of sessions, which are counted for the sessions that made them
 * (resource.h), kept ones, and those whose end is deferred.
 */
#define GREENS_OF_SERVER_MAX 256u

static atomic_uint n_greens;

/*
 * Unused green contexts are kept for the next session that wants the same SMs, the newest
 * first: the driver leaks 1.6 MiB with each one that is made and ended (measured, natively
 * as well).
 */
static struct lock kept_lock = LOCK_INIT(GREENS_KEPT);
static struct green *kept;
static unsigned n_kept;

/* A driver before CUDA 12.5 lacks some of these. */
static bool is_supported(void)
{
	return cuda.cuDeviceGetDevResource && cuda.cuGreenCtxGetDevResource &&
	       cuda.cuDevSmResourceSplitByCount && cuda.cuDevResourceGenerateDesc &&
	       cuda.cuGreenCtxCreate && cuda.cuGreenCtxDestroy && cuda.cuGreenCtxStreamCreate;
}

struct green *green_ref(struct green *green)
{
	green->refs++;
	return green;
}

/* On the deferred thread. */
static void green_end(struct deferred *deferred)
{
	struct green *green = (struct green *)deferred;

	cuda.cuGreenCtxDestroy(green->real);
	atomic_fetch_sub(&n_greens, 1);
	account_free(green);
}

_Static_assert(sizeof(struct green_key) == sizeof(void *) + sizeof(uint64_t) +
						   4 * sizeof(uint32_t) +
						   sizeof(((struct green_key *)0)->parts),
	"keys are compared byte by byte");

/* Under the lock. */
static struct green *unlink_kept(struct green **link)
{
	struct green *green = *link;

	if (green) {
		*link = green->next;
		n_kept--;
	}
	return green;
}

/* False: no green context with the same SMs is kept. */
static bool take_kept(struct green *green)
{
	struct green **link = &kept, *found;

	lock_take(&kept_lock);
	while (*link && memcmp(&(*link)->key, &green->key, sizeof(green->key)) != 0)
		link = &(*link)->next;
	found = unlink_kept(link);
	lock_release(&kept_lock);
	if (!found)
		return false;
	green->real = found->real;
	atomic_init(&green->n_channels, atomic_load(&found->n_channels));
	account_free(found);
	return true;
}

/* Ends the oldest kept one, which may wait for running work. False: none is kept. */
static bool green_evict(void)
{
	struct green **link = &kept, *green;

	lock_take(&kept_lock);
	while (*link && (*link)->next)
		link = &(*link)->next;
	green = unlink_kept(link);
	lock_release(&kept_lock);
	if (!green)
		return false;
	deferred_add(&green->deferred);
	deferred_reclaim();
	return true;
}

unsigned greens_kept(void)
{
	unsigned n;

	lock_take(&kept_lock);
	n = n_kept;
	lock_release(&kept_lock);
	return n;
}

/* Forgets the kept ones, which end with the contexts. */
static void greens_forget(void)
{
	while (kept) {
		struct green *green = LIST_POP(kept);

		atomic_fetch_sub(&n_greens, 1);
		account_free(green);
	}
	n_kept = 0;
}

const struct device_part greens_device_part = {.close = greens_forget};

_Static_assert(offsetof(struct green, deferred) == 0, "a deferred call is its green context");

void green_unref(struct green *green, bool device_lost)
{
	if (!green || --green->refs > 0)
		return;
	account_give(green, RESOURCE_GREENS, 1);
	if (device_lost) {
		atomic_fetch_sub(&n_greens, 1);
		account_free(green);
		return;
	}
	green->deferred = (struct deferred){
		.context = green->key.device->context,
		.on_done = green_end,
	};
	green->sdev = NULL;
	account_disown(green);
	lock_take(&kept_lock);
	LIST_PUSH(kept, green);
	n_kept++;
	lock_release(&kept_lock);
}

/* Drops all of the session's. The driver's are kept for others, unless the context is lost. */
static void greens_free(struct session *session, bool device_lost)
{
	for (uint32_t id = 0; id < WIRE_GREENS_MAX; id++)
		green_unref(handle_remove(&session->greens, id), device_lost);
}

/* The SMs that the session has on a GPU, or those of one of its green contexts. */
static CUresult resource_of(
	struct session *session, uint32_t device, uint32_t of, CUdevResource *ret_resource)
{
	const struct green *green = of < WIRE_GREENS_MAX ? session_green(session, of) : NULL;
	struct session_device *sdev;
	CUresult result = session_device_get_entered(session, device, &sdev);

	if (result != CUDA_SUCCESS)
		return result;
	if (!is_supported())
		return CUDA_ERROR_NOT_SUPPORTED;
	if (of == WIRE_GREENS_MAX && !sdev->share.green)
		return cuda.cuDeviceGetDevResource(
			sdev->device->handle, ret_resource, CU_DEV_RESOURCE_TYPE_SM);
	if (of == WIRE_GREENS_MAX)
		green = sdev->share.green;
	else if (!green || green->sdev != sdev)
		return CUDA_ERROR_INVALID_HANDLE;
	return cuda.cuGreenCtxGetDevResource(green->real, ret_resource, CU_DEV_RESOURCE_TYPE_SM);
}

static struct sm_group group_of(const CUdevResource *resource)
{
	return (struct sm_group){
		.count = resource->sm.smCount,
		.part_min = resource->sm.minSmPartitionSize,
		.alignment = resource->sm.smCoscheduledAlignment,
	};
}

static void green_get_sms(const CUdevResource *resource, uint32_t ret_sms[3])
{
	ret_sms[0] = resource->sm.smCount;
	ret_sms[1] = resource->sm.minSmPartitionSize;
	ret_sms[2] = resource->sm.smCoscheduledAlignment;
}

CUresult do_sm_resource(struct session *session, uint32_t device, uint32_t of, uint32_t sms[3])
{
	CUdevResource resource;
	CUresult result = resource_of(session, device, of, &resource);

	if (result == CUDA_SUCCESS)
		green_get_sms(&resource, sms);
	return result;
}

/* A division with space for all its parts; the rest comes after the groups. */
struct division {
	CUdevResource parts[WIRE_SM_GROUPS_MAX + 1];
	unsigned n_groups;
};

static CUresult green_divide(struct session *session, uint32_t device, uint32_t of, uint32_t flags,
	uint32_t count, struct division *division)
{
	CUdevResource *rest = &division->parts[WIRE_SM_GROUPS_MAX];
	CUdevResource whole;
	CUresult result = resource_of(session, device, of, &whole);

	*rest = (CUdevResource){0};
	if (result != CUDA_SUCCESS)
		return result;
	return division->n_groups > 0 ? cuda.cuDevSmResourceSplitByCount(division->parts,
						&division->n_groups, &whole, rest, flags, count)
				      : cuda.cuDevSmResourceSplitByCount(NULL, &division->n_groups,
						&whole, NULL, flags, count);
}

CUresult do_sm_split(struct session *session, const struct msg_sm_split *msg, uint32_t *ret_n_made,
	uint32_t rest[3], struct sm_group *groups, uint32_t n_groups_max, uint32_t *ret_n_groups)
{
	struct division division = {.n_groups = msg->wanted};
	CUresult result =
		green_divide(session, msg->device, msg->of, msg->flags, msg->count, &division);

	if (result != CUDA_SUCCESS)
		return result;
	*ret_n_made = division.n_groups;
	*ret_n_groups = msg->wanted > 0 ? MIN(division.n_groups, n_groups_max) : 0;
	for (uint32_t i = 0; i < *ret_n_groups; i++)
		groups[i] = group_of(&division.parts[i]);
	green_get_sms(&division.parts[WIRE_SM_GROUPS_MAX], rest);
	return CUDA_SUCCESS;
}

/*
 * Checks the chosen parts, each at most once, and moves them to the front. Without parts:
 * all SMs.
 */
static CUresult green_choose(struct division *division, const uint32_t *parts, uint32_t n_parts,
	CUdevResource *ret_chosen)
{
	bool is_taken[WIRE_SM_GROUPS_MAX + 1] = {false};

	for (uint32_t i = 0; i < n_parts; i++) {
		uint32_t part = parts[i];

		if (part > WIRE_SM_GROUPS_MAX || is_taken[part] ||
			(part < WIRE_SM_GROUPS_MAX && part >= division->n_groups) ||
			division->parts[part].type != CU_DEV_RESOURCE_TYPE_SM)
			return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
		is_taken[part] = true;
		ret_chosen[i] = division->parts[part];
	}
	return CUDA_SUCCESS;
}

/* Two keys with the same hash are confused: the client gets other SMs, nothing worse. */
static uint64_t hash_of(const struct green_key *key)
{
	return hash_bytes(HASH_START, key, sizeof(*key));
}

/* The green context that is divided; NULL: the whole GPU. */
static const struct green *green_divided(
	struct session *session, const struct session_device *sdev, uint32_t of)
{
	return of < WIRE_GREENS_MAX ? session_green(session, of) : sdev->share.green;
}

static void key_fill(struct green_key *key, const struct green *of, struct device *device,
	uint32_t flags, uint32_t count, uint32_t n_groups, const uint32_t *parts, uint32_t n_parts)
{
	memset(key, 0, sizeof(*key));
	key->device = device;
	key->of = of ? hash_of(&of->key) : 0;
	key->flags = flags;
	key->count = count;
	key->n_groups = n_groups;
	key->n_parts = n_parts;
	for (uint32_t i = 0; i < n_parts; i++)
		key->parts[parts[i] / 64] |= 1ull << (parts[i] % 64);
}

/* Counts one more. False: sessions already have the most that are possible. */
static bool count_one(void)
{
	/* A kept one makes space when it ends. */
	if (atomic_fetch_add(&n_greens, 1) < GREENS_OF_SERVER_MAX || green_evict())
		return true;
	atomic_fetch_sub(&n_greens, 1);
	return false;
}

/* The caller has counted the stream. On failure it is not counted any more. */
static CUresult stream_create(struct green *green, int32_t priority, CUstream *ret_real)
{
	CUresult result = cuda.cuGreenCtxStreamCreate(
		ret_real, green->real, CU_STREAM_NON_BLOCKING, priority);

	if (result != CUDA_SUCCESS)
		atomic_fetch_sub(&green->n_streams, 1);
	return result;
}

/* The green context has had this many streams at once. */
static void note_channels(struct green *green, unsigned n)
{
	unsigned known = atomic_load(&green->n_channels);

	while (known < n && !atomic_compare_exchange_weak(&green->n_channels, &known, n))
		;
}

void green_give_stream(struct green *green, CUstream real)
{
	cuda.cuStreamDestroy_v2(real);
	atomic_fetch_sub(&green->n_streams, 1);
}

/* Without memory for more, or if the session ends, the first channels have to suffice. */
static void make_channels(struct session *session, struct green *green)
{
	CUstream made[CHANNELS_AHEAD];
	unsigned n = 0;

	if (atomic_load(&green->n_channels) >= CHANNELS_AHEAD ||
		!quiet_call_begin(session, green->key.device, 0))
		return;
	do
		atomic_fetch_add(&green->n_streams, 1);
	while (stream_create(green, 0, &made[n]) == CUDA_SUCCESS && ++n < CHANNELS_AHEAD);
	note_channels(green, n);
	while (n > 0)
		green_give_stream(green, made[--n]);
	quiet_call_end(green->key.device);
}

static CUresult green_make_new(
	struct session *session, struct green *green, CUdevResource *resources, uint32_t n)
{
	CUdevResourceDesc desc;
	CUresult result;

	if (!count_one())
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = cuda.cuDevResourceGenerateDesc(&desc, resources, n);
	/* This call waits for all that is on the GPU. */
	if (result == CUDA_SUCCESS && !quiet_call_begin(session, green->key.device, 0))
		result = CUDA_ERROR_MPS_RPC_FAILURE;
	else if (result == CUDA_SUCCESS) {
		result = cuda.cuGreenCtxCreate(
			&green->real, desc, green->key.device->handle, CU_GREEN_CTX_DEFAULT_STREAM);
		quiet_call_end(green->key.device);
	}
	if (result != CUDA_SUCCESS)
		atomic_fetch_sub(&n_greens, 1);
	return result;
}

/* green_unref() gives back what this takes. */
static CUresult green_make_real(
	struct session *session, struct green *green, CUdevResource *resources, uint32_t n)
{
	CUresult result = CUDA_SUCCESS;

	atomic_init(&green->n_channels, driver_facts()->n_channels_green - CHANNELS_LEFT);
	if (!account_take(green, RESOURCE_GREENS, 1))
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!take_kept(green))
		result = green_make_new(session, green, resources, n);
	if (result != CUDA_SUCCESS)
		account_give(green, RESOURCE_GREENS, 1);
	return result;
}

static CUresult green_new(struct session *session, uint32_t id, const struct green_key *key,
	struct session_device *sdev, CUdevResource *chosen, uint32_t n)
{
	struct green *green;
	CUresult result =
		session_object_new(&session->greens, id, sizeof(*green), KEPT_GREEN, &green);

	if (result != CUDA_SUCCESS)
		return result;
	green->key = *key;
	green->id = id;
	green->sdev = sdev;
	green->refs = 1;
	result = green_make_real(session, green, chosen, n);
	if (result != CUDA_SUCCESS)
		account_free(handle_remove(&session->greens, id));
	return result;
}

CUresult green_take(struct session *session, const struct green_key *key, CUdevResource *parts,
	bool has_channels, struct green **ret_green)
{
	struct green *green = account_alloc(session->account, sizeof(*green), 0);
	CUresult result;

	if (!green)
		return CUDA_ERROR_OUT_OF_MEMORY;
	green->key = *key;
	green->refs = 1;
	result = green_make_real(session, green, parts, key->n_parts);
	if (result == CUDA_SUCCESS) {
		if (has_channels)
			make_channels(session, green);
		*ret_green = green;
	} else {
		account_free(green);
	}
	return result;
}

CUresult do_green_create(
	struct session *session, const struct msg_green_create *msg, const uint32_t *parts)
{
	struct division division = {.n_groups = msg->wanted};
	CUdevResource chosen[WIRE_SM_GROUPS_MAX + 1];
	struct green_key key;
	struct session_device *sdev;
	CUresult result;

	if (msg->n_parts == 0) {
		result = resource_of(session, msg->device, msg->of, chosen);
	} else if (msg->wanted == 0) {
		result = CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
	} else {
		result = green_divide(
			session, msg->device, msg->of, msg->flags, msg->count, &division);
		if (result == CUDA_SUCCESS)
			result = green_choose(&division, parts, msg->n_parts, chosen);
	}
	if (result != CUDA_SUCCESS)
		return result;
	sdev = session_device_get(session, msg->device);
	key_fill(&key, green_divided(session, sdev, msg->of), sdev->device, msg->flags, msg->count,
		msg->wanted, parts, msg->n_parts);
	return green_new(session, msg->green, &key, sdev, chosen, MAX(msg->n_parts, 1u));
}

CUresult do_green_destroy(struct session *session, struct green *green)
{
	handle_remove(&session->greens, green->id);
	green_unref(green, false);
	return CUDA_SUCCESS;
}

CUresult green_try_stream(
	struct session *session, struct green *green, int32_t priority, CUstream *ret_real)
{
	unsigned n = atomic_load(&green->n_channels);

	n -= blocked_has(session) ? 0 : n / CHANNELS_KEPT_PART;
	if (atomic_fetch_add(&green->n_streams, 1) < n)
		return stream_create(green, priority, ret_real);
	atomic_fetch_sub(&green->n_streams, 1);
	return CUDA_ERROR_NOT_READY;
}

CUresult green_take_stream(
	struct session *session, struct green *green, int32_t priority, CUstream *ret_real)
{
	CUresult result = green_try_stream(session, green, priority, ret_real);
	unsigned n;

	if (result != CUDA_ERROR_NOT_READY)
		return result;
	/* While the session sleeps, others may have the channel. */
	if (!quiet_call_begin(session, green->key.device, 0))
		return CUDA_ERROR_MPS_RPC_FAILURE;
	n = atomic_fetch_add(&green->n_streams, 1) + 1;
	result = stream_create(green, priority, ret_real);
	if (result == CUDA_SUCCESS)
		note_channels(green, n);
	quiet_call_end(green->key.device);
	return result;
}

const struct session_part greens_part = {
	.end = greens_free,
	.is_recorded = true,
};
