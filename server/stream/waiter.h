/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAITER_H
#define WAITER_H

/*
 * Threads that wait in the driver until the GPU has reached a point, and then wake a
 * sleeping client. The GPU cannot wake a thread, and workers never wait. A session without
 * sleepers has no such thread.
 */

#include <pthread.h>

#include "lock.h"
#include "shm.h"
#include "server/driver/driver.h"

#define WAITERS_MAX 16    /* streams with a sleeper of one client at a time; more queue up */
#define WATCH_CALLS_MAX 8 /* of host functions, which come in bursts: beyond, clients poll */
#define WATCHES_MAX 256   /* beyond, sleepers poll ten times a second */

struct device;
struct session;

struct watch {
	struct watch *next;
	CUevent event;               /* kept between uses */
	const struct device *device; /* not owned: the GPU of the event */
	uint32_t __shm *word;        /* not owned: whose sleepers are woken */
	bool is_call;                /* increments it first */
};

struct waiters {
	struct lock lock;
	pthread_cond_t wanted;
	struct watch *queue, **queue_end; /* under the lock, like all that follows */
	struct watch *idle;
	unsigned n_watches; /* made so far */
	unsigned n_calls;   /* of host functions, queued or being waited for */
	unsigned n_queued, n_threads, n_free_threads;
	bool is_ending;
	pthread_t threads[WAITERS_MAX];
};

/*
 * Wakes sleepers on the stream's timeline when all present work on `real' is done. The
 * stream's GPU is current. Never blocks. Worker.
 */
CUresult waiters_watch(
	struct session *session, uint32_t stream, const struct device *device, CUstream real);

/* The same for page->n_asked, which is incremented first: a host function can run. */
CUresult waiters_watch_call(struct session *session, const struct device *device, CUstream real);

#endif
