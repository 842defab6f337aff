/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GREEN_H
#define GREEN_H

/*
 * A green context: some of a device's SMs. Its handle is also the handle of its context, which
 * cuCtxFromGreenCtx() returns. Where that is current, everything belongs to the primary context
 * except what decides where kernels run: streams, nodes of graphs, occupancy.
 *
 * All under the driver's lock. It ends with its primary context.
 */

#include "tests/softgpu/driver/driver.h"
#include "tests/softgpu/driver/sms.h"

struct green {
	struct object object;
	struct green *next;         /* context::greens */
	struct context *context;    /* not owned */
	struct stream *null_stream; /* created at its first use; in the context's list */
	struct sm_set sms;
	uint64_t id;
};

/* The green context of a CUcontext; NULL: an ordinary context. */
struct green *green_of_context(const void *handle);
CUcontext green_context(struct green *green);

/* Its SMs; for NULL, all SMs. */
struct sm_set green_sms(const struct green *green);

/* Ends the green contexts of a context that is being destroyed. */
void greens_free_context(struct context *context);

#endif
