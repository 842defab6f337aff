/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Posting seqnos and waiting for them. Any thread of the application.
 *
 * Invariant: a stream's seqnos are posted in rising order, because one lock covers
 * the number and the position in the ring. So its timeline never falls.
 */

#include "timeline.h"

#include <stdatomic.h>

#include "lock.h"
#include "spin.h"
#include "client/util/sleep.h"
#include "client/util/worker_pool.h"
#include "client/transport/call.h"
#include "client/transport/server_link.h"
#include "send_stream.h"

/* The fastest possible bus: no copy takes less time. Sleeping for a short copy would end late. */
#define BUS_BYTES_A_NS 64u
#define SLEEP_EARLY_NS 100000u
#define SLEEP_FROM_NS 500000u

/*
 * The sleep between two looks while pieces of a copy arrive. After SLEEPS_MAX
 * sleeps the wait is not for the copy.
 */
#define SLEEP_NS 20000u
#define SLEEPS_MAX 50

/* After the spin of any call, if there are processors for the clients at work and their workers. */
#define SPIN_ON_NS 2000000u
#define PROCESSORS_MIN 4u

/* ... or if these threads are more than the processors. This thread then yields. */
#define SPIN_YIELDING_NS 1000000u

/* Shorter waits do not ask how many processors there are. */
#define SPIN_FIRST_NS 2000u

/*
 * A thread that sleeps in the driver is woken by an interrupt, 0.2 to 0.4 ms late
 * (measured); a thread that spins, as the driver's do, 10 us late. So for
 * POLLING_NS this thread looks itself, after sleeps of a part of the time that it
 * has waited: they end late by at most that part.
 */
#define POLLING_NS 20000000u
#define SLEEP_PART 64
#define SLEEP_LEAST_NS 10000u
#define SLEEP_MOST_NS 200000u

/* A wait may end by this part of its expected length earlier or later. */
#define EXPECTED_PART 16
#define EXPECTED_EARLY_NS 500000u
#define EXPECTED_MOST_NS 100000000u

CUresult timeline_post(struct stream *stream, uint64_t *ret_seqno)
{
	CUresult result = CUDA_SUCCESS;

	lock_hold(&stream->lock);
	if (atomic_exchange_explicit(&stream->is_issued, 0, memory_order_acq_rel)) {
		result = send_seqno_write(stream_id(stream), stream->posted_seqno + 1);
		if (result == CUDA_SUCCESS)
			atomic_store_explicit(&stream->posted_seqno, stream->posted_seqno + 1,
				memory_order_release);
		else
			stream_issued(stream);
	}
	*ret_seqno = stream->posted_seqno;
	return result;
}

void timeline_note(struct stream *stream, uint64_t *ret_seqno)
{
	lock_hold(&stream->lock);
	stream_issued(stream);
	*ret_seqno = stream->posted_seqno + 1;
}

void timeline_cover(struct stream *stream, uint64_t *ret_seqno)
{
	lock_hold(&stream->lock);
	/* Work that the NULL stream covers may be on other streams. */
	if (stream_is_null(stream))
		stream_issued(stream);
	*ret_seqno = stream->posted_seqno +
		     atomic_load_explicit(&stream->is_issued, memory_order_acquire);
}

CUresult timeline_record(struct stream *stream, uint32_t event, uint64_t *ret_seqno)
{
	CUresult result;

	lock_hold(&stream->lock);
	/* Clear it first: another thread may post work behind this seqno meanwhile. */
	atomic_store_explicit(&stream->is_issued, 0, memory_order_release);
	result = send_event_record(event, stream_id(stream), stream->posted_seqno + 1);
	if (result == CUDA_SUCCESS) {
		atomic_store_explicit(
			&stream->posted_seqno, stream->posted_seqno + 1, memory_order_release);
		*ret_seqno = stream->posted_seqno;
	} else {
		stream_issued(stream);
	}
	return result;
}

bool timeline_reached(const struct stream *stream, uint64_t seqno)
{
	return shm_load64(&server.page->timeline[stream_id(stream)]) >= seqno;
}

bool timeline_is_busy(const struct stream *stream)
{
	return atomic_load_explicit(&stream->is_issued, memory_order_acquire) ||
	       !timeline_reached(
		       stream, atomic_load_explicit(&stream->posted_seqno, memory_order_acquire));
}

static _Thread_local struct yielder own_yielder;

static bool spin_until(const struct stream *stream, uint64_t seqno, struct spin spin)
{
	while (!timeline_reached(stream, seqno))
		if (!spin_again(&spin))
			return false;
	return true;
}

static bool timeline_spin(const struct stream *stream, uint64_t seqno, uint64_t spin_ns)
{
	return spin_until(stream, seqno, (struct spin){.length_ns = spin_ns});
}

/* Clients at work and their workers. */
static unsigned n_threads_at_work(void)
{
	return 2 * server_link_clients_at_work(&server);
}

/* NULL: this thread keeps its processor while it spins. */
static struct yielder *find_yielder(void)
{
	return !server.is_without_long_spin && yielder_may(&own_yielder, n_threads_at_work(),
						       worker_pool_processors())
		       ? &own_yielder
		       : NULL;
}

bool timeline_reached_soon(const struct stream *stream, uint64_t seqno)
{
	return timeline_spin(stream, seqno, SPIN_FIRST_NS) ||
	       spin_until(stream, seqno,
		       (struct spin){.length_ns = CALL_SPIN_NS, .yielder = find_yielder()});
}

