/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Invariant: a session that leaves is at rest between two messages, so its page does not change.
 */

#include "session_move.h"

#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "fault.h"
#include "reply.h"
#include "session.h"
#include "session_part.h"
#include "server/util/pack.h"

/* That of a fault is about nothing that could be made again. */
static bool has_error(struct session *session)
{
	const CUresult result = reply_peek_pending_error(session);

	return result != CUDA_SUCCESS && !result_is_fault(result);
}

const char *session_obstacle(struct session *session)
{
	const char *why = record_obstacle(&session->record);

	if (!why && session->tracer)
		why = "a trace of it runs";
	if (!why && has_error(session))
		why = "it has an error that its client does not know yet";
	return why ? why : session_parts_obstacle(session);
}

const char *session_stays(struct session *session)
{
	const char *why = session->script ? NULL : session_obstacle(session);

	if (!why)
		why = session_parts_stay(session);
	if (why)
		return why;
	if (session->trace)
		return "a trace of it runs";
	if (session->has_lost)
		return "the fault has met a call of it";
	return NULL;
}

/* All fixed-size state that the worker keeps between two messages. */
struct moved {
	uint32_t head, n_held;
	uint32_t active_threads, group_threads;
	uint32_t n_late_errors;
	uint32_t pending_error;
	uint32_t n_refusals;
	uint32_t is_dropping;
	uint32_t dropped_to;
	uint32_t
		n_settled; /* timelines that a GPU could write still, when the session was packed */
	uint64_t n_messages;
	uint64_t counters[COUNTERS];
};

int session_pack(struct session *session, struct pack *pack)
{
	const struct ring_receiver *receiver = &session->receiver;
	struct moved moved = {
		.head = receiver->head,
		.n_held = receiver->n_held - receiver->n_given,
		.active_threads = session->active_threads,
		.group_threads = session->group_threads,
		.n_late_errors = session->n_late_errors,
		.pending_error = (uint32_t)session->pending_error,
		.n_refusals = session->n_refusals,
		.is_dropping = session->is_dropping,
		.dropped_to = session->dropped_to,
		.n_settled = session->is_dropping ? session->n_marks : 0,
		.n_messages = session->n_messages,
	};
	int r;

	for (unsigned i = 0; i < COUNTERS; i++)
		moved.counters[i] = atomic_load(&session->counters[i]);
	pack_put(pack, &moved, sizeof(moved));
	/* The first part of a message whose rest the client is still writing. */
	pack_put(pack, receiver->held + receiver->n_given, moved.n_held);
	for (uint32_t i = 0; i < moved.n_settled; i++)
		pack_put_number(pack, shm_load64(&session->page->timeline[i]));
	r = session_parts_pack(session, pack);
	return r == 0 && pack->is_bad ? -ENOMEM : r;
}

/* A limit of its group was set later, and holds for later members. */
static bool group_threads_ok(const struct session *session, uint32_t threads)
{
	if (!session->group)
		return threads == ACTIVE_THREADS_ALL;
	return threads >= session->limits.active_threads && threads <= ACTIVE_THREADS_ALL;
}

/* The fixed-size state, the part of a message that goes to the receiver, and timelines. */
static bool moved_get(struct session *session, struct pack *pack, struct moved *ret_moved)
{
	if (!pack_get(pack, ret_moved, sizeof(*ret_moved)) || ret_moved->n_held > RING_RUN_MAX ||
		ret_moved->is_dropping > 1 || ret_moved->n_settled > STREAMS_MAX ||
		!group_threads_ok(session, ret_moved->group_threads) ||
		!pack_get(pack, session->receiver.held, ret_moved->n_held))
		return false;
	for (uint32_t i = 0; i < ret_moved->n_settled; i++)
		shm_store64(&session->page->timeline[i], pack_get_number(pack, UINT64_MAX));
	return !pack->is_bad;
}

