/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SPARE_H
#define SPARE_H

/*
 * Streams of the driver's that wait for their next user.
 *
 * To make one may take the driver something that waits for all that is on the
 * GPU, with its lock held: seldom, and in a young server (seen on an H200,
 * driver 580). So they are made ahead, while no stream stands still, and of those
 * that sessions leave as many are kept.
 *
 * Any worker with the GPU's context.
 */

#include <pthread.h>

#include "driver.h"

/* More than the GPU has queues. */
#define SPARES_AHEAD 40u
/* Of these for spare_take_key() alone. */
#define SPARES_KEYS 8u

struct device;
struct session;

struct spare {
	CUstream real;
	int32_t priority;
};

struct spares {
	pthread_mutex_t lock;
	unsigned n;
	unsigned n_owed; /* discarded, and not replaced yet */
	struct spare list[SPARES_AHEAD];
};

/* Makes those of a context that nobody has used yet. */
void spares_fill(struct spares *spares);

/*
 * One without work, which does not wait for the legacy stream. Where none is left it is made
 * while no stream stands still, for which the session naps half a second at most.
 */
CUresult spare_take(
	struct session *session, struct device *device, int32_t priority, CUstream *ret_real);

/* The same at once, of the highest priority, for what lets streams go on that stand still. */
CUresult spare_take_key(struct device *device, CUstream *ret_real);

/* It has come to rest, and has no attribute but this priority. */
void spare_give(struct session *session, struct device *device, CUstream real, int32_t priority);

/* It may have work: it ends, and another takes its place, now or when none stands still. */
void spare_discard(struct session *session, struct device *device, CUstream real);

#endif
