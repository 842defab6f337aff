/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GREEN_H
#define GREEN_H

/*
 * Green contexts: some of a GPU's SMs, for the streams that are made in them. A
 * CUgreenCtx is the address of a struct green; the CUcontext that it can be
 * turned into is a context with a home. Any thread.
 */

#include "client/device/context.h"
#include "client/util/slab.h"
#include "stream.h"

struct green {
	struct slab_head slab;
	uint64_t serial;         /* never given twice */
	struct context *context; /* what it is as a CUcontext */
	struct stream *null;     /* its default stream */
};

extern struct slab greens;

static inline uint32_t green_id(const struct green *green)
{
	return slab_id(&greens, green);
}

/* NULL: no such green context. */
struct green *green_find(CUgreenCtx handle);

/* The one of that number, if it is still the one of that serial. */
struct green *green_find_serial(uint32_t id, uint64_t serial);

/* A stream of a program's where the context is current. */
CUresult green_stream(struct context *green, int priority, struct stream **ret_stream);

/* Ends those of a primary context that goes. */
void greens_end_context(struct context *context);

/* green_resource.c: what a green context is made of. NULL: no such description. */
struct resource_desc;
struct resource_desc *resource_desc_find(CUdevResourceDesc handle);

/* Has the server make it on that GPU; NULL: of all SMs. */
CUresult resource_desc_create(const struct resource_desc *desc, uint32_t green, CUdevice device);

#endif
