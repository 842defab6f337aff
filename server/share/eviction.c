/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Which session evicts memory for which. Any thread.
 *
 * Invariant: a session on the list lives, and its worker answers each request that it has taken.
 * Nobody waits under the lock.
 */

#include "eviction.h"

#include <string.h>

#include "clock.h"
#include "host_store.h"
#include "lock.h"
#include "server/util/log.h"
#include "server/session/session.h"
#include "server/session/session_part.h"
#include "server/device/device_quota.h"
#include "server/schedule/gate.h"

/*
 * A session that has made no call for this time is idle. A framework that launches kernel after
 * kernel pauses for less.
 */
#define REST_NS UINT64_C(5000000)

/* A worker that does not take a request in this time has begun a long call meanwhile. */
#define ANSWER_NS UINT64_C(1000000000)

static struct lock lock = LOCK_INIT(EVICTIONS);
static struct eviction *all;
static uint64_t n_attempts; /* under the lock */
static bool is_test;

void eviction_init(void)
{
	const char *test = getenv("MPS_TEST");

	is_test = test && strcmp(test, "evict") == 0;
	if (is_test)
		log_line("MPS_TEST=evict: memory leaves the GPU whenever its client rests");
	host_store_init();
}

bool eviction_is_test(void)
{
	return is_test;
}

bool eviction_is_allowed(const struct session *session)
{
	return session->limits.oversubscribe == OVERSUBSCRIBE_YES || is_test;
}

uint64_t eviction_bytes(const struct session *session)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < DEVICES_MAX; i++)
		bytes += atomic_load_explicit(&session->eviction->away[i], memory_order_relaxed);
	return bytes;
}

uint64_t eviction_ns(const struct session *session)
{
	uint64_t since = atomic_load(&session->eviction->away_since_ns);

	return atomic_load(&session->eviction->away_ns) + (since > 0 ? now_ns() - since : 0);
}

const char *eviction_stay_text(enum eviction_stay stay)
{
	static const char *const texts[EVICTION_STAYS] = {
		[STAY_NOTHING] = "nothing stays",
		[STAY_OFF] = "oversubscribe is off",
		[STAY_AT_WORK] = "its client is at work",
		[STAY_SHARED] = "other clients may open it",
		[STAY_EXPORTED] = "a descriptor outside the server may hold it",
		[STAY_STORE] = "the store is full",
		[STAY_REFUSED] = "the driver refused a call",
	};

	return texts[stay];
}

void eviction_note_idle(struct session *session, uint64_t now)
{
	atomic_store_explicit(&session->eviction->idle_since_ns, now, memory_order_relaxed);
}

static void eviction_begin(struct session *session, void *memory)
{
	session->eviction = memory;
}

const struct session_part evictions_part = {
	.size = sizeof(struct eviction),
	.begin = eviction_begin,
};

void eviction_join(struct session *session)
{
	struct eviction *own = session->eviction;

	lock_hold(&lock);
	if (own->session)
		return;
	own->session = session;
	LIST_PUSH(all, own);
}

bool eviction_leave(struct session *session)
{
	struct eviction *own = session->eviction;

	if (own->n_moves > 0)
		log_line("Client " SESSION_NAME
			 ": its memory was evicted %llu times (%llu MiB), and "
			 "came back %llu times",
			SESSION_NAME_ARGS(session), (unsigned long long)own->n_moves,
			(unsigned long long)own->bytes_out >> 20,
			(unsigned long long)own->n_returns);
	lock_hold(&lock);
	if (own->session)
		LIST_DROP(all, own);
	own->session = NULL;
	return all == NULL;
}

/* Any thread, while the session lives: its worker looks at what is wanted before its next message.
 */
static void want(struct session *session, unsigned what)
{
	atomic_fetch_or(&session->memory_wanted, what);
	ring_interrupt(&session->receiver);
}

void eviction_hold(struct session *session, bool is_held)
{
	atomic_store(&session->eviction->is_held, is_held);
	want(session, WANTED_EVICTION);
}

/* Without waking workers: a session that rests has nothing unused. */
void eviction_ask_for_unused(void)
{
	lock_hold(&lock);

	for (struct eviction *one = all; one; one = one->next)
		atomic_fetch_or(&one->session->memory_wanted, WANTED_TRIM);
}

/* What the session has on that GPU: also arrays and the like, which cannot leave. */
static uint64_t present(const struct eviction *one, uint32_t device)
{
	const struct device_quota *quota = atomic_load(&one->session->quotas[device]);
	uint64_t away = atomic_load(&one->away[device]);
	uint64_t used = quota ? quota_used(&quota->quota) : 0;

	return used > away ? used - away : 0;
}

uint64_t eviction_others(const struct session *session, uint32_t device)
{
	uint64_t bytes = 0;

	lock_hold(&lock);
	for (const struct eviction *one = all; one; one = one->next)
		if (one->session != session && eviction_is_allowed(one->session))
			bytes += present(one, device);
	return bytes;
}

/* ---- the choice */

/* Who asks, and for what. */
struct asker {
	struct session *session;
	uint32_t device;
	uint64_t since_ns; /* since when it waits; 0: for new memory */
	uint64_t attempt;
};

/* Whether it waits for space itself, after the asker. */
static bool is_behind(const struct eviction *one, const struct asker *asker)
{
	return one->waits_ns > 0 && (asker->since_ns == 0 || one->waits_ns > asker->since_ns);
}

