/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Memory that leaves, and comes back. A worker.
 *
 * Invariant: while memory is away, WANTED_RETURN is set, and the worker executes no message that
 * can use memory. No byte is given up: without space on the GPU, the worker waits.
 */

#include "away.h"

#include <inttypes.h>

#include "clock.h"
#include "virtual.h"
#include "server/util/log.h"
#include "server/session/at_work.h"
#include "server/session/fault.h"
#include "server/session/session.h"
#include "server/session/session_part.h"
#include "server/device/device_quota.h"
#include "server/schedule/blocked_streams.h"
#include "server/schedule/gate.h"
#include "server/share/eviction.h"
#include "server/share/mover.h"
#include "server/share/session_devices.h"
#include "server/stream/stream.h"

/*
 * How long work on the GPU may go on without visible progress, after the session has to stop for
 * another one. It is work of several seconds, or does not end.
 */
#define TURN_WORK_NS UINT64_C(10000000000)

/*
 * Between two pieces of the store that idle workers make: registering one delays launches of other
 * clients (host_store.c). A worker begins after REST_MS without a message: while it makes a piece,
 * its own client waits, too.
 */
#define PAUSE_MS 1
#define PAUSE_AT_WORK_MS 5
#define REST_MS 5

/* How often to ask for a larger lease of a group's limit (lease.h), to which memory returns. */
#define LEASE_AGAIN_NS UINT64_C(100000000)

static uint64_t away_on(const struct session_device *sdev)
{
	return sdev->arena.away + sdev->allocations_away;
}

/* Tells other threads what is away. */
static uint64_t publish(struct session *session)
{
	struct eviction *own = session->eviction;
	uint64_t bytes = 0, since = own->away_since_ns, now = now_ns();

	for (unsigned i = 0; i < DEVICES_MAX; i++) {
		uint64_t away = session->devices[i] ? away_on(session->devices[i]) : 0;

		eviction_note_away(session, i, away);
		bytes += away;
	}
	if (bytes > 0 && since == 0)
		own->away_since_ns = now;
	if (bytes == 0 && since > 0) {
		own->away_since_ns = 0;
		own->away_ns += now - since;
	}
	if (bytes > 0 || own->is_held)
		atomic_fetch_or(&session->memory_wanted, WANTED_RETURN);
	else
		atomic_fetch_and(&session->memory_wanted, ~WANTED_RETURN);
	return bytes;
}

void away_note_arrival(struct session *session)
{
	(void)publish(session);
}

/* ---- it leaves */

/* The reason to tell: what another attempt could change comes last. */
static enum eviction_stay reason(unsigned stays)
{
	for (unsigned i = EVICTION_STAYS; i-- > 1;)
		if (stays & 1u << i)
			return i;
	return STAY_NOTHING;
}

/*
 * What leaves as a whole goes first, if all of it has to leave, and comes back first. Chunks of
 * arenas, which have parts, then fill what space there is on the GPU and in the store. Otherwise
 * two sessions could hold the last space of both, neither of which is enough for a whole one.
 */
static void leave_by_mover(
	struct session *session, struct mover *mover, uint64_t bytes, unsigned *stays)
{
	uint64_t leaving = virtual_evict(session, mover, bytes, bytes, stays);

	if (leaving < bytes)
		leaving += arena_evict(&mover->sdev->arena, mover, bytes - leaving, stays);
	if (leaving < bytes)
		virtual_evict(session, mover, bytes - leaving, UINT64_MAX, stays);
}

static uint64_t leave_device(
	struct session *session, struct session_device *sdev, uint64_t bytes, unsigned *stays)
{
	uint64_t before = away_on(sdev);
	struct mover mover;
	CUresult result = session_device_enter(session, sdev);

	if (result == CUDA_SUCCESS)
		result = mover_begin(&mover, session, sdev);
	if (result == CUDA_SUCCESS) {
		leave_by_mover(session, &mover, bytes, stays);
		result = mover_end(&mover);
	}
	if (result != CUDA_SUCCESS)
		*stays |= 1u << STAY_REFUSED;
	return away_on(sdev) - before;
}

static void log_left(struct session *session, unsigned device, uint64_t bytes, uint64_t start_ns)
{
	if (eviction_is_test())
		return;
	log_line("Client " SESSION_NAME ": %" PRIu64 " MiB were evicted from device %u in %" PRIu64
		 " ms",
		SESSION_NAME_ARGS(session), bytes >> 20, device, (now_ns() - start_ns) / 1000000);
}

