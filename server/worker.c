/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The worker of a session: fetches runs of messages out of the ring, executes each message and
 * completes it. One thread per session.
 *
 * Invariant: between two fetches, every message that is executed lies in the receiver's private
 * memory and does not change after it was checked.
 */

#include "worker.h"

#include <stdatomic.h>
#include <sys/prctl.h>

#include "bound.h"
#include "departure.h"
#include "disable.h"
#include "dropped.h"
#include "messages.h"
#include "processors.h"
#include "replay.h"
#include "spin.h"
#include "suspension.h"
#include "server/util/log.h"
#include "server/util/thread.h"
#include "server/session/at_work.h"
#include "server/session/fault.h"
#include "server/session/reply.h"
#include "server/session/session.h"
#include "server/session/session_part.h"
#include "server/schedule/background.h"
#include "server/schedule/deferred.h"
#include "server/schedule/foreground.h"
#include "server/share/eviction.h"
#include "server/share/session_devices.h"
#include "server/stream/pending_wait.h"
#include "server/stream/stream.h"
#include "server/stream/tracer.h"
#include "server/memory/away.h"
#include "server/launch/launch_batch.h"

/* Spins after the last message: the next message of a busy client comes sooner than a wake-up. */
#define SPIN_NS 50000

/*
 * ... while work of the client is on a GPU, if each client at work and its worker have a processor.
 * A wake-up takes 17 us after a pause of 300 us, and the GPU may be idle meanwhile. Training of a
 * small network by eight clients on 16 processors is 1.2 times as fast as with 400 us (measured).
 */
#define SPIN_AT_WORK_NS 2000000

/* ... and if its end has to be seen, because the session's work is measured (foreground.h). */
#define SPIN_MEASURING_NS 20000000

/*
 * ... if these threads are more than the processors: the worker yields. Kernels of 20 us of
 * 16 clients on 16 processors are 1.5 times as fast as with workers and clients that sleep.
 */
#define SPIN_YIELDING_NS 1000000

/* ... if the worker may not yield (yielder.h), and its pauses are longer than PAUSE_SPUN_NS. */
#define SPIN_SHORT_NS 2000
#define PAUSE_SPUN_NS 60000
#define PAUSE_MAX_NS 100000u

/*
 * How long a worker sleeps: with work on the GPU to look after (increasing), and without. After a
 * sleep of less than SLEEP_POLL_MS it only looks for the end of the work, and for a fault.
 */
#define SLEEP_MIN_MS 1
#define SLEEP_POLL_MS 4
#define SLEEP_MAX_MS 200
#define SLEEP_MS 60000

/* After so much rest it looks whether the session could move, and sleeps again. */
#define SLEEP_NOTE_MS 300

/* MPS_DISABLE=spin: threads spin for SPIN_NS whatever other clients do. Set once. */
static bool is_spin_fixed;

void worker_init(void)
{
	is_spin_fixed = disable_has(DISABLE_SPIN);
}

static void log_malformed(const struct session *session, const char *op, const char *why)
{
	log_line("Client " SESSION_NAME " of user %d sent a malformed message (%s: %s); its "
		 "connection is closed",
		SESSION_NAME_ARGS(session), (int)session->uid, op, why);
}

static bool is_launch(uint32_t op)
{
	return op == OP_LAUNCH || op == OP_LAUNCH_WITH || op == OP_GRAPH_LAUNCH ||
	       op == OP_GRAPH_LAUNCH_CALLS;
}

/* -EINTR: the worker has to be held, as the message is for another server. */
static __attribute__((noinline)) int refuse(
	struct session *session, const struct message_head *msg, CUresult failed)
{
	if (fault_spares(session)) {
		fault_put_back(session, (const uint8_t *)msg + 1);
		return -EINTR;
	}
	session->reply.result = (uint32_t)failed;
	session->reply.size = 0;
	return msg->reply <= REPLY_SLOTS ? 0 : -EBADMSG;
}

/* Executes a message; session->reply is the result. */
static inline __attribute__((always_inline)) int worker_execute(
	struct session *session, const struct message_head *msg)
{
	const char *why = "";
	CUresult failed;

