/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Which session evicts memory for which. Any thread.
 *
 * Invariant: no thread waits under the lock of the list.
 */

#include "clock.h"
#include "eviction_list.h"
#include "soft_limit.h"
#include "server/session/session.h"
#include "server/device/device_quota.h"
#include "server/schedule/gate.h"

/*
 * A session that has made no call for this time is idle. A framework that launches kernel after
 * kernel pauses for less.
 */
#define REST_NS UINT64_C(5000000)

/* A worker that does not take a request in this time has begun a long call meanwhile. */
#define ANSWER_NS UINT64_C(1000000000)

static uint64_t n_attempts; /* under the lock */

/* The session that asks, and for what. */
struct asker {
	struct session *session;
	const struct eviction_lack *lack;
	uint64_t since_ns; /* since when it waits; 0: for new memory */
	uint64_t attempt;
};

/* Whether it waits for space itself, after the asker. */
static bool is_behind(const struct eviction *one, const struct asker *asker)
{
	const struct eviction *own = asker->session->eviction;

	if (one->waits_ns == 0)
		return false;
	if (soft_limit_holds(asker->session, asker->lack->device) !=
		soft_limit_holds(one->session, asker->lack->device))
		return soft_limit_holds(asker->session, asker->lack->device);
	if (one->turn.waits_ns > 0 && own->turn.waits_ns > 0)
		return eviction_precedes(own, one, UINT64_C(1) << asker->lack->device);
	return asker->since_ns == 0 || one->waits_ns > asker->since_ns;
}

/*
 * Under the lock: how long it has to be idle. A session that has just come back is idle only after
 * a pause as long as its way: else moves would take more time than work does.
 */
static uint64_t rest_ns(const struct eviction *one, uint64_t now)
{
	if (now - one->turn.here_ns >= eviction_stay_ns())
		return REST_NS;
	return MAX(REST_NS, atomic_load(&one->move_ns));
}

/*
 * Under the lock: why this session cannot be asked now. STAY_NOTHING: it can. Whether it has work,
 * its worker finds out: other threads learn late that work without a seqno has ended (at_work.h).
 */
static enum eviction_stay why_not(
	const struct eviction *one, const struct asker *asker, uint64_t now)
{
	uint64_t idle = atomic_load_explicit(&one->idle_since_ns, memory_order_relaxed);

	if (eviction_may_leave(one, asker->session, asker->lack) == 0)
		return STAY_OFF;
	if (one->state != EVICTION_IDLE)
		return STAY_AT_WORK;
	if (one->is_busy)
		return is_behind(one, asker) ? STAY_NOTHING : STAY_AT_WORK;
	if (idle == 0 || now - idle < rest_ns(one, now) || watchdog_is_on(&one->session->watchdog))
		return STAY_AT_WORK;
	return STAY_NOTHING;
}

/* Under the lock: borrowers go first, then those that have been idle for longest. */
static bool goes_before(const struct eviction *one, const struct eviction *other, uint32_t device)
{
	bool is_borrower = soft_limit_borrowed(one->session, device) > 0;

	if (!other)
		return true;
	if (is_borrower != (soft_limit_borrowed(other->session, device) > 0))
		return is_borrower;
	return one->idle_since_ns < other->idle_since_ns;
}

/* Under the lock: the session to ask next; NULL: there is none. */
static struct eviction *choose(const struct asker *asker, enum eviction_stay *stay)
{
	struct eviction *first = NULL;
	uint64_t now = now_ns();

	for (struct eviction *one = evictions; one; one = one->next) {
		enum eviction_stay why;

		if (one->session == asker->session || one->attempt == asker->attempt ||
			eviction_present(one, asker->lack->device) == 0 ||
			!eviction_is_in(one->session, asker->lack->within))
			continue;
		why = why_not(one, asker, now);
		eviction_note_stay(stay, why);
		if (why == STAY_NOTHING && goes_before(one, first, asker->lack->device))
			first = one;
	}
	return first;
}

/* Asks one session. Returns its ID; 0: no session can be asked. */
static uint32_t ask_one(const struct asker *asker, uint64_t bytes, enum eviction_stay *stay)
{
	struct eviction *victim;

	lock_hold(&eviction_lock);
	victim = choose(asker, stay);
	if (!victim)
		return 0;
	victim->attempt = asker->attempt;
	eviction_ask(victim, asker->lack->device,
		MIN(bytes, eviction_may_leave(victim, asker->session, asker->lack)));
	return victim->session->id;
}

uint64_t eviction_make_space(struct session *session, const struct eviction_lack *lack,
	uint64_t since_ns, enum eviction_stay *ret_stay)
{
	struct asker asker = {session, lack, since_ns, 0};
	uint64_t given = 0;
	uint32_t id;

	*ret_stay = STAY_NOTHING;
	lock_take(&eviction_lock);
	asker.attempt = ++n_attempts;
	lock_release(&eviction_lock);
	while (given < lack->bytes && (id = ask_one(&asker, lack->bytes - given, ret_stay)) > 0)
		given += eviction_wait(session, id, GATE_VICTIM, ANSWER_NS, ret_stay);
	/* A turn holds the whole GPU. */
	if (given > 0 && !lack->within)
		eviction_begin_turn(session);
	return given;
}

/* Whether the end of its client frees enough. What others have opened, and work, outlives it. */
static bool would_free(const struct eviction *one, const struct eviction_lack *lack)
{
	enum eviction_stay stay = atomic_load(&one->stay);

	return eviction_is_in(one->session, lack->within) &&
	       soft_limit_borrowed(one->session, lack->device) > 0 &&
	       eviction_present(one, lack->device) >= lack->bytes && stay != STAY_SHARED &&
	       stay != STAY_EXPORTED && stay != STAY_LASTS &&
	       !atomic_load(&one->session->is_moving);
}

/* Under the lock: the session that has borrowed most; NULL: none. */
static struct eviction *choose_to_end(
	const struct session *session, const struct eviction_lack *lack)
{
	struct eviction *most = NULL;

	for (struct eviction *one = evictions; one; one = one->next)
		if (one->session != session && would_free(one, lack) &&
			(!most || soft_limit_borrowed(one->session, lack->device) >
					  soft_limit_borrowed(most->session, lack->device)))
			most = one;
	return most;
}

bool eviction_end_borrower(
	struct session *session, const struct eviction_lack *lack, struct eviction_ended *ret_ended)
{
	struct eviction *victim;
	struct session *other;

	lock_hold(&eviction_lock);
	victim = choose_to_end(session, lack);
	if (!victim)
		return false;
	other = victim->session;
	*ret_ended = (struct eviction_ended){.pid = other->pid,
		.id = other->id,
		.borrowed = soft_limit_borrowed(other, lack->device),
		.stay = atomic_load(&victim->stay)};
	atomic_store(&other->has_to_end, true);
	other->on_news(other->on_news_arg);
	return true;
}
