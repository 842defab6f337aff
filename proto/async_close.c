/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The threads that close descriptors. Any thread adds to their queue.
 *
 * Invariant: a close that never returns costs only the stack of its thread: the
 * next descriptor starts another thread.
 */

#include "async_close.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "base.h"
#include "lock.h"

/* Further descriptors stay open: the process has then lost as many threads as it may. */
#define QUEUE_MAX 65536u
#define THREADS_MAX 64u
#define STACK_SIZE (64u << 10)
#define IDLE_NS 100000000L

/*
 * A pending signal ends a socket's lingering. The default action of this signal is
 * to be ignored, so the process does not use it for anything else. All threads
 * but these block it.
 */
#define KICK SIGURG
#define KICK_NS 10000000L

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

static struct {
	struct lock lock;
	pthread_cond_t more; /* its clock is CLOCK_MONOTONIC */
	unsigned n_threads, n_idle;
	unsigned n_closing;
	uint32_t head, tail; /* free-running */
	int fds[QUEUE_MAX];
} queue = {.lock = LOCK_INIT(ASYNC_CLOSE)};

static pthread_once_t queue_once = PTHREAD_ONCE_INIT;

static void queue_init(void)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&queue.more, &attr);
	pthread_condattr_destroy(&attr);
}

static void on_kick(_unused_ int number)
{
}

static void close_kicked(int fd, const timer_t *timer)
{
	const struct itimerspec on = {{0, KICK_NS}, {0, KICK_NS}}, off = {0};

	if (timer)
		timer_settime(*timer, 0, &on, NULL);
	close(fd);
	if (timer)
		timer_settime(*timer, 0, &off, NULL);
}

/*
 * The next descriptor, or -1 after a time without one. The last idle thread waits
 * for ever: the next close must not depend on a new thread. Under the lock.
 */
static int take(void)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += IDLE_NS;
	until.tv_sec += until.tv_nsec / 1000000000L;
	until.tv_nsec %= 1000000000L;
	queue.n_idle++;
	while (queue.head == queue.tail)
		if (queue.n_idle == 1)
			pthread_cond_wait(&queue.more, lock_to_wait(&queue.lock));
		else if (pthread_cond_timedwait(&queue.more, lock_to_wait(&queue.lock), &until) ==
			 ETIMEDOUT)
			break;
	queue.n_idle--;
	return queue.head == queue.tail ? -1 : queue.fds[queue.head++ % QUEUE_MAX];
}

static void *run(void *arg)
{
	struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = KICK};
	timer_t timer;
	bool has_timer;
	int fd;

	event.sigev_notify_thread_id = gettid();
	has_timer = timer_create(CLOCK_MONOTONIC, &event, &timer) == 0;
	lock_take(&queue.lock);
	while ((fd = take()) >= 0) {
		queue.n_closing++;
		lock_release(&queue.lock);
		close_kicked(fd, has_timer ? &timer : NULL);
		lock_take(&queue.lock);
		queue.n_closing--;
	}
	queue.n_threads--;
	lock_release(&queue.lock);
	if (has_timer)
		timer_delete(timer);
	return arg;
}

/* Under the lock. */
static int start_thread(void)
{
	const struct sigaction action = {.sa_handler = on_kick};
	pthread_attr_t attributes;
	sigset_t others, before;
	pthread_t thread;
	int r;

	sigaction(KICK, &action, NULL);
	sigfillset(&others);
	sigdelset(&others, KICK);
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, STACK_SIZE);
	pthread_sigmask(SIG_SETMASK, &others, &before);
	r = -pthread_create(&thread, &attributes, run, NULL);
	if (r == 0) {
		pthread_setname_np(thread, "mps-close");
		queue.n_threads++;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	return r;
}

int async_close_start(void)
{
	int r = 0;

	pthread_once(&queue_once, queue_init);
	lock_hold(&queue.lock);
	if (queue.n_threads == 0)
		r = start_thread();
	return r;
}

void async_close(int fd)
{
	int saved = errno;

	if (fd < 0)
		return;
	pthread_once(&queue_once, queue_init);
	lock_take(&queue.lock);
	if (queue.tail - queue.head < QUEUE_MAX)
		queue.fds[queue.tail++ % QUEUE_MAX] = fd;
	/* If no thread can be started, an idle thread takes it, or the next attempt does. */
	if (queue.n_idle < queue.tail - queue.head && queue.n_threads < THREADS_MAX)
		(void)start_thread();
	pthread_cond_signal(&queue.more);
	lock_release(&queue.lock);
	errno = saved;
}

void async_closep(int *fd)
{
	async_close(*fd);
}

unsigned async_close_pending(void)
{
	lock_hold(&queue.lock);
	return queue.tail - queue.head + queue.n_closing;
}
