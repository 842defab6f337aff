/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GREEN_H
#define GREEN_H

/*
 * A green context: some of a device's SMs, under a handle and, for
 * cuCtxFromGreenCtx(), under the handle of a context as well. Where it is
 * current, everything belongs to the primary context but what says where
 * kernels run: streams, nodes of graphs, occupancy.
 *
 * All under the driver's lock. It ends with its primary context.
 */

#include "tests/softgpu/driver/driver.h"
#include "tests/softgpu/driver/sms.h"

struct green {
	struct object object;
	struct object as_context;   /* its address is the CUcontext */
	struct green *next;         /* context::greens */
	struct context *context;    /* not owned */
	struct stream *null_stream; /* made at first use; in the context's list */
	struct sm_set sms;
	uint64_t id;
};

/* The green context that a CUcontext stands for; NULL: that is none. */
struct green *green_of_context(const void *handle);
CUcontext green_context(struct green *green);

/* Its SMs; all for NULL. */
struct sm_set green_sms(const struct green *green);

/* The context is going, and its green contexts with it. */
void greens_free_context(struct context *context);

#endif
