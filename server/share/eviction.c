/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The sessions that have memory on GPUs, and what each is asked for. Any thread.
 *
 * Invariant: a session on the list lives, and its worker answers each request that it has taken.
 * No thread waits under the lock.
 */

#include "eviction.h"

#include <string.h>

#include "clock.h"
#include "eviction_list.h"
#include "host_store.h"
#include "shm.h"
#include "soft_limit.h"
#include "server/util/log.h"
#include "server/util/number.h"
#include "server/session/session.h"
#include "server/session/session_part.h"
#include "server/device/device.h"
#include "server/device/device_quota.h"

/* With so many moves within a minute, server.log says so. */
#define THRASHING_MOVES 30u
#define MINUTE_NS UINT64_C(60000000000)

/*
 * If clients leave less than this part of a GPU, the next one may need space there. For that, this
 * part of the store is made in advance: else its first bytes leave at 3.5 GB/s (measured).
 */
#define NEARLY_FULL_PART 8
#define ADVANCE_PART 8

struct lock eviction_lock = LOCK_INIT(EVICTIONS);
struct eviction *evictions;
static _Atomic uint64_t all_away; /* bytes of all sessions, on all GPUs */
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

uint64_t eviction_stay_ns(void)
{
	return stay_ns;
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

	atomic_fetch_add(&all_away, bytes - old);
	for (unsigned i = 0; i < MEMBERSHIPS_MAX; i++)
		if (session_group(session, i))
			atomic_fetch_add(&session_group(session, i)->evicted[device], bytes - old);
}

uint64_t eviction_bytes(const struct session *session)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < DEVICES_MAX; i++)
		bytes += atomic_load_explicit(&session->eviction->away[i], memory_order_relaxed);
	return bytes;
}

/* Under the lock. */
static bool is_nearly_full(uint32_t device)
{
	const uint64_t total = device_get(device)->facts.total_memory;
	uint64_t present = 0;

	for (const struct eviction *one = evictions; one; one = one->next)
		present += eviction_present(one, device);
	return present > total - total / NEARLY_FULL_PART;
}

/* Before anything is away. */
static uint64_t size_in_advance(void)
{
	lock_hold(&eviction_lock);

	for (uint32_t i = 0; i < devices_count(); i++)
		if (is_nearly_full(i))
			return host_store_limit() / ADVANCE_PART;
	return 0;
}

uint64_t eviction_store_size(void)
{
	uint64_t most = 0;

	if (atomic_load_explicit(&all_away, memory_order_relaxed) == 0)
		return size_in_advance();
	lock_take(&eviction_lock);
	for (const struct eviction *one = evictions; one; one = one->next)
		most = MAX(most, eviction_bytes(one->session));
	lock_release(&eviction_lock);
	return host_store_used() + most;
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

	lock_hold(&eviction_lock);
	if (own->session)
		return;
	own->session = session;
	own->turn.here_ns = now_ns();
	LIST_PUSH(evictions, own);
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
	lock_hold(&eviction_lock);
	if (own->session)
		LIST_DROP(evictions, own);
	own->session = NULL;
	return evictions == NULL;
}

void eviction_want(struct session *session, unsigned what)
{
	atomic_fetch_or(&session->memory_wanted, what);
	ring_interrupt(&session->receiver);
}

void eviction_hold(struct session *session, bool is_held)
{
	atomic_store(&session->eviction->is_held, is_held);
	eviction_want(session, WANTED_EVICTION);
}

/* Without waking workers: a session that rests has nothing unused. */
void eviction_ask_for_unused(void)
{
	lock_hold(&eviction_lock);

	for (struct eviction *one = evictions; one; one = one->next)
		atomic_fetch_or(&one->session->memory_wanted, WANTED_TRIM);
}

uint64_t eviction_present(const struct eviction *one, uint32_t device)
{
	const struct device_quota *quota = atomic_load(&one->session->quotas[device]);
	uint64_t away = atomic_load(&one->away[device]);
	uint64_t used = quota ? quota_used(&quota->quota) : 0;

	return used > away ? used - away : 0;
}

