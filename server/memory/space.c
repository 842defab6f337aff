/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Makes space when memory is short. A worker.
 *
 * Invariant: each wait has an end, because the session's kernels may wait for a copy that comes
 * after this message.
 */

#include "space.h"

#include <time.h>

#include "away.h"
#include "clock.h"
#include "server/util/log.h"
#include "server/session/session.h"
#include "server/session/session_part.h"
#include "server/device/device_quota.h"
#include "server/schedule/deferred.h"
#include "server/schedule/gate.h"
#include "server/share/borrowers.h"
#include "server/share/eviction.h"
#include "server/share/session_devices.h"
#include "server/share/soft_limit.h"
#include "server/stream/stream.h"

/* How long to wait for the session's own work, and for unused memory of other sessions. */
#define IDLE_ROUNDS 100
#define RECLAIM_ROUNDS 5
#define CLOSING_ROUNDS 500
/* Rounds that ask for a larger lease of the group's limit (lease.h) before they make space here. */
#define LEASE_ROUNDS 2
#define SLEEP_MS 10

/*
 * New memory waits until another session can evict some, at most for its turn. Less if the session
 * has work itself, which may wait for a message that comes after this one.
 */
#define EVICTION_ROUNDS 100
#define EVICTION_AT_WORK_NS UINT64_C(1000000000)

/* How much the driver gets at a time for code and graphs, whose sizes are not known. */
#define DRIVER_BYTES ((uint64_t)32 << 20)
#define DRIVER_ROUNDS 8

static bool wait_until_idle(struct session *session)
{
	struct gate_wait wait = gate_wait(GATE_IDLE, session);

	while (!streams_poll(session))
		if (!gate_again(&wait))
			return false;
	return true;
}

/* Memory of a session that has ended takes time: 100 GB take some tenths of a second. */
static unsigned memory_rounds(const struct session_device *sdev)
{
	return atomic_load(&sdev->device->closing) > 0 ? CLOSING_ROUNDS : RECLAIM_ROUNDS;
}

/* Whether the session's own limit refuses this size. Then memory of others is of no use. */
static bool is_at_own_limit(const struct session_device *sdev, uint64_t size)
{
	const struct quota *own = &sdev->memory->quota;
	uint64_t used = quota_used(own);

	return used > own->limit || size > own->limit - used;
}

/* The group whose limit refuses this size: only memory of its members is of use. NULL: none. */
static struct group *full_group(const struct session_device *sdev, uint64_t size)
{
	return device_quota_full_group(sdev->memory, sdev->device->ordinal, size);
}

/* Whether the size is of the memory that the session's soft limits guarantee. */
static bool is_entitled(const struct session *session, uint32_t device, uint64_t size)
{
	return soft_limit_is_set(session, device) && size <= soft_limit_left(session, device);
}

/*
 * Whether other sessions can help: the GPU is full, or what others have borrowed fills the limit
 * of a group.
 */
static bool may_ask_others(
	const struct session *session, const struct session_device *sdev, uint64_t size)
{
	const uint32_t device = sdev->device->ordinal;

	return full_group(sdev, size) ? is_entitled(session, device, size)
				      : eviction_may_ask(session, device, size);
}

/*
 * Gives back what the session keeps unused, by its parts. Managed memory is not memory of the GPU,
 * but counts for the group. False: there is nothing, or the session has work.
 */
static bool shrink(struct session *session, const struct session_device *sdev, bool is_own)
{
	bool with_host = is_own || sdev->memory->n_in > 0;

	if (!(session->has_unused || (with_host && session->has_unused_host)) ||
		!wait_until_idle(session))
		return false;
	each_part(session_parts, trim, session, with_host);
	return true;
}

/* How often to look for what ends: freed memory of this session, or memory of others. */
static unsigned rounds_of(
	const struct session *session, const struct session_device *sdev, bool is_own)
{
	if (!is_own)
		return memory_rounds(sdev);
	return session->n_closing_mappings > 0 || atomic_load(&sdev->memory->closing) > 0
		       ? IDLE_ROUNDS
		       : 0;
}

/*
 * How much has to leave so that the group, or else the GPU, has `size' bytes. 0: the GPU is too
 * small, even if all other sessions left.
 */
