/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GREEN_H
#define GREEN_H

/*
 * Green contexts: some of a GPU's SMs, for the streams that are created in them. A
 * CUgreenCtx is the address of a context whose `home' is the primary context, and
 * cuCtxFromGreenCtx() gives the same address: later runtimes use one as the other. Any
 * thread.
 */

#include "stream.h"
#include "client/util/slab.h"
#include "client/context/context.h"

struct green {
	struct slab_head slab;
	uint64_t serial;                 /* unique */
	struct context *_Atomic context; /* the context of cuCtxFromGreenCtx() */
	struct stream *null;             /* its default stream */
};

extern struct slab greens;

static inline uint32_t green_id(const struct green *green)
{
	return slab_id(&greens, green);
}

/* NULL: no such green context. */
struct green *green_find(CUgreenCtx handle);

/* The green context of that number, if it still has that serial. */
struct green *green_find_serial(uint32_t id, uint64_t serial);

/* Creates a stream for the program while the green context is current. */
CUresult green_stream(struct context *green, int priority, struct stream **ret_stream);

/* Ends the green contexts of a primary context that ends. */
void greens_end_context(struct context *context);

/* green_resource.c: the SMs of a green context, or (NULL) of the GPU. */
CUresult green_resource_of(CUdevice ordinal, const struct green *green, CUdevResource *resource,
	CUdevResourceType type);

/* The SMs of a green context that is not made yet. NULL: no such description. */
struct resource_desc;
struct resource_desc *resource_desc_find(CUdevResourceDesc handle);

/* Makes the server create a green context on that GPU. NULL: with all SMs. */
CUresult resource_desc_create(const struct resource_desc *desc, uint32_t green, CUdevice device);

#endif