	/*
	 * Launches that wait for the next launch go first, before any other message. A seqno may
	 * go with them.
	 */
	if (session->batch->n > 0 && msg->op != OP_LAUNCH && msg->op != OP_SEQNO_WRITE)
		launch_batch_flush(session);
	failed = fault_get();
	if (failed == CUDA_SUCCESS && is_launch(msg->op))
		failed = reply_pending_error(session);
	if (unlikely(failed != CUDA_SUCCESS))
		return refuse(session, msg, failed);
	session->n_messages++;
	if (unlikely(dispatch_message(session, msg, &session->reply, &why) < 0)) {
		log_malformed(session, op_name(msg->op), why);
		return -EBADMSG;
	}
	return 0;
}

/*
 * Executes the run that was fetched. 0, or -EBADMSG. `is_away': memory of the session may be away,
 * and has to come back before a message that can use it; or messages may be dropped.
 */
static inline __attribute__((always_inline)) int execute_run(
	struct session *session, const bool is_away)
{
	const struct message_head *msg;
	int r;

	while ((r = ring_take(&session->receiver, &msg)) > 0) {
		if (atomic_load_explicit(&session->is_ending, memory_order_relaxed))
			return 0;
		if (is_away && unlikely(dropped_takes(session, msg))) {
			reply_dropped(session, msg);
			continue;
		}
		watchdog_begin(&session->watchdog, msg->op);
		if (is_away && op_needs_memory(msg->op)) {
			/* Launches that wait for the next one are work, too. */
			launch_batch_flush(session);
			if (!away_return(session) && fault_get() == CUDA_SUCCESS) {
				/* The session ends, and its memory stays away. */
				watchdog_end(&session->watchdog);
				return 0;
			}
		}
		r = worker_execute(session, msg);
		watchdog_end(&session->watchdog);
		if (r < 0)
			return r == -EINTR ? 0 : r;
		if (unlikely(session->reply.result == CUDA_ERROR_OUT_OF_MEMORY))
			bound_note_refusal(session);
		reply_complete(session, msg);
	}
	if (r < 0)
		log_malformed(session, "ring", "the size of a message");
	return r;
}

/* Spins until a message comes. False: the spin was over before. */
static bool worker_spin(struct session *session, struct spin spin)
{
	while (!ring_has_more(&session->receiver)) {
		background_watch(session, session->background);
		foreground_watch(session, session->foreground);
		if (!spin_again(&spin))
			return false;
	}
	return true;
}

/* Fetches a run and executes it. 1: it has. 0: the ring was empty. -EBADMSG. */
static inline __attribute__((always_inline)) int fetch_run(
	struct session *session, const bool is_away)
{
	int r = ring_fetch(&session->receiver);

	if (r < 0)
		log_malformed(session, "ring", "more than it holds");
	if (r > 0 && execute_run(session, is_away) < 0)
		r = -EBADMSG;
	if (r < 0 || atomic_load(&session->is_ending))
		session->batch->n = 0;
	/* The waiting launches lie in memory that the next fetch overwrites. */
	else if (!launch_batch_is_held(session->batch))
		launch_batch_flush(session);
	return r;
}

int worker_fetch(struct session *session)
{
	int r;

	if (unlikely(session->has_pending_seqnos))
		streams_poll(session);
	do
		r = fetch_run(session, false);
	while (r > 0 && unlikely(launch_batch_is_held(session->batch)) &&
		worker_spin(session, (struct spin){.length_ns = HELD_NS}));
	if (unlikely(session->batch->n > 0))
		launch_batch_flush(session);
	return r;
}

/* Makes its objects of memory that is there. 1: it has. 0: the session ends. -EBADMSG. */
static int replay_here(struct session *session)
{
	if (!away_return(session) && fault_get() == CUDA_SUCCESS)
		return 0;
	return replay_run(session) ? 1 : -EBADMSG;
}

/* What the server before had fetched, and has not executed. */
static int execute_kept(struct session *session)
{
	int r = execute_run(session, true);

	if (fault_get() == CUDA_SUCCESS)
		atomic_fetch_and(&session->memory_wanted, ~WANTED_KEPT);
	launch_batch_flush(session);
	return r < 0 ? r : 1;
}