bool eviction_is_in(const struct session *session, const struct group *group)
{
	for (unsigned i = 0; group && i < MEMBERSHIPS_MAX; i++)
		if (session_group(session, i) == group)
			return true;
	return !group;
}

/* Some of its memory waits for space, so the rest, which has come back, is of no use to it yet. */
static bool is_coming_back(const struct eviction *one)
{
	return one->waits_ns > 0 && eviction_bytes(one->session) > 0;
}

uint64_t eviction_may_leave(
	const struct eviction *one, const struct session *other, const struct eviction_lack *lack)
{
	if (!eviction_is_in(one->session, lack->within))
		return 0;
	if ((eviction_is_allowed(one->session) && eviction_is_allowed(other)) ||
		(is_coming_back(one) && eviction_bytes(other) > 0))
		return eviction_present(one, lack->device);
	return soft_limit_is_set(other, lack->device)
		       ? soft_limit_borrowed(one->session, lack->device)
		       : 0;
}

uint64_t eviction_others(const struct session *session, uint32_t device, const struct group *within)
{
	const struct eviction_lack lack = {device, EVICTION_ALL, within};
	uint64_t bytes = 0;

	lock_hold(&eviction_lock);
	for (const struct eviction *one = evictions; one; one = one->next)
		if (one->session != session)
			bytes += eviction_may_leave(one, session, &lack);
	return bytes;
}

uint64_t eviction_progress(const struct session *session)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < atomic_load(&session->n_marks); i++)
		sum += shm_load64(&session->page->timeline[i]);
	return sum;
}

bool eviction_is_lasting(const struct eviction *one)
{
	return one->has_lasted && eviction_progress(one->session) == one->lasting_progress;
}

/* ---- requests */

void eviction_ask(struct eviction *one, uint32_t device, uint64_t bytes)
{
	one->state = EVICTION_ASKED;
	one->request = (struct eviction_request){device, bytes};
	one->given = 0;
	eviction_want(one->session, WANTED_EVICTION);
}

void eviction_note_stay(enum eviction_stay *stay, enum eviction_stay other)
{
	if (*stay != STAY_AT_WORK && other != STAY_NOTHING)
		*stay = other;
}

/* Under the lock; NULL: it has ended. */
static struct eviction *find(uint32_t id)
{
	struct eviction *one = evictions;

	while (one && one->session->id != id)
		one = one->next;
	return one;
}

/* Whether there is an answer. A request that no worker takes is withdrawn. */
static bool is_answered(uint32_t id, bool is_late, uint64_t *given, enum eviction_stay *stay)
{
	struct eviction *victim;

	lock_hold(&eviction_lock);
	victim = find(id);
	if (victim && victim->state == EVICTION_ASKED && is_late) {
		victim->state = EVICTION_IDLE;
		victim->turn.here_ns = now_ns();
		atomic_store(&victim->must_stop, false);
		eviction_note_stay(stay, STAY_AT_WORK);
		return true;
	}
	/* The worker may have been about to sleep at the first call. */
	if (victim && victim->state == EVICTION_ASKED)
		ring_interrupt(&victim->session->receiver);
	if (victim && victim->state != EVICTION_IDLE)
		return false;
	if (victim) {
		*given += victim->given;
		eviction_note_stay(stay, atomic_load(&victim->stay));
	}
	return true;
}

uint64_t eviction_wait(struct session *session, uint32_t id, enum gate gate, uint64_t most_ns,
	enum eviction_stay *stay)
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
	lock_hold(&eviction_lock);

	session->eviction->is_busy = is_busy;
	session->eviction->waits_ns = waits_ns;
}

bool eviction_take_request(struct session *session, struct eviction_request *ret_request)
{
	struct eviction *own = session->eviction;

	lock_hold(&eviction_lock);
	if (own->state != EVICTION_ASKED)
		return false;
	own->state = EVICTION_GOING;
	*ret_request = own->request;
	return true;
}

void eviction_answer(struct session *session, uint64_t bytes, enum eviction_stay stay)
{
	struct eviction *own = session->eviction;

	lock_hold(&eviction_lock);
	/* It had to stop for this work already, in vain. */
	if (stay == STAY_AT_WORK && eviction_is_lasting(own))
		stay = STAY_LASTS;
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
