/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Waiter threads of a session. waiters_watch() and waiters_fini() run on its worker, the
 * rest on the waiters' own threads.
 *
 * Invariant: a watch is on one list, idle or queue, or one waiter has it.
 */

#include "waiter.h"

#include "lock.h"
#include "server/util/thread.h"
#include "server/session/fault.h"
#include "server/session/session.h"
#include "server/session/session_part.h"
#include "server/device/device.h"

static void waiters_init(struct session *session, void *part)
{
	struct waiters *waiters = part;

	session->waiters = waiters;
	*waiters = (struct waiters){.queue_end = &waiters->queue};
	lock_init(&waiters->lock, LOCK_WAITERS);
	pthread_cond_init(&waiters->wanted, NULL);
}

/* The next watch to wait for; NULL: the waiters end. */
static struct watch *next_watch(struct waiters *waiters)
{
	struct watch *watch;

	waiters->n_free_threads++;
	while (!waiters->queue && !waiters->is_ending)
		pthread_cond_wait(&waiters->wanted, lock_to_wait(&waiters->lock));
	waiters->n_free_threads--;
	watch = waiters->queue;
	if (watch) {
		waiters->n_queued--;
		waiters->queue = watch->next;
		if (!waiters->queue)
			waiters->queue_end = &waiters->queue;
	}
	return watch;
}

static void put_idle(struct waiters *waiters, struct watch *watch)
{
	LIST_PUSH(waiters->idle, watch);
}

static void *waiter_run(void *arg)
{
	struct session *session = arg;
	struct waiters *waiters = session->waiters;
	const struct device *current = NULL;
	struct watch *watch;

	lock_take(&waiters->lock);
	while ((watch = next_watch(waiters))) {
		lock_release(&waiters->lock);
		if (current != watch->device) {
			cuda.cuCtxSetCurrent(watch->device->context);
			current = watch->device;
		}
		fault_note(session, cuda.cuEventSynchronize(watch->event));
		if (watch->is_call)
			shm_add32(watch->word, 1);
		shm_wake(watch->word);
		lock_take(&waiters->lock);
		waiters->n_calls -= watch->is_call;
		put_idle(waiters, watch);
	}
	lock_release(&waiters->lock);
	return NULL;
}

/*
 * A watch whose event belongs to that GPU; makes one if needed. NULL: there are too many.
 * Under the lock.
 */
static struct watch *take_watch(struct session *session, const struct device *device)
{
	struct waiters *waiters = session->waiters;
	struct watch *watch;

	for (struct watch **link = &waiters->idle; *link; link = &(*link)->next) {
		watch = *link;
		if (watch->device == device) {
			*link = watch->next;
			return watch;
		}
	}
	if (waiters->n_watches >= WATCHES_MAX)
		return NULL;
	watch = account_alloc(session->account, sizeof(*watch), KEPT_EVENT);
	if (!watch)
		return NULL;
	watch->device = device;
	if (cuda.cuEventCreate(&watch->event, CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC) !=
		CUDA_SUCCESS) {
		account_free(watch);
		return NULL;
	}
	waiters->n_watches++;
	return watch;
}

/*
 * Makes sure that a thread looks at the queue: a free thread, a new one, or the next one
 * that is free.
 */
static bool call_thread(struct session *session, struct waiters *waiters)
{
	if (waiters->n_queued >= waiters->n_free_threads && waiters->n_threads < WAITERS_MAX &&
		thread_start(&waiters->threads[waiters->n_threads], "mps-waiter", waiter_run,
			session) == 0)
		waiters->n_threads++;
	else
		pthread_cond_signal(&waiters->wanted);
	return waiters->n_threads > 0;
}

/* Under the lock. */
static CUresult waiter_put(struct session *session, struct watch *watch, CUstream real)
{
	struct waiters *waiters = session->waiters;
	CUresult result = cuda.cuEventRecord(watch->event, real);

	watch->next = NULL;
	if (result != CUDA_SUCCESS || !call_thread(session, waiters)) {
		put_idle(waiters, watch);
		return result;
	}
	*waiters->queue_end = watch;
	waiters->queue_end = &watch->next;
	waiters->n_queued++;
	waiters->n_calls += watch->is_call;
	return CUDA_SUCCESS;
}

CUresult waiters_watch(
	struct session *session, uint32_t stream, const struct device *device, CUstream real)
{
	struct waiters *waiters = session->waiters;
	CUresult result = CUDA_SUCCESS;
	struct watch *watch;

	lock_take(&waiters->lock);
	watch = take_watch(session, device);
	if (watch) {
		watch->word = shm_low_half(&session->page->timeline[stream]);
		watch->is_call = false;
		result = waiter_put(session, watch, real);
	}
	lock_release(&waiters->lock);
	return result;
}

CUresult waiters_watch_call(struct session *session, const struct device *device, CUstream real)
{
	struct waiters *waiters = session->waiters;
	CUresult result = CUDA_SUCCESS;
	struct watch *watch = NULL;

	lock_take(&waiters->lock);
	if (waiters->n_calls < WATCH_CALLS_MAX)
		watch = take_watch(session, device);
	if (watch) {
		watch->word = &session->page->n_asked;
		watch->is_call = true;
		result = waiter_put(session, watch, real);
	}
	lock_release(&waiters->lock);
	return result;
}

/* Ends the threads. What they wait for is done, or the context is lost. */
static void waiters_fini(struct session *session, bool device_lost)
{
	struct waiters *waiters = session->waiters;

	lock_take(&waiters->lock);
	waiters->is_ending = true;
	pthread_cond_broadcast(&waiters->wanted);
	lock_release(&waiters->lock);
	for (unsigned i = 0; i < waiters->n_threads; i++)
		pthread_join(waiters->threads[i], NULL);
	while (waiters->idle) {
		struct watch *watch = LIST_POP(waiters->idle);

		if (!device_lost)
			cuda.cuEventDestroy_v2(watch->event);
		account_free(watch);
	}
	lock_fini(&waiters->lock);
	pthread_cond_destroy(&waiters->wanted);
}

const struct session_part waiters_part = {
	.size = sizeof(struct waiters),
	.kept = WAITERS_MAX * (uint64_t)KEPT_THREAD,
	.begin = waiters_init,
	.end = waiters_fini,
};