/* The same while something is wanted of the session's memory. */
static __attribute__((noinline)) int worker_fetch_wanted(struct session *session)
{
	unsigned wanted = atomic_load(&session->memory_wanted);
	int r = 0;

	if (wanted & WANTED_STAYS)
		departure_note(session);
	if (wanted & WANTED_REPLAY) {
		if (!ring_has_more(&session->receiver) && !(wanted & WANTED_KEPT)) {
			away_serve(session);
			return 0;
		}
		r = replay_here(session);
		if (r <= 0)
			return r;
	}
	if (wanted & WANTED_KEPT)
		return execute_kept(session);
	if (wanted & WANTED_TURN_END) {
		atomic_fetch_and(&session->memory_wanted, ~WANTED_TURN_END);
		eviction_end_turn(session);
	}

	if (wanted & (WANTED_RETURN | WANTED_DROPPED) || eviction_must_wait(session->eviction)) {
		if (session->has_pending_seqnos)
			streams_poll(session);
		r = fetch_run(session, true);
		if (session->batch->n > 0)
			launch_batch_flush(session);
	} else
		r = worker_fetch(session);
	if (r == 0)
		away_serve(session);
	else if (r > 0 && wanted & WANTED_EVICTION)
		away_refuse(session);
	if (r > 0 && wanted & WANTED_TRIM && streams_poll(session)) {
		each_part(session_parts, poll, session);
		session_devices_trim(session);
	}
	return r;
}

/* Tells the client how many sessions are at work: its copies have fewer helpers then. */
static void publish_n_at_work(struct session *session)
{
	uint32_t n = at_work_count();

	if (likely(n == session->n_at_work))
		return;
	session->n_at_work = n;
	shm_store32(&session->page->n_at_work, n);
}

static unsigned count_processors(void)
{
	static atomic_uint n_processors;
	unsigned n = atomic_load_explicit(&n_processors, memory_order_relaxed);

	if (n == 0) {
		n = processors_count();
		atomic_store_explicit(&n_processors, n, memory_order_relaxed);
	}
	return n;
}

/* How to spin after the last message. */
static struct spin choose_spin(struct session *session)
{
	/* Each session at work has its worker, and a thread of the client. */
	unsigned n_threads = 2 * at_work_count(), n = count_processors();

	/* So that it rests often. */
	if (unlikely(replay_is_test()))
		return (struct spin){.length_ns = 0};
	if (!session->busy || is_spin_fixed)
		return (struct spin){.length_ns = SPIN_NS};
	if (n_threads <= n)
		return (struct spin){.length_ns = foreground_is_waiting(session->foreground)
							  ? SPIN_MEASURING_NS
							  : SPIN_AT_WORK_NS};
	if (yielder_may(&session->yielder, n_threads, n))
		return (struct spin){.length_ns = SPIN_YIELDING_NS, .yielder = &session->yielder};
	return (struct spin){
		.length_ns = session->pause_ns > PAUSE_SPUN_NS ? SPIN_SHORT_NS : SPIN_NS};
}

/* After a pause between two runs of messages. */
static void note_pause(struct session *session, uint64_t *idle_since_ns)
{
	int64_t pause_ns = (int64_t)MIN(now_ns() - *idle_since_ns, PAUSE_MAX_NS);

	session->pause_ns += (pause_ns - session->pause_ns) / 8;
	*idle_since_ns = 0;
}

static void worker_sleep(struct session *session, int timeout_ms)
{
	if (unlikely(session->tracer != NULL))
		tracer_sleep(session, timeout_ms);
	else
		ring_sleep(&session->receiver, timeout_ms);
}

/* A fault that it finds now meets nothing that others put on the GPU later. */
static void look_soon(struct session *session, int *sleep_ms)
{
	if (*sleep_ms >= SLEEP_POLL_MS || fault_get() != CUDA_SUCCESS)
		return;
	streams_look(session);
	if (!session_is_at_work(session))
		*sleep_ms = SLEEP_POLL_MS;
}

/* No work of the session is left. */
static void rest_settled(struct session *session)
{
	int pause_ms;

	session_set_at_work(session, false);
	if (unlikely(eviction_is_test()))
		away_leave(session);
	if (unlikely(replay_is_test()))
		replay_leave(session);
	pause_ms = away_warm_store(session);
	pause_ms = pause_ms < 0 ? SLEEP_MS : pause_ms;
	if (departure_is_noted(session)) {
		worker_sleep(session, pause_ms);
		return;
	}
	worker_sleep(session, MIN(pause_ms, SLEEP_NOTE_MS));
	if (!ring_has_more(&session->receiver) && !atomic_load(&session->is_ending))
		departure_note(session);
}

