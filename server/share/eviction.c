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
#include "shm.h"
#include "soft_limit.h"
#include "server/util/log.h"
#include "server/util/number.h"
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

/* What a session that has to stop may take: see TURN_WORK_NS in away.c; the rest is a long call. */
#define STOP_NS UINT64_C(15000000000)

/* What moves of memory may take, for eviction_turn_ns(). */
#define MOVE_NS UINT64_C(5000000000)

/* With so many moves within a minute, server.log says so. */
#define THRASHING_MOVES 30u
#define MINUTE_NS UINT64_C(60000000000)

static struct lock lock = LOCK_INIT(EVICTIONS);
static struct eviction *all;
static uint64_t n_attempts; /* under the lock */
static bool is_test;
static uint64_t stay_ns;

void eviction_init(void)
{
	const char *test = getenv("MPS_TEST");

	is_test = test && strcmp(test, "evict") == 0;
	if (is_test)
		log_line("MPS_TEST=evict: memory leaves the GPU whenever its client rests");
	host_store_init();
	stay_ns = 1000000000 * number_setting("MPS_OVERSUBSCRIBE_STAY", "seconds", 0,
				       OVERSUBSCRIBE_STAY_MAX, OVERSUBSCRIBE_STAY_DEFAULT);
}

bool eviction_is_test(void)
{
	return is_test;
}

bool eviction_is_allowed(const struct session *session)
{
	return session->limits.oversubscribe == OVERSUBSCRIBE_YES || is_test;
}

bool eviction_may_ask(const struct session *session, uint32_t device, uint64_t size)
{
	return eviction_is_allowed(session) ||
	       (soft_limit_is_set(session, device) && size <= soft_limit_left(session, device));
}

