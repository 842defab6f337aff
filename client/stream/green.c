/* SPDX-License-Identifier: Apache-2.0 */

/* The table of green contexts. Any thread of the application. */

#include "green.h"

#include "lock.h"
#include "wire.h"

struct slab greens = {
	.lock = LOCK_INIT(SLAB),
	.object_size = sizeof(struct green),
	.n_max = WIRE_GREENS_MAX,
};

struct green *green_find(CUgreenCtx handle)
{
	struct context *context = context_find((CUcontext)handle);

	return context && context->home && context_is_active(context) ? context->green : NULL;
}

struct green *green_find_serial(uint32_t id, uint64_t serial)
{
	struct green *green =
		id < greens.n_ever ? slab_find(&greens, greens.base + id * sizeof(*green)) : NULL;

	return green && green->serial == serial ? green : NULL;
}