/*
 * The ring is empty: looks after the session's remaining work, and sleeps. Until the last
 * work has ended, it wakes up regularly.
 */
static void worker_rest(struct session *session, int *sleep_ms)
{
	bool is_short;

	if (unlikely(replay_is_test()) && fault_get() == CUDA_SUCCESS)
		streams_poll(session);
	if (!session->busy && !session->has_pending_seqnos && session_parts_are_settled(session)) {
		rest_settled(session);
		return;
	}
	look_soon(session, sleep_ms);
	is_short = *sleep_ms < SLEEP_POLL_MS;
	worker_sleep(session, *sleep_ms);
	if (ring_has_more(&session->receiver) || atomic_load(&session->is_ending))
		return;
	*sleep_ms = MIN(2 * *sleep_ms, SLEEP_MAX_MS);
	if (is_short)
		return;
	if (fault_get() == CUDA_SUCCESS)
		each_part(session_parts, poll, session);
	if (fault_get() != CUDA_SUCCESS)
		return;
	if (streams_poll(session)) {
		each_part(session_parts, trim, session, *sleep_ms == SLEEP_MAX_MS);
		each_part(session_parts, keep, session);
	}
	session_set_at_work(session, streams_are_at_work(session));
}

/* Until the session has to end. */
static void worker_loop(struct session *session)
{
	int sleep_ms = SLEEP_MIN_MS;
	uint64_t idle_since_ns = 0;

	while (!atomic_load(&session->is_ending)) {
		int r;

		if (unlikely(trace_has_changed(session)))
			tracer_sync(session);
		if (suspension_is_wanted(session)) {
			suspension_hold(session);
			departure_hold(session);
			sleep_ms = SLEEP_MIN_MS;
			continue;
		}
		r = unlikely(atomic_load_explicit(&session->memory_wanted, memory_order_relaxed))
			    ? worker_fetch_wanted(session)
			    : worker_fetch(session);
		if (r < 0) {
			session_drop(session);
			return;
		}
		if (r > 0) {
			sleep_ms = SLEEP_MIN_MS;
			if (idle_since_ns > 0)
				note_pause(session, &idle_since_ns);
			if (session->busy)
				session_set_at_work(session, true);
			publish_n_at_work(session);
			continue;
		}
		if (idle_since_ns == 0) {
			idle_since_ns = now_ns();
			eviction_note_idle(session, idle_since_ns);
		}
		if (!worker_spin(session, choose_spin(session)))
			worker_rest(session, &sleep_ms);
	}
}

void session_clean_up(struct session *session)
{
	bool device_lost;

	atomic_store(&session->is_ending, true);
	device_lost = fault_get() != CUDA_SUCCESS || streams_wait(session) != CUDA_SUCCESS;
	each_part(session_parts, end, session, device_lost);
	session_forget_objects(session);
	deferred_note_freed();
}

static void *worker_run(void *arg)
{
	struct session *session = arg;

	/* Waits at a gate (gate.h) are of 20 us; with the usual slack they take 70. */
	prctl(PR_SET_TIMERSLACK, 1);
	worker_loop(session);
	/* A dropped client hangs up, and the server's loop then sets `is_ending'. */
	while (!atomic_load(&session->is_ending))
		ring_sleep(&session->receiver, SLEEP_MAX_MS);
	watchdog_begin(&session->watchdog, WATCHDOG_CLEAN_UP);
	session_clean_up(session);
	watchdog_end(&session->watchdog);
	session_set_at_work(session, false);
	atomic_store(&session->is_done, true);
	session->on_news(session->on_news_arg);
	return NULL;
}

int session_start(struct session *session)
{
	return thread_start(&session->thread, "mps-worker", worker_run, session);
}

void session_end(struct session *session)
{
	atomic_store(&session->is_ending, true);
	/*
	 * After a fault no stream waits any more, and clients that live may read their semaphores.
	 */
	if (fault_get() == CUDA_SUCCESS)
		pending_waits_release_here(session);
	ring_interrupt(&session->receiver);
}
