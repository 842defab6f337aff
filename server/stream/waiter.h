/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAITER_H
#define WAITER_H

/*
 * Threads that sit in the driver until the GPU has come so far and then wake a
 * sleeping client: the GPU itself wakes nobody, and workers never wait. A
 * session without sleepers has no such thread.
 */

#include <pthread.h>

#include "server/driver/driver.h"

#define WAITERS_MAX 16    /* streams of a client with a sleeper at a time; more queue up */
#define WATCH_CALLS_MAX 8 /* of host functions, which come in crowds: beyond, clients look */
#define WATCHES_MAX 256   /* beyond, sleepers look by themselves, ten times a second */

struct device;
struct session;
struct session_room;

struct watch {
	struct watch *next;
	CUevent event;               /* kept from use to use */
	const struct device *device; /* not owned: of the event */
	uint32_t __shm *word;        /* not owned: whose sleepers are woken */
	bool is_call;                /* and whose count rises before */
};

struct waiters {
	pthread_mutex_t lock;
	pthread_cond_t wanted;
	struct watch *queue, **queue_end; /* under the lock, as all that follows */
	struct watch *idle;
	unsigned n_watches; /* made so far */
	unsigned n_calls;   /* of host functions, queued or being waited for */
	unsigned n_queued, n_threads, n_free_threads;
	bool is_ending;
	pthread_t threads[WAITERS_MAX];
};

/*
 * Wakes sleepers on the stream's timeline once all that is on `real' now is
 * done. The stream's GPU is current. Never blocks. Worker.
 */
CUresult waiters_watch(
	struct session *session, uint32_t stream, const struct device *device, CUstream real);

/* The same for page->n_asked, which rises before: a host function's time has come. */
CUresult waiters_watch_call(struct session *session, const struct device *device, CUstream real);

/* What is done for each session: see session_room.h. */
extern const struct session_room waiters_room;

#endif
