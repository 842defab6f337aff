/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FENCE_H
#define FENCE_H

/*
 * A fence: all that a session has on its streams at one time. When it is
 * passed, that is done, whatever came after. The session's worker only.
 */

#include "server/driver/driver.h"

struct session;

struct fence {
	CUevent *events; /* of those that are not known to be done */
	uint32_t n;
};

/* CUDA_ERROR_OUT_OF_MEMORY; a fence that is passed at once needs none. */
CUresult fence_init(struct fence *fence, struct session *session);

/* Frees what it has when it is. */
bool fence_is_passed(struct fence *fence);

/* Passed or not. `device_lost': the driver has no use any more. */
void fence_fini(struct fence *fence, bool device_lost);

#endif