void timeline_expect_copy(const struct stream *stream, uint64_t seqno, uint64_t size)
{
	uint64_t expected_ns = size / BUS_BYTES_A_NS, pause_ns = 0;

	if (expected_ns > SLEEP_FROM_NS) {
		pause_ns = expected_ns - SLEEP_EARLY_NS;
		sleep_ns(pause_ns);
		/* Otherwise the program's next call would wait until the worker is awake. */
		ring_wake(&server.sender);
	}
	timeline_spin(stream, seqno, CALL_SPIN_NS + expected_ns + expected_ns / 2 - pause_ns);
}

CUresult timeline_wait_polling(struct stream *stream, uint64_t seqno)
{
	for (unsigned i = 0; i < SLEEPS_MAX; i++) {
		if (timeline_spin(stream, seqno, i == 0 ? CALL_SPIN_NS : SLEEP_NS / 4))
			return server_link_check(&server);
		sleep_ns(SLEEP_NS);
	}
	return timeline_wait(stream, seqno);
}

/* Whether each client at work and its worker have a processor. */
static bool may_spin_on(void)
{
	return !server.is_without_long_spin &&
	       worker_pool_processors() >= MAX(n_threads_at_work(), PROCESSORS_MIN);
}

/* Spins on, as the driver does in a native program. */
static bool reached_in_spin(const struct stream *stream, uint64_t seqno)
{
	struct yielder *yielder = find_yielder();

	if (yielder)
		return spin_until(stream, seqno,
			(struct spin){.length_ns = SPIN_YIELDING_NS, .yielder = yielder});
	return may_spin_on() && timeline_spin(stream, seqno, SPIN_ON_NS);
}

/* False: the time has come. */
static bool poll_until(const struct stream *stream, uint64_t seqno, uint64_t end_ns)
{
	uint64_t start_ns = now_ns(), now = start_ns;

	while (now < end_ns) {
		uint64_t length_ns = (now - start_ns) / SLEEP_PART;

		length_ns = MIN(MAX(length_ns, SLEEP_LEAST_NS), SLEEP_MOST_NS);
		sleep_ns(MIN(length_ns, end_ns - now));
		if (timeline_reached(stream, seqno))
			return true;
		now = now_ns();
	}
	return false;
}

/* This thread's last wait that was too long for a spin; 0: there was none. */
static _Thread_local uint64_t last_long_wait_ns;

/*
 * Programs repeat their work. Around the expected end of a wait this thread spins, and the worker
 * is awake for what the program does next. False: the wait takes longer.
 */
static bool reached_as_expected(
	const struct stream *stream, uint64_t seqno, uint64_t start_ns, uint64_t deadline_ns)
{
	uint64_t expected_ns = last_long_wait_ns;
	uint64_t early_ns = MIN(expected_ns / EXPECTED_PART, EXPECTED_EARLY_NS);

	if (expected_ns == 0 || expected_ns > EXPECTED_MOST_NS || !may_spin_on() ||
		start_ns + expected_ns + early_ns > deadline_ns)
		return false;
	if (poll_until(stream, seqno, start_ns + expected_ns - early_ns))
		return true;
	ring_wake(&server.sender);
	return timeline_spin(stream, seqno, 2 * early_ns);
}

/* The server's waiter wakes this thread. */
static CUresult wait_woken(const struct stream *stream, uint64_t seqno, uint64_t deadline_ns)
{
	const uint32_t __shm *word = shm_low_half(&server.page->timeline[stream_id(stream)]);
	CUresult result, late;

	result = send_seqno_watch(stream_id(stream), seqno);
	if (result != CUDA_SUCCESS)
		return result;
	for (;;) {
		/* The waker wakes the low half, which differs whenever the whole number does. */
		uint32_t before = shm_load32(word);

		if (timeline_reached(stream, seqno))
			return server_link_check(&server);
		shm_wait(word, before, CALL_ROUND_MS);
		if (timeline_reached(stream, seqno))
			return server_link_check(&server);
		if (!server_link_is_alive(&server)) {
			result = server_link_check(&server);
			return result != CUDA_SUCCESS ? result : CUDA_ERROR_MPS_RPC_FAILURE;
		}
		/*
		 * This wait may depend on work that failed asynchronously: its seqno never
		 * comes.
		 */
		late = server_link_late_error(&server);
		if (late != CUDA_SUCCESS)
			return late;
		if (now_ns() >= deadline_ns)
			return CUDA_ERROR_NOT_READY;
	}
}

CUresult timeline_wait(struct stream *stream, uint64_t seqno)
{
	return timeline_wait_until(stream, seqno, UINT64_MAX);
}

CUresult timeline_wait_until(struct stream *stream, uint64_t seqno, uint64_t deadline_ns)
{
	CUresult result;
	uint64_t start_ns;

	if (likely(timeline_reached_soon(stream, seqno)))
		return server_link_check(&server);
	start_ns = now_ns();
	if (reached_in_spin(stream, seqno))
		return server_link_check(&server);
	if (reached_as_expected(stream, seqno, start_ns, deadline_ns) ||
		poll_until(stream, seqno, MIN(now_ns() + POLLING_NS, deadline_ns)))
		result = server_link_check(&server);
	else
		result = wait_woken(stream, seqno, deadline_ns);
	last_long_wait_ns = now_ns() - start_ns;
	return result;
}
