/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Blocked streams, of all sessions. Workers.
 *
 * Invariant: every wait for a client on a GPU has an entry that was added before it and
 * stays until the GPU has passed the wait. A session is in the list only while its page
 * exists.
 */

#include "blocked_streams.h"

#include "clock.h"
#include "gate.h"
#include "lock.h"
#include "server/session/fault.h"
#include "server/session/session.h"
#include "server/driver/driver_facts.h"
#include "server/device/device.h"

/* Less for a session beyond its share, counting all others. */
#define LARGE_LESS 2
#define SESSION_MAX 6u
#define SESSION_SHARE 2u /* reserved per session with a semaphore: two streams that take turns */
#define SPINS 30         /* of some microseconds, before the first sleep */
#define FIRST_NS 100000000

struct entry {
	const struct session *session;
	uint32_t stream;
	uint64_t serial;
};

atomic_uint blocked_n;

static struct lock lock = LOCK_INIT(BLOCKED_STREAMS);
static struct lock placing = LOCK_INIT(PLACING);
static unsigned n_calls, n_wanted; /* exclusive calls: those made, those wanted; under the lock */
static struct entry entries[DRIVER_QUEUES_MAX]; /* blocked_n of them; under the lock */

static bool is_passed(const struct entry *entry)
{
	return shm_load64(&entry->session->page->passed[entry->stream]) >= entry->serial;
}

/* Removes entries that the GPU has passed. Under the lock, like the functions below. */
static void blocked_sweep(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < blocked_n; i++)
		if (!is_passed(&entries[i]))
			entries[n++] = entries[i];
	atomic_store(&blocked_n, n);
}

static struct entry *blocked_find(const struct session *session, uint32_t stream)
{
	for (unsigned i = 0; i < blocked_n; i++)
		if (entries[i].session == session && entries[i].stream == stream)
			return &entries[i];
	return NULL;
}

static unsigned count_of(const struct session *session)
{
	unsigned n = 0;

	for (unsigned i = 0; i < blocked_n; i++)
		n += entries[i].session == session;
	return n;
}

/* Counts each other session with at least its share, which it may want at any time. */
static unsigned count_others(const struct session *session)
{
	unsigned n = 0;

	for (unsigned i = 0; i < blocked_n; i++) {
		bool is_first = entries[i].session != session;

		for (unsigned k = 0; k < i; k++)
			is_first = is_first && entries[k].session != entries[i].session;
		if (is_first)
			n += MAX(count_of(entries[i].session), SESSION_SHARE);
	}
	return n;
}

/*
 * A blocked stream may wait for something behind another wait of the same client, so a session with
 * a blocked stream may have more.
 */
static bool has_space(const struct session *session)
{
	unsigned n = 1 + count_of(session);

	if (n_calls > 0 || (n_wanted > 0 && n == 1) || n > SESSION_MAX)
		return false;
	return count_others(session) + MAX(n, SESSION_SHARE) <=
	       driver_facts()->n_queues_blocked - (n <= SESSION_SHARE ? 0 : LARGE_LESS);
}

/* The client to which a blocked stream belongs. */
struct holder {
	pid_t pid;
	uint32_t id;
};

/* Under the lock: notes the oldest entry of another session, or else of this one. */
static void note_for_whom(struct holder *holder, const struct session *session)
{
	const struct session *whom = session;

	for (unsigned i = 0; i < blocked_n && whom == session; i++)
		whom = entries[i].session;
	if (whom)
		*holder = (struct holder){whom->pid, whom->id};
}

static bool blocked_again(struct gate_wait *wait, const struct holder *holder)
{
	if (!gate_again(wait))
		return false;
	gate_say_held_up(wait, holder->pid, holder->id);
	return true;
}

static bool try_take(const struct session *session, const struct stream *stream, uint64_t serial,
	struct holder *holder)
{
	struct entry *entry;
	bool taken = true;

	lock_take(&lock);
	blocked_sweep();
	entry = blocked_find(session, stream->id);
	if (entry) {
		entry->serial = serial;
	} else if (has_space(session)) {
		entries[blocked_n] = (struct entry){session, stream->id, serial};
		atomic_fetch_add(&blocked_n, 1);
	} else {
		note_for_whom(holder, session);
		taken = false;
	}
	lock_release(&lock);
	return taken;
}

bool blocked_begin(struct session *session, struct stream *stream, uint64_t serial)
{
	struct gate_wait wait = gate_wait(GATE_BLOCKED, session);
	struct holder holder = {0};

	while (!try_take(session, stream, serial, &holder))
		if (!blocked_again(&wait, &holder))
			return false;
	return true;
}

/* Two streams that move at the same time could get the same queue. */
void blocked_place(const struct stream *stream, bool is_new)
{
	CUdeviceptr scratch = stream->device->scratch;

	lock_take(&placing);
	if (is_new && scratch)
		cuda.cuMemcpyDtoDAsync_v2(
			scratch, scratch + sizeof(uint64_t), sizeof(uint64_t), stream->real);
}