void eviction_note_away(struct session *session, uint32_t device, uint64_t bytes)
{
	uint64_t old = atomic_exchange(&session->eviction->away[device], bytes);

	if (session->group)
		atomic_fetch_add(&session->group->evicted[device], bytes - old);
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
	own->turn.here_ns = now_ns();
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
	for (unsigned i = 0; i < DEVICES_MAX; i++)
		eviction_note_away(session, i, 0);
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

/* What may leave for the other session: all of it, or what is borrowed. */
static uint64_t may_leave(const struct eviction *one, const struct session *other, uint32_t device)
{
	if (eviction_is_allowed(one->session) && eviction_is_allowed(other))
		return present(one, device);
	return soft_limit_is_set(other, device) ? soft_limit_borrowed(one->session, device) : 0;
}

uint64_t eviction_others(const struct session *session, uint32_t device)
{
	uint64_t bytes = 0;

	lock_hold(&lock);
	for (const struct eviction *one = all; one; one = one->next)
		if (one->session != session)
			bytes += may_leave(one, session, device);
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

/* GPUs are bits. */
static bool is_inside_on(const struct session *session, uint64_t gpus)
{
	for (; gpus != 0; gpus &= gpus - 1)
		if (!soft_limit_holds(session, (uint32_t)__builtin_ctzll(gpus)))
			return false;
	return true;
}

/* Under the lock: which of two that wait for the same GPUs comes first. */
static bool precedes(const struct eviction *one, const struct eviction *other, uint64_t gpus)
{
	bool is_inside = is_inside_on(one->session, gpus);

	if (is_inside != is_inside_on(other->session, gpus))
		return is_inside;
	if (one->turn.has_begun != other->turn.has_begun)
		return one->turn.has_begun;
	return one->turn.waits_ns < other->turn.waits_ns;
}

/* Whether it waits for space itself, after the asker. */
static bool is_behind(const struct eviction *one, const struct asker *asker)
{
	const struct eviction *own = asker->session->eviction;

	if (one->waits_ns == 0)
		return false;
	if (soft_limit_holds(asker->session, asker->device) !=
		soft_limit_holds(one->session, asker->device))
		return soft_limit_holds(asker->session, asker->device);
	if (one->turn.waits_ns > 0 && own->turn.waits_ns > 0)
		return precedes(own, one, UINT64_C(1) << asker->device);
	return asker->since_ns == 0 || one->waits_ns > asker->since_ns;
}

/*
 * Under the lock: how long it has to be idle. A session that has just come back is idle only after
 * a pause as long as its way: else moves would take more time than work does.
 */
static uint64_t rest_ns(const struct eviction *one, uint64_t now)
{
	if (now - one->turn.here_ns >= stay_ns)
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

	if (may_leave(one, asker->session, asker->device) == 0)
		return STAY_OFF;
	if (one->state != EVICTION_IDLE)
		return STAY_AT_WORK;
	if (one->is_busy)
		return is_behind(one, asker) ? STAY_NOTHING : STAY_AT_WORK;
	if (idle == 0 || now - idle < rest_ns(one, now) || watchdog_is_on(&one->session->watchdog))
		return STAY_AT_WORK;
	return STAY_NOTHING;
}

/* Another attempt may succeed as long as somebody is at work. */
static void note_stay(enum eviction_stay *stay, enum eviction_stay other)
{
	if (*stay != STAY_AT_WORK && other != STAY_NOTHING)
		*stay = other;
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

	for (struct eviction *one = all; one; one = one->next) {
		enum eviction_stay why;

		if (one->session == asker->session || one->attempt == asker->attempt ||
			present(one, asker->device) == 0)
			continue;
		why = why_not(one, asker, now);
		note_stay(stay, why);
		if (why == STAY_NOTHING && goes_before(one, first, asker->device))
			first = one;
	}
	return first;
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
	victim->request = (struct eviction_request){
		asker->device, MIN(bytes, may_leave(victim, asker->session, asker->device))};
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
		victim->turn.here_ns = now_ns();
		atomic_store(&victim->must_stop, false);
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

static uint64_t wait_for_answer(struct session *session, uint32_t id, enum gate gate,
	uint64_t most_ns, enum eviction_stay *stay)
{
	struct gate_wait wait = gate_wait(gate, session);
	uint64_t given = 0;
	bool is_over = false;

	while (!is_answered(id, is_over || gate_waited_ns(&wait) > most_ns, &given, stay))
		if (!gate_again(&wait)) {
			/* The victim goes on by itself if it has begun. */
			if (is_over)
				break;
			is_over = true;
		}
	gate_end(&wait);
	return given;
}

/* Under the lock: whether the turn of `one' comes before that of `own'. */
static bool is_before(const struct eviction *one, const struct eviction *own)
{
	uint64_t gpus = one->turn.gpus & own->turn.gpus;

	return one != own && one->turn.waits_ns > 0 && gpus != 0 && precedes(one, own, gpus);
}

static bool is_first(const struct eviction *own)
{
	for (const struct eviction *one = all; one; one = one->next)
		if (is_before(one, own))
			return false;
	return true;
}

/*
 * Others have left for it. If it is the first that waits, nobody else may take the space; else
 * those that wait for longer may.
 */
static void begin_turn(struct session *session)
{
	struct eviction *own = session->eviction;

	lock_hold(&lock);
	own->turn.has_begun = own->turn.waits_ns > 0 && is_first(own);
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
		given += wait_for_answer(session, id, GATE_VICTIM, ANSWER_NS, ret_stay);
	if (given > 0)
		begin_turn(session);
	return given;
}

/* ---- turns */

/*
 * Under the lock: whether it has stayed for long enough. Borrowed memory has no such right against
 * a session inside its soft limit.
 */
static bool has_stayed(
	const struct eviction *one, const struct session *session, uint32_t device, uint64_t now)
{
	return now - one->turn.here_ns >= stay_ns ||
	       (soft_limit_holds(session, device) && soft_limit_borrowed(one->session, device) > 0);
}

uint64_t eviction_progress(const struct session *session)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < atomic_load(&session->n_marks); i++)
		sum += shm_load64(&session->page->timeline[i]);
	return sum;
}

/* Under the lock: whether it had to stop already, and the same work still goes on. */
static bool is_lasting(const struct eviction *one)
{
	return one->has_lasted && eviction_progress(one->session) == one->lasting_progress;
}

/* Under the lock: which of two has to stop. To ask one whose work lasts takes ten seconds. */
static bool stops_before(const struct eviction *one, const struct eviction *other)
{
	if (!other)
		return true;
	if (is_lasting(one) != is_lasting(other))
		return !is_lasting(one);
	return one->turn.here_ns < other->turn.here_ns;
}

/*
 * Under the lock: the session that has stayed for longest, and for long enough; NULL: none, for
 * now. One whose work lasts has to stop only if there is no other.
 */
static struct eviction *choose_to_stop(const struct session *session, uint32_t device, uint64_t now)
{
	struct eviction *first = NULL;
	bool is_other = false;

	for (struct eviction *one = all; one; one = one->next) {
		if (one->session == session || one->state != EVICTION_IDLE || one->is_busy ||
			may_leave(one, session, device) == 0)
			continue;
		is_other = is_other || !is_lasting(one);
		if (has_stayed(one, session, device, now) && stops_before(one, first))
			first = one;
	}
	return first && is_other && is_lasting(first) ? NULL : first;
}

static void log_first_turn(uint32_t device)
{
	static atomic_bool is_logged[DEVICES_MAX];

	if (!atomic_exchange(&is_logged[device], true))
		log_line("The memory of the clients at work does not fit on device %u: they take "
			 "turns, and each stays for %llu s at least (MPS_OVERSUBSCRIBE_STAY)",
			device, (unsigned long long)stay_ns / 1000000000);
}

/* The ID of the session that has to stop for this one; 0: none, for now. */
static uint32_t stop_one(struct session *session, uint32_t device, uint64_t bytes)
{
	struct eviction *own = session->eviction, *victim;

	lock_hold(&lock);
	victim = is_first(own) ? choose_to_stop(session, device, now_ns()) : NULL;
	if (!victim)
		return 0;
	own->turn.has_begun = true;
	victim->state = EVICTION_ASKED;
	victim->request =
		(struct eviction_request){device, MIN(bytes, may_leave(victim, session, device))};
	victim->given = 0;
	atomic_store(&victim->must_stop, true);
	want(victim->session, WANTED_EVICTION);
	return victim->session->id;
}

/* The turn that has brought nothing goes behind those of others. */
static void postpone(struct session *session)
{
	lock_hold(&lock);

	session->eviction->turn.has_begun = false;
	session->eviction->turn.waits_ns = now_ns();
}

uint64_t eviction_take_turn(
	struct session *session, uint32_t device, uint64_t bytes, enum eviction_stay *ret_stay)
{
	uint32_t id = stop_one(session, device, bytes);
	uint64_t given;

	*ret_stay = STAY_AT_WORK;
	if (id == 0)
		return 0;
	log_first_turn(device);
	given = wait_for_answer(session, id, GATE_TURN, STOP_NS, ret_stay);
	if (given == 0)
		postpone(session);
	return given;
}

void eviction_end_turn(struct session *session)
{
	lock_hold(&lock);

	session->eviction->turn = (struct eviction_turn){.here_ns = now_ns()};
}

/* ---- the end of a borrower */

/* Whether the end of its client frees `bytes'. What others have opened, and work, outlives it. */
static bool would_free(const struct eviction *one, uint32_t device, uint64_t bytes)
{
	enum eviction_stay stay = atomic_load(&one->stay);

	return soft_limit_borrowed(one->session, device) > 0 && present(one, device) >= bytes &&
	       stay != STAY_SHARED && stay != STAY_EXPORTED && stay != STAY_LASTS &&
	       !atomic_load(&one->session->is_moving);
}

/* Under the lock: who has borrowed most; NULL: none. */
static struct eviction *choose_to_end(
	const struct session *session, uint32_t device, uint64_t bytes)
{
	struct eviction *most = NULL;

	for (struct eviction *one = all; one; one = one->next)
		if (one->session != session && would_free(one, device, bytes) &&
			(!most || soft_limit_borrowed(one->session, device) >
					  soft_limit_borrowed(most->session, device)))
			most = one;
	return most;
}

bool eviction_end_borrower(
	struct session *session, uint32_t device, uint64_t bytes, struct eviction_ended *ret_ended)
{
	struct eviction *victim;
	struct session *other;

	lock_hold(&lock);
	victim = choose_to_end(session, device, bytes);
	if (!victim)
		return false;
	other = victim->session;
	*ret_ended = (struct eviction_ended){.pid = other->pid,
		.id = other->id,
		.borrowed = soft_limit_borrowed(other, device),
		.stay = atomic_load(&victim->stay)};
	atomic_store(&other->has_to_end, true);
	other->on_news(other->on_news_arg);
	return true;
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

	lock_hold(&lock);
	if (own->turn.waits_ns == 0)
		own->turn.waits_ns = since_ns;
	own->turn.gpus = more | away_from(own);
	for (const struct eviction *one = all; one; one = one->next)
		if (one->turn.has_begun && is_before(one, own))
			return false;
	return true;
}

uint64_t eviction_turn_ns(void)
{
	uint64_t n = 0;

	lock_hold(&lock);
	for (const struct eviction *one = all; one; one = one->next)
		n++;
	return n * (stay_ns + STOP_NS + MOVE_NS);
}

/* Under the lock: counts a move, and returns whether it is one too many for its minute. */
static bool is_thrashing(uint64_t now)
{
	static uint64_t minute_ns;
	static unsigned n;

	if (now - minute_ns >= MINUTE_NS) {
		minute_ns = now;
		n = 0;
	}
	return ++n == THRASHING_MOVES;
}

static void note_move(uint64_t now)
{
	static bool is_logged;

	if (is_logged || !is_thrashing(now) || is_test)
		return;
	is_logged = true;
	log_line("Memory of clients has left GPUs %u times within a minute: raise "
		 "MPS_OVERSUBSCRIBE_STAY, or run fewer of them together",
		THRASHING_MOVES);
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
	/* What stays does so for as long as at first. */
	if (atomic_exchange(&own->must_stop, false) && bytes == 0) {
		own->turn.here_ns = now_ns();
		own->has_lasted = true;
		own->lasting_progress = eviction_progress(session);
	}
	if (bytes > 0)
		note_move(now_ns());
}