/* All GPUs for a device of UINT32_MAX. The session is at rest. */
static uint64_t leave(struct session *session, uint32_t device, uint64_t bytes, unsigned *stays)
{
	uint64_t left = 0, start_ns = now_ns();

	for (unsigned i = 0; i < DEVICES_MAX; i++) {
		struct session_device *sdev = session->devices[i];
		uint64_t n;

		if (!sdev || (device != UINT32_MAX && device != i))
			continue;
		n = leave_device(session, sdev, bytes, stays);
		if (n > 0)
			log_left(session, i, n, start_ns);
		left += n;
	}
	if (left > 0) {
		session->eviction->n_moves++;
		session->eviction->bytes_out += left;
	}
	publish(session);
	return left;
}

/* Whether nothing of the session is under way on GPUs. */
static bool is_at_rest(struct session *session)
{
	if (fault_get() != CUDA_SUCCESS || !streams_poll(session))
		return false;
	each_part(session_parts, poll, session);
	return session->n_closing_mappings == 0;
}

static void answer_request(struct session *session, const struct eviction_request *request)
{
	unsigned stays = 0;
	uint64_t left = leave(session, request->device, request->bytes, &stays);

	eviction_answer(session, left, reason(stays));
}

/* The session is at rest. */
static void answer_next(struct session *session)
{
	struct eviction_request request;

	if (eviction_take_request(session, &request))
		answer_request(session, &request);
}

/* Whether its work has not gone on for too long. */
static bool work_lasts(struct session *session)
{
	struct eviction *own = session->eviction;
	uint64_t now = now_ns(), at = eviction_progress(session);

	if (own->stop_ns == 0 || own->stop_progress != at) {
		own->stop_ns = now;
		own->stop_progress = at;
	}
	return now - own->stop_ns >= TURN_WORK_NS;
}

static void stay_here(
	struct session *session, enum eviction_stay stay, const struct eviction_request *request)
{
	log_line("Client " SESSION_NAME " has to stop for another one, and stays on device %u: %s",
		SESSION_NAME_ARGS(session), request->device, eviction_stay_text(stay));
	eviction_answer(session, 0, stay);
}

/*
 * The session has to stop for the turn of another one: its memory leaves when its work has ended,
 * which other messages may not delay.
 */
static void stop(struct session *session)
{
	struct eviction_request request;
	enum eviction_stay stay = STAY_NOTHING;

	if (fault_get() != CUDA_SUCCESS)
		return;
	if (!is_at_rest(session)) {
		if (blocked_has(session))
			stay = STAY_BLOCKED;
		else if (work_lasts(session))
			stay = STAY_LASTS;
		else
			return;
	}
	session->eviction->stop_ns = 0;
	if (!eviction_take_request(session, &request))
		return;
	if (stay == STAY_NOTHING)
		answer_request(session, &request);
	else
		stay_here(session, stay, &request);
}

static void refuse(struct session *session)
{
	struct eviction_request request;

	atomic_store(&session->eviction->idle_since_ns, now_ns());
	if (!atomic_load(&session->eviction->must_stop) && eviction_take_request(session, &request))
		eviction_answer(session, 0, STAY_AT_WORK);
}

void away_refuse(struct session *session)
{
	if (!eviction_must_wait(session->eviction))
		atomic_fetch_and(&session->memory_wanted, ~WANTED_EVICTION);
	refuse(session);
}

/* The session is held. False: it still has work. */
static bool leave_held(struct session *session)
{
	unsigned stays = 0;

	if (!is_at_rest(session))
		return false;
	leave(session, UINT32_MAX, EVICTION_ALL, &stays);
	atomic_store(&session->eviction->stay, reason(stays));
	return true;
}

/* A session that is held tries again after its next message, if anything stays. */
static void answer_requests(struct session *session)
{
	atomic_fetch_and(&session->memory_wanted, ~WANTED_EVICTION);
	answer_next(session);
	if (atomic_load(&session->eviction->is_held))
		leave_held(session);
	else
		publish(session);
}

void away_serve(struct session *session)
{
	if (atomic_load(&session->eviction->must_stop)) {
		stop(session);
		return;
	}
	if (!is_at_rest(session)) {
		away_refuse(session);
		return;
	}
	session_devices_trim(session);
	if (atomic_load(&session->memory_wanted) & WANTED_EVICTION)
		answer_requests(session);
}