void blocked_placed(void)
{
	lock_release(&placing);
}

/* Whether the call may be made now. If so, no stream becomes blocked until it ends. */
static bool try_call(void)
{
	blocked_sweep();
	if (blocked_n > 0)
		return false;
	n_calls++;
	return true;
}

/* The session ends and waits for its own streams, which are released only after this call. */
static bool waits_for_itself(const struct session *session)
{
	return session && atomic_load(&session->is_ending) && count_of(session) > 0;
}

/* For FIRST_NS no session gets its first blocked stream, so that the call gets its turn. */
bool exclusive_call_begin(struct session *session, unsigned most_ms)
{
	_cleanup_(gate_end) struct gate_wait wait = gate_wait(GATE_EXCLUSIVE, session);
	bool is_first = true, may, again = true;
	struct holder holder = {0};

	wait.ignores_end = true;
	wait.end_ns = most_ms > 0 ? now_ns() + most_ms * UINT64_C(1000000) : 0;
	lock_take(&lock);
	n_wanted++;
	while (!(may = try_call()) && again && !waits_for_itself(session)) {
		note_for_whom(&holder, session);
		lock_release(&lock);
		again = blocked_again(&wait, &holder);
		lock_take(&lock);
		n_wanted -= is_first && gate_waited_ns(&wait) >= FIRST_NS;
		is_first = is_first && gate_waited_ns(&wait) < FIRST_NS;
	}
	n_wanted -= is_first;
	lock_release(&lock);
	return may;
}

void exclusive_call_end(void)
{
	lock_take(&lock);
	n_calls--;
	lock_release(&lock);
}

static bool is_at_rest(const struct stream *stream)
{
	for (unsigned i = 0; i < SPINS; i++)
		if (cuda.cuStreamQuery(stream->real) != CUDA_ERROR_NOT_READY)
			return true;
	return false;
}

/* Whether no stream is blocked. If one is, notes which. */
static bool blocked_look(struct holder *holder, const struct session *session)
{
	bool is_free;

	lock_take(&lock);
	blocked_sweep();
	is_free = blocked_n == 0;
	note_for_whom(holder, session);
	lock_release(&lock);
	return is_free;
}

void blocked_drain(struct session *session, struct stream *stream)
{
	struct gate_wait wait = gate_wait(GATE_DRAIN, session);
	struct holder holder = {0};

	if (stream->n_beside <= BLOCKED_BEHIND_MAX && blocked_has(session))
		return;
	while (!blocked_look(&holder, session) && !is_at_rest(stream) &&
		blocked_again(&wait, &holder))
		;
	stream->n_beside = 0;
}

void blocked_forget(const struct session *session, const struct stream *stream)
{
	struct entry *entry;

	lock_take(&lock);
	entry = blocked_find(session, stream->id);
	if (entry)
		entry->serial = 0;
	blocked_sweep();
	lock_release(&lock);
}

void blocked_forget_all(const struct session *session)
{
	lock_take(&lock);
	for (unsigned i = 0; i < blocked_n; i++)
		if (entries[i].session == session)
			entries[i].serial = 0;
	blocked_sweep();
	lock_release(&lock);
}

bool blocked_has(const struct session *session)
{
	unsigned n;

	if (likely(!blocked_any()))
		return false;
	lock_take(&lock);
	blocked_sweep();
	n = count_of(session);
	lock_release(&lock);
	return n > 0;
}

bool blocked_contains(const struct session *session, uint32_t stream)
{
	bool is_blocked;

	if (likely(!blocked_any()))
		return false;
	lock_take(&lock);
	blocked_sweep();
	is_blocked = blocked_find(session, stream) != NULL;
	lock_release(&lock);
	return is_blocked;
}

/* Whether the stream should move to another queue. */
static bool has_to_evade(const struct session *session, const struct stream *stream)
{
	return blocked_any() && !blocked_contains(session, stream->id) && blocked_any() &&
	       stream->device->scratch;
}

/* The copied bytes are never read. */
void blocked_evade_real(struct session *session, const struct device *device, CUstream real)
{
	if (blocked_any() && device->scratch && session->timeline)
		cuda.cuMemcpyDtoHAsync_v2(
			shm_raw(&session->page->evade[0]), device->scratch, sizeof(uint64_t), real);
}

void blocked_evade_write(struct session *session, const struct stream *stream)
{
	if (unlikely(has_to_evade(session, stream)))
		blocked_evade_real(session, stream->device, stream->real);
}

void blocked_evade(const struct session *session, const struct stream *stream)
{
	CUdeviceptr scratch = stream->device->scratch;

	if (unlikely(has_to_evade(session, stream)))
		cuda.cuMemcpyDtoDAsync_v2(
			scratch, scratch + sizeof(uint64_t), sizeof(uint64_t), stream->real);
}