int session_check(struct session *session, const struct pack *pack)
{
	struct pack copy = *pack;
	struct moved moved;
	int r;

	if (!moved_get(session, &copy, &moved))
		return -EBADMSG;
	r = session_parts_check(session, &copy);
	return r == 0 && !pack_is_used_up(&copy) ? -EBADMSG : r;
}

int session_unpack(struct session *session, struct pack *pack)
{
	struct ring_receiver *receiver = &session->receiver;
	struct moved moved;
	int r;

	if (!moved_get(session, pack, &moved))
		return -EBADMSG;
	receiver->head = moved.head;
	receiver->n_held = moved.n_held;
	session->active_threads = moved.active_threads;
	session->group_threads = moved.group_threads;
	session->n_late_errors = moved.n_late_errors;
	session->pending_error = (CUresult)moved.pending_error;
	session->n_refusals = moved.n_refusals;
	session->is_dropping = moved.is_dropping;
	session->dropped_to = moved.dropped_to;
	session->n_messages = moved.n_messages;
	for (unsigned i = 0; i < COUNTERS; i++)
		atomic_store(&session->counters[i], moved.counters[i]);
	r = session_parts_unpack(session, pack);
	if (r == 0 && !pack_is_used_up(pack))
		r = -EBADMSG;
	return r;
}

/* But for the memory: limits of groups change. There are facts of `n_devices' GPUs. */
static bool devices_are_same(const struct page *old, const struct page *page)
{
	const unsigned n = MIN(page->n_devices, DEVICES_MAX);

	for (unsigned i = 0; i < n; i++) {
		struct device_facts facts = old->device[i];

		facts.total_memory = page->device[i].total_memory;
		if (memcmp(&facts, &page->device[i], sizeof(facts)) != 0 ||
			memcmp(old->peer[i], page->peer[i], sizeof(page->peer[i])) != 0)
			return false;
	}
	return true;
}

bool session_fits(const struct session *session, const struct page __shm *before)
{
	const struct page *old = shm_settled(before), *page = shm_settled(session->page);

	return old->init_result == page->init_result &&
	       old->driver_version == page->driver_version && old->n_devices == page->n_devices &&
	       old->page_bytes == page->page_bytes && old->active_threads == page->active_threads &&
	       devices_are_same(old, page);
}

/* Copies the parts of [at, end) that have ever been written; the others are zeros in both pages. */
static void copy_written(
	struct session *session, const void __shm *before, int fd, off_t at, off_t end)
{
	void __shm *whole = session->page;
	uint8_t __shm *page = whole;
	const uint8_t *words = shm_settled(before);

	while (at < end && (at = lseek(fd, at, SEEK_DATA)) >= 0 && at < end) {
		off_t hole = lseek(fd, at, SEEK_HOLE);
		off_t stop = hole < 0 ? end : MIN(hole, end);

		shm_copy_in(page + at, words + at, (size_t)(stop - at));
		at = stop;
	}
}

#define COPY(member)                                                                               \
	copy_written(session, before, fd, offsetof(struct page, member),                           \
		offsetof(struct page, member) + sizeof(before->member))

/* The GPU may have written after the worker has, if its work has ended by a fault. */
static void take_timelines(struct session *session, const struct page __shm *before)
{
	for (uint32_t i = 0; i < STREAMS_MAX; i++) {
		const uint64_t seqno = shm_load64(&before->timeline[i]);

		if (seqno > shm_load64(&session->page->timeline[i]))
			shm_store64(&session->page->timeline[i], seqno);
	}
}

void session_take_words(struct session *session, const struct page __shm *before, int fd)
{
	COPY(head);
	COPY(error);
	COPY(refusal_limit);
	COPY(refusal);
	COPY(n_asked);
	COPY(n_text);
	if (session->is_dropping)
		take_timelines(session, before);
	else
		COPY(timeline);
	COPY(asked);
	COPY(graph_asked);
	COPY(reply);
}