void away_leave(struct session *session)
{
	unsigned stays = 0;

	if (is_at_rest(session))
		leave(session, UINT32_MAX, EVICTION_ALL, &stays);
}

/* ---- the store */

static bool may_go_on(void *arg)
{
	struct session *session = arg;

	return !ring_has_more(&session->receiver) && !atomic_load(&session->is_ending) &&
	       !(atomic_load(&session->memory_wanted) & (WANTED_EVICTION | WANTED_TRIM));
}

static struct session_device *any_device(struct session *session)
{
	for (unsigned i = 0; i < DEVICES_MAX; i++)
		if (session->devices[i])
			return session->devices[i];
	return NULL;
}

int away_warm_store(struct session *session)
{
	struct session_device *sdev = eviction_is_allowed(session) ? any_device(session) : NULL;
	uint64_t size = sdev ? eviction_store_size() : 0;

	if (size == 0 || eviction_is_test() || fault_get() != CUDA_SUCCESS)
		return -1;
	if (now_ns() < atomic_load(&session->eviction->idle_since_ns) + REST_MS * UINT64_C(1000000))
		return REST_MS;
	if (session_device_enter(session, sdev) != CUDA_SUCCESS ||
		!host_store_warm(size, may_go_on, session))
		return -1;
	return at_work_count() > 0 ? PAUSE_AT_WORK_MS : PAUSE_MS;
}

/* ---- it comes back */

static CUresult return_to(struct session *session, struct session_device *sdev)
{
	struct mover mover;
	CUresult result = session_device_enter(session, sdev), moved;

	if (result == CUDA_SUCCESS)
		result = mover_begin(&mover, session, sdev);
	if (result != CUDA_SUCCESS)
		return result;
	result = virtual_return(session, &mover);
	if (result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY) {
		CUresult other = arena_return(&sdev->arena, &mover);

		result = result == CUDA_SUCCESS ? other : result;
	}
	moved = mover_end(&mover);
	/* Without memory for all, what has come is there. mover_end() tells of a refused copy. */
	if (moved == CUDA_SUCCESS && result != CUDA_ERROR_OUT_OF_MEMORY)
		moved = result;
	arena_returned(&sdev->arena, moved);
	virtual_returned(session, sdev, moved);
	return result == CUDA_SUCCESS ? moved : result;
}

/* Everything for which there is space. `ret_sdev': where there is none. */
static CUresult return_all(struct session *session, struct session_device **ret_sdev)
{
	for (unsigned i = 0; i < DEVICES_MAX; i++) {
		struct session_device *sdev = session->devices[i];
		CUresult result = CUDA_SUCCESS;

		if (sdev && away_on(sdev) > 0)
			result = return_to(session, sdev);
		if (result != CUDA_SUCCESS) {
			*ret_sdev = sdev;
			return result;
		}
	}
	return CUDA_SUCCESS;
}

bool away_pause(struct session *session, struct gate_wait *wait, uint64_t since_ns)
{
	bool again;

	publish(session);
	eviction_set_busy(session, true, since_ns);
	again = gate_again(wait);
	eviction_set_busy(session, true, 0);
	if (atomic_load(&session->eviction->must_stop))
		return again;
	if (is_at_rest(session))
		answer_next(session);
	else
		refuse(session);
	return again;
}

static void log_returned(
	struct session *session, uint64_t bytes, uint64_t since_ns, uint64_t start_ns)
{
	if (bytes == 0 || eviction_is_test())
		return;
	log_line("Client " SESSION_NAME ": %" PRIu64 " MiB are back in %" PRIu64
		 " ms; they were away for %" PRIu64 " ms",
		SESSION_NAME_ARGS(session), bytes >> 20, (now_ns() - start_ns) / 1000000,
		(start_ns - since_ns) / 1000000);
}

static bool is_over(struct session *session)
{
	return fault_get() != CUDA_SUCCESS || atomic_load(&session->is_ending);
}

/*
 * What a group whose limit refuses, or else the GPU, which is entered, lacks for what has to come
 * back.
 */
static struct eviction_lack lack_of(const struct session_device *sdev)
{
	uint64_t bytes = away_on(sdev);
	const uint32_t device = sdev->device->ordinal;
	const struct group *full = device_quota_full_group(sdev->memory, device, bytes);
	size_t n_free, n_total;

