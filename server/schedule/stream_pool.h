/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STREAM_POOL_H
#define STREAM_POOL_H

/*
 * Driver streams that wait for their next user: some made in advance, and those that
 * sessions give back, up to the same number. To make a stream takes longer, and a channel
 * (channel_budget.h).
 *
 * Any worker with the GPU's context.
 */

#include "server/driver/driver.h"

#define STREAM_POOL_MAX 40u
/* Reserved for stream_pool_take_reserved(). */
#define STREAM_POOL_RESERVED 8u

struct device;
struct session;

struct pooled_stream {
	CUstream real;
	int32_t priority;
};

/* Under the lock of stream_pool.c. */
struct stream_pool {
	unsigned n;
	struct pooled_stream list[STREAM_POOL_MAX];
};

/*
 * A stream without work that does not wait for the legacy stream. If the driver has no
 * channel left, sleeps until no stream is blocked, and makes it then.
 */
CUresult stream_pool_take(
	struct session *session, struct device *device, int32_t priority, CUstream *ret_real);

/* The same at once, with the highest priority, to release pending waits. */
CUresult stream_pool_take_reserved(struct device *device, CUstream *ret_real);

/* The stream is at rest, and has no attribute except this priority. */
void stream_pool_give(struct device *device, CUstream real, int32_t priority);

/*
 * The stream may have work, and ends after it. Another one replaces it if the driver has a
 * channel.
 */
void stream_pool_discard(struct device *device, CUstream real);

#endif
