/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Whose turn it is to have a GPU, among sessions that are at work. Any thread.
 *
 * Invariant: no thread waits under the lock of the list.
 */

#include "clock.h"
#include "eviction_list.h"
#include "soft_limit.h"
#include "server/util/log.h"
#include "server/session/session.h"
#include "server/schedule/gate.h"

/* What a session that has to stop may take: see TURN_WORK_NS in away.c; the rest is a long call. */
#define STOP_NS UINT64_C(15000000000)

/* What moves of memory may take, for eviction_turn_ns(). */
#define MOVE_NS UINT64_C(5000000000)

/* GPUs are bits. */
static bool is_inside_on(const struct session *session, uint64_t gpus)
{
	for (; gpus != 0; gpus &= gpus - 1)
		if (!soft_limit_holds(session, (uint32_t)__builtin_ctzll(gpus)))
			return false;
	return true;
}

bool eviction_precedes(const struct eviction *one, const struct eviction *other, uint64_t gpus)
{
	bool is_inside = is_inside_on(one->session, gpus);

	if (is_inside != is_inside_on(other->session, gpus))
		return is_inside;
	if (one->turn.has_begun != other->turn.has_begun)
		return one->turn.has_begun;
	return one->turn.waits_ns < other->turn.waits_ns;
}

/* Under the lock: whether the turn of `one' comes before that of `own'. */
static bool is_before(const struct eviction *one, const struct eviction *own)
{
	uint64_t gpus = one->turn.gpus & own->turn.gpus;

	return one != own && one->turn.waits_ns > 0 && gpus != 0 &&
	       eviction_precedes(one, own, gpus);
}

static bool is_first(const struct eviction *own)
{
	for (const struct eviction *one = evictions; one; one = one->next)
		if (is_before(one, own))
			return false;
	return true;
}

void eviction_begin_turn(struct session *session)
{
	struct eviction *own = session->eviction;

	lock_hold(&eviction_lock);
	own->turn.has_begun = own->turn.waits_ns > 0 && is_first(own);
}

/*
 * Under the lock: whether it has stayed for long enough. Borrowed memory has no such right against
 * a session inside its soft limit.
 */
static bool has_stayed(
	const struct eviction *one, const struct session *session, uint32_t device, uint64_t now)
{
	return now - one->turn.here_ns >= eviction_stay_ns() ||
	       (soft_limit_holds(session, device) && soft_limit_borrowed(one->session, device) > 0);
}

/* Under the lock: which of two has to stop. To ask one whose work lasts takes ten seconds. */
static bool stops_before(const struct eviction *one, const struct eviction *other)
{
	if (!other)
		return true;
	if (eviction_is_lasting(one) != eviction_is_lasting(other))
		return !eviction_is_lasting(one);
	return one->turn.here_ns < other->turn.here_ns;
}

/* Under the lock: whether it can stop for the session, and then frees `bytes' at least. */
static bool can_stop(const struct eviction *one, const struct session *session,
	const struct eviction_lack *lack, uint64_t bytes)
{
	return one->session != session && one->state == EVICTION_IDLE && !one->is_busy &&
	       eviction_may_leave(one, session, lack) >= bytes;
}

/*
 * Under the lock: the session that has stayed for longest, and for long enough, of those that can
 * free `bytes'; NULL: none, for now. One whose work lasts has to stop only if there is no other.
 */
static struct eviction *choose_of(const struct session *session, const struct eviction_lack *lack,
	uint64_t bytes, uint64_t now, bool *ret_is_other)
{
	struct eviction *first = NULL;
	bool is_other = false;

	for (struct eviction *one = evictions; one; one = one->next) {
		if (!can_stop(one, session, lack, bytes))
			continue;
		is_other = is_other || !eviction_is_lasting(one);
		if (has_stayed(one, session, lack->device, now) && stops_before(one, first))
			first = one;
	}
	*ret_is_other = is_other;
	return first && is_other && eviction_is_lasting(first) ? NULL : first;
}

/*
 * Under the lock: the same. A session that frees all that is lacking has to stop rather than small
 * neighbours, which would free only some of it.
 */
static struct eviction *choose_to_stop(
	const struct session *session, const struct eviction_lack *lack, uint64_t now)
{
	bool is_other;
	struct eviction *first = choose_of(session, lack, lack->bytes, now, &is_other);

	return is_other ? first : choose_of(session, lack, 1, now, &is_other);
}

static void log_first_turn(uint32_t device)
{
	static atomic_bool is_logged[DEVICES_MAX];

	if (!atomic_exchange(&is_logged[device], true))
		log_line("The memory of the clients at work does not fit on device %u: they take "
			 "turns, and each stays for %llu s at least (MPS_OVERSUBSCRIBE_STAY)",
			device, (unsigned long long)eviction_stay_ns() / 1000000000);
}

/* The ID of the session that has to stop for this one; 0: none, for now. */
static uint32_t stop_one(struct session *session, const struct eviction_lack *lack)
{
	struct eviction *own = session->eviction, *victim;

	lock_hold(&eviction_lock);
	victim = is_first(own) ? choose_to_stop(session, lack, now_ns()) : NULL;
	if (!victim)
		return 0;
	/* A turn holds the whole GPU. */
	own->turn.has_begun = !lack->within;
	atomic_store(&victim->must_stop, true);
	eviction_ask(
		victim, lack->device, MIN(lack->bytes, eviction_may_leave(victim, session, lack)));
	return victim->session->id;
}

void eviction_postpone_turn(struct session *session)
{
	lock_hold(&eviction_lock);

	session->eviction->turn.has_begun = false;
	session->eviction->turn.waits_ns = now_ns();
}

uint64_t eviction_take_turn(
	struct session *session, const struct eviction_lack *lack, enum eviction_stay *ret_stay)
{
	uint32_t id = stop_one(session, lack);
	uint64_t given;

	*ret_stay = STAY_AT_WORK;
	if (id == 0)
		return 0;
	log_first_turn(lack->device);
	given = eviction_wait(session, id, GATE_TURN, STOP_NS, ret_stay);
	if (given == 0)
		eviction_postpone_turn(session);
	return given;
}

void eviction_end_turn(struct session *session)
{
	lock_hold(&eviction_lock);

	session->eviction->turn = (struct eviction_turn){.here_ns = now_ns()};
}

/* The GPUs to which memory of the session has to come back. */
static uint64_t away_from(const struct eviction *own)
{
	uint64_t gpus = 0;

	for (unsigned i = 0; i < DEVICES_MAX; i++)
		gpus |= (uint64_t)(atomic_load(&own->away[i]) > 0) << i;
	return gpus;
}

bool eviction_may_try(struct session *session, uint64_t more, uint64_t since_ns)
{
	struct eviction *own = session->eviction;

	lock_hold(&eviction_lock);
	if (own->turn.waits_ns == 0)
		own->turn.waits_ns = since_ns;
	own->turn.gpus = more | away_from(own);
	for (const struct eviction *one = evictions; one; one = one->next)
		if (one->turn.has_begun && is_before(one, own))
			return false;
	return true;
}

uint64_t eviction_turn_ns(void)
{
	uint64_t n = 0;

	lock_hold(&eviction_lock);
	for (const struct eviction *one = evictions; one; one = one->next)
		n++;
	return n * (eviction_stay_ns() + STOP_NS + MOVE_NS);
}
