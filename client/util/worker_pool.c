/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The worker pool: one job at a time. Any thread of the application.
 *
 * Invariant: `job' stays set until each helper that joined it has returned. So the
 * argument of the job may be on the caller's stack.
 */

#include "worker_pool.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>

#include "base.h"
#include "clock.h"
#include "lock.h"
#include "processors.h"
#include "thread.h"

/* How long an idle helper waits for another job: less than a second. */
#define LINGER_NS 999999999u

static struct lock lock = LOCK_INIT(HELPERS);
static pthread_cond_t is_done = PTHREAD_COND_INITIALIZER;

static struct {
	void (*work)(void *arg); /* NULL: no job */
	void *arg;
	unsigned n_wanted; /* helpers that may still join */
	unsigned n_at_work;
} job;

static unsigned n_threads;

/*
 * A futex: idle helpers wait for another value. A condition variable of a C library that this
 * library must work with waits by a clock that can be set.
 */
static _Atomic uint32_t n_jobs;

/* Under the lock, which it releases while it waits. False: no job came within LINGER_NS. */
static bool wait_for_job(void)
{
	uint64_t now, until = now_ns() + LINGER_NS;

	while (job.n_wanted == 0 && (now = now_ns()) < until) {
		const struct timespec left = {.tv_nsec = (long)(until - now)};
		uint32_t seen = n_jobs;

		lock_release(&lock);
		syscall(SYS_futex, &n_jobs, FUTEX_WAIT_PRIVATE, seen, &left, NULL, 0);
		lock_take(&lock);
	}
	return job.n_wanted > 0;
}

static void *helper_thread(_unused_ void *unused)
{
	thread_set_name("mps-copy");
	lock_take(&lock);
	while (wait_for_job()) {
		job.n_wanted--;
		job.n_at_work++;
		lock_release(&lock);
		job.work(job.arg);
		lock_take(&lock);
		if (--job.n_at_work == 0)
			pthread_cond_signal(&is_done);
	}
	n_threads--;
	lock_release(&lock);
	return NULL;
}

/* Under the lock. */
static void make_threads(unsigned n)
{
	while (n_threads < n && thread_start(helper_thread, NULL) == 0)
		n_threads++;
}

unsigned worker_pool_processors(void)
{
	return processors_count();
}

/* False: the pool works for another thread. */
static bool job_begin(void (*work)(void *arg), void *arg, unsigned n_helpers)
{
	bool is_ours;

	lock_hold(&lock);
	is_ours = !job.work;
	if (is_ours) {
		make_threads(n_helpers);
		job.work = work;
		job.arg = arg;
		job.n_wanted = n_helpers;
		n_jobs++;
		syscall(SYS_futex, &n_jobs, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
	}
	return is_ours;
}

/* Helpers that have not joined yet are no longer needed. */
static void job_end(void)
{
	lock_hold(&lock);
	job.n_wanted = 0;
	while (job.n_at_work > 0)
		pthread_cond_wait(&is_done, lock_to_wait(&lock));
	job.work = NULL;
}

void worker_pool_run(void (*work)(void *arg), void *arg, unsigned n_helpers)
{
	bool is_ours;

	/* More helpers than processors would only take turns. */
	n_helpers = MIN(MIN(n_helpers, WORKER_POOL_MAX), worker_pool_processors() - 1);
	is_ours = n_helpers > 0 && job_begin(work, arg, n_helpers);
	work(arg);
	if (is_ours)
		job_end();
}