static uint64_t lack(const struct session_device *sdev, uint64_t size, const struct group *within)
{
	uint64_t own = quota_used(&sdev->memory->quota), total = sdev->device->facts.total_memory;
	size_t n_free = 0, n_total = 0;

	if (own > total || size > total - own)
		return 0;
	if (within) {
		uint64_t left = quota_left(&within->memory[sdev->device->ordinal]);

		return size > left ? ALIGN_UP(size - left, QUOTA_STEP) : QUOTA_STEP;
	}
	if (cuda.cuMemGetInfo_v2(&n_free, &n_total) != CUDA_SUCCESS || n_free >= size)
		return sdev->device->granularity;
	return size - n_free;
}

static void log_full_store(struct session *session, const struct session_device *sdev)
{
	if (session->is_full_store_logged)
		return;
	session->is_full_store_logged = true;
	log_line("Client " SESSION_NAME " gets CUDA_ERROR_OUT_OF_MEMORY: memory of idle clients "
		 "cannot leave device %u, because too little of the store is free: %llu of %llu "
		 "MiB (MPS_OVERSUBSCRIBE_HOST)%s",
		SESSION_NAME_ARGS(session), sdev->device->ordinal,
		(unsigned long long)(host_store_limit() - host_store_used()) >> 20,
		(unsigned long long)host_store_limit() >> 20,
		resource_of_server(RESOURCE_STORE)->is_common
			? ""
			: "; no user may have more of it than it leaves to the others");
}

/* Whether another attempt may find space. */
static bool may_come(enum eviction_stay stay)
{
	return stay == STAY_AT_WORK || stay == STAY_LASTS || stay == STAY_BLOCKED;
}

static bool is_store_too_small(uint64_t bytes)
{
	return host_store_limit() - host_store_used() < bytes;
}

/* Makes others leave: those at rest, or else one that is at work. */
static uint64_t try_eviction(struct session *session, const struct eviction_lack *lack,
	uint64_t since_ns, enum eviction_stay *stay)
{
	uint64_t given;

	*stay = STAY_AT_WORK;
	if (!eviction_may_try(session, UINT64_C(1) << lack->device, since_ns))
		return 0;
	given = eviction_make_space(session, lack, since_ns, stay);
	if (given == 0 && *stay == STAY_AT_WORK)
		given = eviction_take_turn(session, lack, stay);
	return given;
}

static bool has_work(struct session *session, bool is_for_driver)
{
	return is_for_driver ? session->busy != NULL : !streams_poll(session);
}

/*
 * Other sessions evict memory. Returns whether any has left. `is_for_driver': within a call of the
 * driver that needs memory of this session, so that none of it may leave meanwhile.
 */
static bool evict_others(
	struct session *session, struct session_device *sdev, uint64_t size, bool is_for_driver)
{
	struct gate_wait wait = gate_wait(GATE_SPACE, session);
	enum eviction_stay stay = STAY_NOTHING;
	const uint32_t device = sdev->device->ordinal;
	const struct group *within = is_for_driver ? NULL : full_group(sdev, size);
	uint64_t bytes = lack(sdev, size, within), given = 0, start_ns;

	if (bytes == 0 || atomic_load(&session->is_ending))
		return false;
	/* After an attempt that was not enough, it has its place in the queue. */
	start_ns =
		session->eviction->turn.waits_ns > 0 ? session->eviction->turn.waits_ns : now_ns();
	eviction_set_busy(session, true, 0);
	do {
		wait.end_ns = start_ns + (has_work(session, is_for_driver) ? EVICTION_AT_WORK_NS
									   : eviction_turn_ns());
		given = try_eviction(session,
			&(struct eviction_lack){device,
				bytes + atomic_load(&session->eviction->away[device]), within},
			start_ns, &stay);
	} while (given == 0 && may_come(stay) &&
		 (is_for_driver ? gate_again(&wait)
				: !(is_entitled(session, device, size) &&
					  is_store_too_small(bytes)) &&
					  away_pause(session, &wait, start_ns)));
	session->eviction->found = stay;
	eviction_set_busy(session, false, 0);
	if (given > 0)
		atomic_fetch_or(&session->memory_wanted, WANTED_TURN_END);
	else
		eviction_end_turn(session);
	/* This message and the next ones of its run may use what others have got meanwhile. */
	if (eviction_bytes(session) > 0)
		(void)away_return(session);
	gate_end(&wait);
	return given > 0;
}

