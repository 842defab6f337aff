/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The deferred calls and their thread.
 *
 * Invariant: the objects on the list have no user any more, so only memory depends on when
 * they end.
 */

#include "deferred.h"

#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "lock.h"
#include "quiet.h"
#include "server/util/thread.h"
#include "server/session/at_work.h"
#include "server/session/fault.h"
#include "server/session/session.h"

/* With more than these waiting, or for longer, the calls are made while work is running. */
#define DEFERRED_MAX 256
#define DEFERRED_MAX_S 60

/*
 * ... with a pause between two calls, unless there are more than this many: unloads in a row
 * raise a neighbour's p99 from 13 to 70 us; 5 ms apart they do not.
 */
#define DEFERRED_PACED 8192
#define PACE_NS 5000000

/* If the driver is short of something, it has it again soon, or never. */
#define REFUSALS_MAX 3

static struct {
	struct lock lock;
	pthread_cond_t wanted;
	struct deferred *list, **last;
	atomic_uint n; /* changed under the lock */
	bool is_started, is_ending, is_reclaiming;
	bool has_holes;          /* memory was freed that the system does not have back yet */
	void (*when_idle)(void); /* to be called when no session has work; NULL: nothing */
	pthread_t thread;
} deferred = {.lock = LOCK_INIT(DEFERRED), .last = &deferred.list};

static _Atomic uint64_t n_added, n_made;

/* While work is running the calls wait for it, and delay all clients meanwhile. Under the lock. */
static bool deferred_has_to_wait(bool has_time)
{
	return has_time && !deferred.is_reclaiming && at_work_count() > 0;
}

/*
 * False: try the call again later. The call is a quiet one, because beside a blocked stream, or
 * some kernels, it would never return.
 */
static bool make_call(struct deferred *one)
{
	bool may;

	if (fault_get() == CUDA_SUCCESS && one->context &&
		cuda.cuCtxSetCurrent(one->context) != CUDA_SUCCESS &&
		++one->n_refusals < REFUSALS_MAX)
		return false;
	may = quiet_call_begin(NULL, NULL, 0);
	if (one->library && fault_get() == CUDA_SUCCESS)
		cuda.cuLibraryUnload(one->library);
	image_unref(one->image);
	one->on_done(one);
	if (may)
		quiet_call_end(NULL);
	return true;
}

/* Under the lock. */
static void deferred_append(struct deferred *one)
{
	one->next = NULL;
	*deferred.last = one;
	deferred.last = &one->next;
	deferred.n++;
}

/* A session that begins work meanwhile may have to wait for this. Under the lock. */
static bool may_tidy_up(void)
{
	return (deferred.has_holes || deferred.when_idle) && !deferred.list && at_work_count() == 0;
}

/*
 * Unloaded code and graphs leave holes in this process's memory: gigabytes, with frameworks.
 * Under the lock, which it releases meanwhile.
 */
static void tidy_up(void)
{
	void (*when_idle)(void) = deferred.when_idle;
	bool has_holes = deferred.has_holes;

	deferred.when_idle = NULL;
	deferred.has_holes = false;
	lock_release(&deferred.lock);
	if (when_idle)
		when_idle();
	if (has_holes)
		malloc_trim(0);
	lock_take(&deferred.lock);
}

/* Under the lock, which it releases meanwhile. */
static void make_calls(void)
{
	while (deferred.list) {
		struct deferred *one = deferred.list;
		bool is_reclaiming = deferred.is_ending || deferred.n > DEFERRED_PACED;
		bool is_made;

		deferred.list = one->next;
		if (!deferred.list)
			deferred.last = &deferred.list;
		deferred.n--;
		deferred.has_holes = true;
		lock_release(&deferred.lock);
		is_made = make_call(one);
		if (at_work_count() > 0 && !is_reclaiming)
			nanosleep(&(struct timespec){.tv_nsec = PACE_NS}, NULL);
		lock_take(&deferred.lock);
		if (is_made)
			atomic_fetch_add(&n_made, 1);
		else
			deferred_append(one);
		if (!deferred.is_ending && deferred_has_to_wait(deferred.n <= DEFERRED_MAX))
			return;
	}
	deferred.is_reclaiming = false;
}

/* Under the lock. Waits until there is something to do. False: the longest time has passed. */
static bool wait_for_work(void)
{
	struct timespec deadline;
	int r = 0;

	clock_gettime(CLOCK_MONOTONIC, &deadline);
	deadline.tv_sec += DEFERRED_MAX_S;
	while (!deferred.is_ending && r == 0 && !may_tidy_up() &&
		(!deferred.list || deferred_has_to_wait(deferred.n <= DEFERRED_MAX)))
		r = deferred.list
			    ? pthread_cond_timedwait(
				      &deferred.wanted, lock_to_wait(&deferred.lock), &deadline)
			    : pthread_cond_wait(&deferred.wanted, lock_to_wait(&deferred.lock));
	return r == 0;
}

static void *deferred_run(void *arg)
{
	(void)arg;
	lock_take(&deferred.lock);
	while (!deferred.is_ending) {
		bool has_time = wait_for_work();

		if (deferred.is_ending ||
			!deferred_has_to_wait(has_time && deferred.n <= DEFERRED_MAX))
			make_calls();
		if (!deferred.is_ending && may_tidy_up())
			tidy_up();
	}
	lock_release(&deferred.lock);
	return NULL;
}

/* No session has work now. */
static void deferred_look(void)
{
	lock_take(&deferred.lock);
	if (deferred.list || deferred.has_holes || deferred.when_idle)
		pthread_cond_signal(&deferred.wanted);
	lock_release(&deferred.lock);
}

int deferred_start(void)
{
	pthread_condattr_t attr;
	int r;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&deferred.wanted, &attr);
	pthread_condattr_destroy(&attr);
	deferred.is_ending = false;
	at_work_on_none(deferred_look);
	r = thread_start(&deferred.thread, "mps-deferred", deferred_run, NULL);
	deferred.is_started = r == 0;
	return r;
}

void deferred_stop(void)
{
	if (!deferred.is_started)
		return;
	lock_take(&deferred.lock);
	deferred.is_ending = true;
	pthread_cond_signal(&deferred.wanted);
	lock_release(&deferred.lock);
	pthread_join(deferred.thread, NULL);
	pthread_cond_destroy(&deferred.wanted);
	deferred.is_started = false;
}

void deferred_add(struct deferred *one)
{
	lock_take(&deferred.lock);
	deferred_append(one);
	atomic_fetch_add(&n_added, 1);
	pthread_cond_signal(&deferred.wanted);
	lock_release(&deferred.lock);
}

uint64_t deferred_n_added(void)
{
	return atomic_load(&n_added);
}

bool deferred_has_made(uint64_t n)
{
	return atomic_load(&n_made) >= n;
}

void deferred_note_freed(void)
{
	lock_take(&deferred.lock);
	deferred.has_holes = true;
	pthread_cond_signal(&deferred.wanted);
	lock_release(&deferred.lock);
}

void deferred_when_idle(void (*function)(void))
{
	lock_take(&deferred.lock);
	deferred.when_idle = function;
	pthread_cond_signal(&deferred.wanted);
	lock_release(&deferred.lock);
}

void deferred_reclaim(void)
{
	lock_take(&deferred.lock);
	deferred.is_reclaiming = deferred.list != NULL;
	pthread_cond_signal(&deferred.wanted);
	lock_release(&deferred.lock);
}