	if (full)
		n_free = quota_left(&full->memory[device]);
	else if (cuda.cuMemGetInfo_v2(&n_free, &n_total) != CUDA_SUCCESS)
		n_free = bytes;
	bytes = n_free >= bytes ? sdev->device->granularity : bytes - n_free;
	return (struct eviction_lack){device, bytes, full};
}

/* The daemon asks all servers of the group, so not at each attempt. */
static bool extend_lease(struct session *session, const struct session_device *sdev)
{
	struct eviction *own = session->eviction;
	uint64_t now = now_ns();

	if (now - own->lease_asked_ns < LEASE_AGAIN_NS)
		return false;
	own->lease_asked_ns = now;
	return lease_extend(session, sdev->device->ordinal, away_on(sdev));
}

/*
 * Makes others leave: those at rest, or else one that is at work; members of the group whose limit
 * refuses, which may have room in other servers.
 */
static bool make_space(
	struct session *session, const struct session_device *sdev, uint64_t since_ns)
{
	const struct eviction_lack lack = lack_of(sdev);
	enum eviction_stay *stay = &session->eviction->found;

	if (lack.within && extend_lease(session, sdev))
		return true;
	if (eviction_make_space(session, &lack, since_ns, stay) > 0)
		return true;
	if (*stay == STAY_AT_WORK)
		return eviction_take_turn(session, &lack, stay) > 0;
	/* No session can leave. Sessions that wait behind it may have the free space meanwhile. */
	eviction_postpone_turn(session);
	return false;
}

/* One attempt. `ret_bytes': what has been away. */
static CUresult try_to_return(struct session *session, uint64_t since_ns, uint64_t *ret_bytes)
{
	struct session_device *sdev;
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
	uint64_t start_ns;

	publish(session);
	if (!eviction_may_try(session, 0, since_ns))
		return result;
	do {
		start_ns = now_ns();
		*ret_bytes = publish(session);
		result = return_all(session, &sdev);
	} while (result == CUDA_ERROR_OUT_OF_MEMORY && !is_over(session) &&
		 make_space(session, sdev, since_ns));
	session->eviction->move_ns = now_ns() - start_ns;
	return result;
}

static void say_what_it_waits_for(struct session *session, struct gate_wait *wait)
{
	if (session->eviction->found == STAY_STORE)
		gate_say(wait, "waits for space on a GPU for its memory, which is evicted: too "
			       "little of the store is free for memory of other clients "
			       "(MPS_OVERSUBSCRIBE_HOST)");
	else
		gate_say(wait, "waits for space on a GPU for its memory, which is evicted");
}

static bool return_with_space(struct session *session, uint64_t *ret_bytes)
{
	struct gate_wait wait = gate_wait(GATE_SPACE, session);
	struct eviction *own = session->eviction;
	/* Within a wait for new memory, it has its place in the queue. */
	uint64_t start_ns = own->turn.waits_ns > 0 ? own->turn.waits_ns : now_ns();
	bool has_left = false;
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

	while (!is_over(session)) {
		if (atomic_load(&own->must_stop))
			stop(session);
		else if (atomic_load(&own->is_held))
			has_left = has_left || leave_held(session);
		else
			result = try_to_return(session, start_ns, ret_bytes);
		/* It is suspended, or resumed, while it waits (server/suspension.h). */
		if (has_left)
			session_note_suspension(session, atomic_load(&session->is_suspended)
								 ? SUSPENSION_AT_REST
								 : SUSPENSION_NONE);
		if (result == CUDA_SUCCESS)
			break;
		if (!eviction_must_wait(own))
			say_what_it_waits_for(session, &wait);
		if (!away_pause(session, &wait, start_ns))
			break;
	}
	if (!(atomic_load(&session->memory_wanted) & WANTED_TURN_END))
		eviction_end_turn(session);
	gate_end(&wait);
	return result == CUDA_SUCCESS;
}

bool away_return(struct session *session)
{
	uint64_t start_ns = now_ns(), since_ns = session->eviction->away_since_ns;
	uint64_t bytes = publish(session);
	bool is_back;

	if (bytes == 0)
		since_ns = start_ns;
	if (bytes == 0 && !eviction_must_wait(session->eviction))
		return true;
	eviction_set_busy(session, true, 0);
	is_back = return_with_space(session, &bytes);
	if (is_back && bytes > 0) {
		session->eviction->n_returns++;
		session->eviction->bytes_in += bytes;
	}
	publish(session);
	eviction_set_busy(session, false, 0);
	if (is_back)
		log_returned(session, bytes, since_ns, start_ns);
	return is_back;
}