/*
 * Under the lock: why this session cannot be asked now. STAY_NOTHING: it can. Whether it has work,
 * its worker finds out: other threads learn late that work without a seqno has ended (at_work.h).
 */
static enum eviction_stay why_not(
	const struct eviction *one, const struct asker *asker, uint64_t now)
{
	uint64_t idle = atomic_load_explicit(&one->idle_since_ns, memory_order_relaxed);

	if (!eviction_is_allowed(one->session))
		return STAY_OFF;
	if (one->state != EVICTION_IDLE)
		return STAY_AT_WORK;
	if (one->is_busy)
		return is_behind(one, asker) ? STAY_NOTHING : STAY_AT_WORK;
	if (idle == 0 || now - idle < REST_NS || watchdog_is_on(&one->session->watchdog))
		return STAY_AT_WORK;
	return STAY_NOTHING;
}

/* Another attempt may succeed as long as somebody is at work. */
static void note_stay(enum eviction_stay *stay, enum eviction_stay other)
{
	if (*stay != STAY_AT_WORK && other != STAY_NOTHING)
		*stay = other;
}

/* Under the lock: the session that has been idle for longest; NULL: there is none. */
static struct eviction *choose(const struct asker *asker, enum eviction_stay *stay)
{
	struct eviction *oldest = NULL;
	uint64_t now = now_ns();

	for (struct eviction *one = all; one; one = one->next) {
		enum eviction_stay why;

		if (one->session == asker->session || one->attempt == asker->attempt ||
			present(one, asker->device) == 0)
			continue;
		why = why_not(one, asker, now);
		note_stay(stay, why);
		if (why == STAY_NOTHING && (!oldest || one->idle_since_ns < oldest->idle_since_ns))
			oldest = one;
	}
	return oldest;
}

/* Asks one session. Returns its ID; 0: nobody can be asked. */
static uint32_t ask_one(const struct asker *asker, uint64_t bytes, enum eviction_stay *stay)
{
	struct eviction *victim;

	lock_hold(&lock);
	victim = choose(asker, stay);
	if (!victim)
		return 0;
	victim->state = EVICTION_ASKED;
	victim->attempt = asker->attempt;
	victim->request = (struct eviction_request){asker->device, bytes};
	victim->given = 0;
	want(victim->session, WANTED_EVICTION);
	return victim->session->id;
}

/* Under the lock; NULL: it has ended. */
static struct eviction *find(uint32_t id)
{
	struct eviction *one = all;

	while (one && one->session->id != id)
		one = one->next;
	return one;
}

/* Whether there is an answer. A request that nobody takes is withdrawn. */
static bool is_answered(uint32_t id, bool is_late, uint64_t *given, enum eviction_stay *stay)
{
	struct eviction *victim;

	lock_hold(&lock);
	victim = find(id);
	if (victim && victim->state == EVICTION_ASKED && is_late) {
		victim->state = EVICTION_IDLE;
		note_stay(stay, STAY_AT_WORK);
		return true;
	}
	/* The worker may have been about to sleep at the first call. */
	if (victim && victim->state == EVICTION_ASKED)
		ring_interrupt(&victim->session->receiver);
	if (victim && victim->state != EVICTION_IDLE)
		return false;
	if (victim) {
		*given += victim->given;
		note_stay(stay, atomic_load(&victim->stay));
	}
	return true;
}

static uint64_t wait_for_answer(struct session *session, uint32_t id, enum eviction_stay *stay)
{
	struct gate_wait wait = gate_wait(GATE_VICTIM, session);
	uint64_t given = 0;
	bool is_over = false;

	while (!is_answered(id, is_over || gate_waited_ns(&wait) > ANSWER_NS, &given, stay))
		if (!gate_again(&wait)) {
			/* The victim goes on by itself if it has begun. */
			if (is_over)
				break;
			is_over = true;
		}
	gate_end(&wait);
	return given;
}

uint64_t eviction_make_space(struct session *session, uint32_t device, uint64_t bytes,
	uint64_t since_ns, enum eviction_stay *ret_stay)
{
	struct asker asker = {session, device, since_ns, 0};
	uint64_t given = 0;
	uint32_t id;

	*ret_stay = STAY_NOTHING;
	lock_take(&lock);
	asker.attempt = ++n_attempts;
	lock_release(&lock);
	while (given < bytes && (id = ask_one(&asker, bytes - given, ret_stay)) > 0)
		given += wait_for_answer(session, id, ret_stay);
	return given;
}

/* ---- the victim */

void eviction_set_busy(struct session *session, bool is_busy, uint64_t waits_ns)
{
	lock_hold(&lock);

	session->eviction->is_busy = is_busy;
	session->eviction->waits_ns = waits_ns;
}

bool eviction_take_request(struct session *session, struct eviction_request *ret_request)
{
	struct eviction *own = session->eviction;

	lock_hold(&lock);
	if (own->state != EVICTION_ASKED)
		return false;
	own->state = EVICTION_GOING;
	*ret_request = own->request;
	return true;
}

void eviction_answer(struct session *session, uint64_t bytes, enum eviction_stay stay)
{
	struct eviction *own = session->eviction;

	lock_hold(&lock);
	own->state = EVICTION_IDLE;
	own->given = bytes;
	atomic_store(&own->stay, stay);
}