/* Everything else has failed: the client that has borrowed the space ends, if it cannot leave. */
static bool end_borrower(struct session *session, struct session_device *sdev, uint64_t size)
{
	const uint32_t device = sdev->device->ordinal;
	const struct group *within = full_group(sdev, size);
	uint64_t bytes;

	if (atomic_load(&session->is_ending) || session_device_enter(session, sdev) != CUDA_SUCCESS)
		return false;
	bytes = lack(sdev, size, within);
	if (bytes > 0 && is_entitled(session, device, size) &&
		(session->eviction->found != STAY_AT_WORK || is_store_too_small(bytes)) &&
		borrowers_end_one(session, &(struct eviction_lack){device, bytes, within}))
		return true;
	if (session->eviction->found == STAY_STORE)
		log_full_store(session, sdev);
	return false;
}

/* `is_own': the session's own limit refuses, so memory of other sessions is of no use. */
static bool make_space(struct session *session, struct session_device *sdev, uint64_t size,
	bool is_own, unsigned round)
{
	bool may_ask = !is_own && may_ask_others(session, sdev, size);
	unsigned n_rounds;

	if (round < LEASE_ROUNDS && shrink(session, sdev, is_own))
		return true;
	if (may_ask && round < EVICTION_ROUNDS && evict_others(session, sdev, size, false))
		return true;
	n_rounds = rounds_of(session, sdev, is_own);
	if (n_rounds == 0 || round > n_rounds || atomic_load(&session->is_ending))
		return may_ask && round < EVICTION_ROUNDS && end_borrower(session, sdev, size);
	if (round <= 1 && !is_own)
		eviction_ask_for_unused();
	if (round <= 1)
		deferred_reclaim();
	nanosleep(&(struct timespec){.tv_nsec = SLEEP_MS * 1000000L}, NULL);
	return true;
}

bool space_make(struct session *session, struct session_device *sdev, uint64_t size, unsigned round)
{
	bool is_at_own = is_at_own_limit(sdev, size);

	if (!is_at_own && round < LEASE_ROUNDS &&
		lease_extend(session, sdev->device->ordinal, size))
		return session_device_enter(session, sdev) == CUDA_SUCCESS;
	if (!make_space(session, sdev, size, is_at_own, round))
		return false;
	each_part(session_parts, poll, session);
	return session_device_enter(session, sdev) == CUDA_SUCCESS;
}

/*
 * Nothing has left for the driver. A client ends only if the GPU is full: the driver returns the
 * same error for other reasons.
 */
static bool end_borrower_for_driver(struct session *session, struct session_device *sdev)
{
	struct eviction_lack lack = {.device = sdev->device->ordinal};
	size_t n_free, n_total;

	if (atomic_load(&session->is_ending) || !soft_limit_holds(session, lack.device) ||
		session_device_enter(session, sdev) != CUDA_SUCCESS ||
		cuda.cuMemGetInfo_v2(&n_free, &n_total) != CUDA_SUCCESS || n_free >= DRIVER_BYTES)
		return false;
	lack.bytes = DRIVER_BYTES - n_free;
	return (session->eviction->found != STAY_AT_WORK || is_store_too_small(lack.bytes)) &&
	       borrowers_end_one(session, &lack);
}

bool space_make_for_driver(
	struct session *session, struct session_device *sdev, CUresult result, unsigned round)
{
	return result == CUDA_ERROR_OUT_OF_MEMORY &&
	       eviction_may_ask(session, sdev->device->ordinal, 0) && round < DRIVER_ROUNDS &&
	       (evict_others(session, sdev, DRIVER_BYTES, true) ||
		       end_borrower_for_driver(session, sdev)) &&
	       session_device_enter(session, sdev) == CUDA_SUCCESS;
}

CUresult space_take(
	struct session *session, struct session_device *sdev, uint64_t size, uint64_t *ret_address)
{
	CUresult result = arena_alloc(&sdev->arena, size, ret_address);
	uint64_t bytes;

	if (size > sdev->arena.size)
		return result;
	bytes = ALIGN_UP(size, sdev->arena.page);
	for (unsigned i = 0;
		result == CUDA_ERROR_OUT_OF_MEMORY && space_make(session, sdev, bytes, i); i++)
		result = arena_alloc(&sdev->arena, size, ret_address);
	return result;
}
