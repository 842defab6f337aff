/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STREAM_POOL_H
#define STREAM_POOL_H

/*
 * Streams of the driver's that wait for their next user: some made ahead, and as
 * many kept of those that sessions leave. To make one takes the driver longer, and
 * room (channel_budget.h).
 *
 * Any worker with the GPU's context.
 */

#include <pthread.h>

#include "driver.h"

#define STREAM_POOL_MAX 40u
/* Of these for stream_pool_take_key() alone. */
#define STREAM_POOL_KEYS 8u

struct device;
struct session;

struct pooled_stream {
	CUstream real;
	int32_t priority;
};

struct stream_pool {
	pthread_mutex_t lock;
	unsigned n;
	struct pooled_stream list[STREAM_POOL_MAX];
};

/* Makes those of a context that nobody has used yet. */
void stream_pool_fill(struct device *device);

/*
 * One without work, which does not wait for the legacy stream. Where the driver has no room for
 * another it is made while no stream is blocked, for which the session sleeps.
 */
CUresult stream_pool_take(
	struct session *session, struct device *device, int32_t priority, CUstream *ret_real);

/* The same at once, of the highest priority, for what lets streams go on that are blocked. */
CUresult stream_pool_take_key(struct device *device, CUstream *ret_real);

/* It has come to rest, and has no attribute but this priority. */
void stream_pool_give(struct device *device, CUstream real, int32_t priority);

/* It may have work: it ends after that, and another takes its place if there is room for it. */
void stream_pool_discard(struct device *device, CUstream real);

#endif
