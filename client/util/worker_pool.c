/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The worker pool: one job at a time. Any thread of the application.
 *
 * Invariant: `job' stays set until each helper that joined it has returned. So the
 * argument of the job may be on the caller's stack.
 */

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include "base.h"
#include "processors.h"
#include "thread.h"
#include "worker_pool.h"

/* How long an idle helper waits for another job. */
#define LINGER_S 1

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t has_job = PTHREAD_COND_INITIALIZER;
static pthread_cond_t is_done = PTHREAD_COND_INITIALIZER;

static struct {
	void (*work)(void *arg); /* NULL: no job */
	void *arg;
	unsigned n_wanted; /* helpers that may still join */
	unsigned n_at_work;
} job;

static unsigned n_threads;

/* Under the lock. False: no job came within LINGER_S. */
static bool wait_for_job(void)
{
	struct timespec until;
	int r = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += LINGER_S;
	while (job.n_wanted == 0 && r != ETIMEDOUT)
		r = pthread_cond_timedwait(&has_job, &lock, &until);
	return job.n_wanted > 0;
}

static void *helper_thread(void *unused)
{
	(void)unused;
	thread_set_name("mps-copy");
	pthread_mutex_lock(&lock);
	while (wait_for_job()) {
		job.n_wanted--;
		job.n_at_work++;
		pthread_mutex_unlock(&lock);
		job.work(job.arg);
		pthread_mutex_lock(&lock);
		if (--job.n_at_work == 0)
			pthread_cond_signal(&is_done);
	}
	n_threads--;
	pthread_mutex_unlock(&lock);
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

	pthread_mutex_lock(&lock);
	is_ours = !job.work;
	if (is_ours) {
		make_threads(n_helpers);
		job.work = work;
		job.arg = arg;
		job.n_wanted = n_helpers;
		pthread_cond_broadcast(&has_job);
	}
	pthread_mutex_unlock(&lock);
	return is_ours;
}

/* Helpers that have not joined yet are no longer needed. */
static void job_end(void)
{
	pthread_mutex_lock(&lock);
	job.n_wanted = 0;
	while (job.n_at_work > 0)
		pthread_cond_wait(&is_done, &lock);
	job.work = NULL;
	pthread_mutex_unlock(&lock);
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
