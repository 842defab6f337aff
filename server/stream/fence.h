/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FENCE_H
#define FENCE_H

/*
 * A fence: all work that a session has on its streams at one time. It is passed when that
 * work is done, whatever was queued later. The session's worker only.
 */

#include "server/driver/driver.h"

struct session;

struct fence {
	CUevent *events; /* those not known to be done */
	uint32_t n;
};

/* CUDA_ERROR_OUT_OF_MEMORY: a fence that is passed at once needs no memory. */
CUresult fence_init(struct fence *fence, struct session *session);

/* Frees its members if it is passed. */
bool fence_is_passed(struct fence *fence);

/* Whether or not it is passed. `device_lost': frees only the server's own memory. */
void fence_fini(struct fence *fence, bool device_lost);

#endif
