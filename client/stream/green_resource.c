/* SPDX-License-Identifier: Apache-2.0 */

/*
 * SM resources as programs pass them: a whole GPU or green context, its groups, and
 * descriptions for green contexts. Any thread of the application.
 *
 * Invariant: the hidden bytes of a resource say where it comes from, not which SMs
 * it has. The server repeats the division when it creates a green context from it.
 */

#include <stdatomic.h>
#include <string.h>

#include "calls_stream.h"
#include "green.h"
#include "lock.h"
#include "wire.h"
#include "send_stream.h"

/* Marks hidden bytes as written by this library. */
#define ORIGIN_MAGIC 0x6d73727067726e31ull

#define SPLIT_FLAGS                                                                                \
	(CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING |                                         \
		CU_DEV_SM_RESOURCE_SPLIT_MAX_POTENTIAL_CLUSTER_SIZE)

struct origin {
	uint64_t magic;
	uint64_t of_serial; /* of a green context; 0: of the GPU */
	uint64_t division;  /* its number; 0: not divided */
	CUdevice device;
	uint32_t of, flags, count, n_groups;
	uint32_t part;
};

_Static_assert(sizeof(struct origin) <= sizeof(((CUdevResource *)0)->_internal_padding),
	"there is room for where it is from");

struct resource_desc {
	struct resource_desc *next;
	struct origin origin;
	bool is_mixed; /* nothing can be created from it; the driver detects this no earlier */
	uint32_t n_parts;
	uint32_t parts[];
};

static struct lock descs_lock = LOCK_INIT(GREEN_DESCS);
static struct resource_desc *descs; /* never freed, as in the driver */
static _Atomic uint64_t last_division;

static void resource_write(
	CUdevResource *resource, const struct origin *origin, const struct sm_group *group)
{
	memset(resource, 0, sizeof(*resource));
	if (group->count == 0)
		return;
	resource->type = CU_DEV_RESOURCE_TYPE_SM;
	memcpy(resource->_internal_padding, origin, sizeof(*origin));
	resource->sm.smCount = group->count;
	resource->sm.minSmPartitionSize = group->part_min;
	resource->sm.smCoscheduledAlignment = group->alignment;
}

/* CUDA_ERROR_INVALID_RESOURCE_TYPE: this library did not create it. */
static CUresult resource_read(const CUdevResource *resource, struct origin *ret_origin)
{
	memcpy(ret_origin, resource->_internal_padding, sizeof(*ret_origin));
	return resource->type == CU_DEV_RESOURCE_TYPE_SM && ret_origin->magic == ORIGIN_MAGIC &&
			       device_get(ret_origin->device)
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_INVALID_RESOURCE_TYPE;
}

/* A green context that has ended cannot be divided. */
static bool is_there(const struct origin *origin)
{
	return origin->of_serial == 0 || green_find_serial(origin->of, origin->of_serial);
}

CUresult green_resource_of(CUdevice ordinal, const struct green *green, CUdevResource *resource,
	CUdevResourceType type)
{
	struct device *device = device_get(ordinal);
	struct origin origin = {
		.magic = ORIGIN_MAGIC,
		.of_serial = green ? green->serial : 0,
		.device = ordinal,
		.of = green ? green_id(green) : WIRE_GREENS_MAX,
	};
	uint32_t sms[3];
	CUresult result;

	if (!resource)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	if (type != CU_DEV_RESOURCE_TYPE_SM)
		return CUDA_ERROR_INVALID_RESOURCE_TYPE;
	result = device_open(device);
	if (result == CUDA_SUCCESS)
		result = send_sm_resource(device->index, origin.of, sms);
	if (result == CUDA_SUCCESS)
		resource_write(resource, &origin, &(struct sm_group){sms[0], sms[1], sms[2]});
	return result;
}

CUresult local_cuCtxGetDevResource(CUcontext hCtx, CUdevResource *resource, CUdevResourceType type)
{
	const struct context *context = context_find(hCtx);

	if (!context)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!context_is_active(context))
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	return green_resource_of(
		context->ordinal, context->home ? context->green : NULL, resource, type);
}

/* Divides into as many groups as fit, and the rest. */
static CUresult divide_groups(const struct origin *whole, uint32_t flags, uint32_t count,
	CUdevResource *result_groups, unsigned *n_groups, CUdevResource *remaining)
{
	struct sm_group groups[WIRE_SM_GROUPS_MAX];
	struct origin origin = *whole;
	uint32_t n_made, rest[3], n;
	CUresult result;

	origin.n_groups = result_groups ? MIN(*n_groups, WIRE_SM_GROUPS_MAX) : 0;
	origin.flags = flags;
	origin.count = count;
	origin.division = atomic_fetch_add_explicit(&last_division, 1, memory_order_relaxed) + 1;
	result = send_sm_split(device_get(whole->device)->index, whole->of, flags, count,
		origin.n_groups, &n_made, rest, groups, WIRE_SM_GROUPS_MAX, &n);
	if (result != CUDA_SUCCESS)
		return result;
	*n_groups = n_made;
	if (!result_groups)
		return CUDA_SUCCESS;
	for (uint32_t i = 0; i < n; i++) {
		origin.part = i;
		resource_write(&result_groups[i], &origin, &groups[i]);
	}
	origin.part = WIRE_SM_GROUPS_MAX;
	if (remaining)
		resource_write(remaining, &origin, &(struct sm_group){rest[0], rest[1], rest[2]});
	return CUDA_SUCCESS;
}

CUresult local_cuDevSmResourceSplitByCount(CUdevResource *result, unsigned int *nbGroups,
	const CUdevResource *input, CUdevResource *remaining, unsigned int useFlags,
	unsigned int minCount)
{
	struct origin whole;
	CUresult read;

	/* The driver ignores unknown flags. */
	useFlags &= SPLIT_FLAGS;
	if (!nbGroups || !input || (result && *nbGroups == 0))
		return CUDA_ERROR_INVALID_VALUE;
	read = resource_read(input, &whole);
	if (read != CUDA_SUCCESS)
		return read;
	/* A group can only be divided again as a green context's resource. */
	if (whole.division != 0 || !is_there(&whole))
		return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
	return divide_groups(&whole, useFlags, minCount, result, nbGroups, remaining);
}

/* Whether all are groups of one division, each once, or there is one undivided resource. */
static bool belong_together(const struct origin *origins, unsigned n)
{
	for (unsigned i = 1; i < n; i++) {
		if (origins[i].division == 0 || origins[i].division != origins[0].division)
			return false;
		for (unsigned k = 0; k < i; k++)
			if (origins[k].part == origins[i].part)
				return false;
	}
	return true;
}

static CUresult desc_new(const struct origin *origins, unsigned n, CUdevResourceDesc *ret_desc)
{
	struct resource_desc *desc = malloc(sizeof(*desc) + n * sizeof(uint32_t));

	if (!desc)
		return CUDA_ERROR_OUT_OF_MEMORY;
	desc->origin = origins[0];
	desc->is_mixed = !belong_together(origins, n);
	desc->n_parts = origins[0].division ? n : 0;
	for (unsigned i = 0; i < n; i++)
		desc->parts[i] = origins[i].part;
	lock_take(&descs_lock);
	LIST_PUSH(descs, desc);
	lock_release(&descs_lock);
	*ret_desc = (CUdevResourceDesc)desc;
	return CUDA_SUCCESS;
}

CUresult local_cuDevResourceGenerateDesc(
	CUdevResourceDesc *phDesc, CUdevResource *resources, unsigned int nbResources)
{
	struct origin origins[WIRE_SM_GROUPS_MAX + 1];
	CUresult result = nbResources > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;

	if (nbResources > ARRAY_SIZE(origins))
		return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
	for (unsigned i = 0; i < nbResources && result == CUDA_SUCCESS; i++)
		result = resource_read(&resources[i], &origins[i]);
	return result == CUDA_SUCCESS ? desc_new(origins, nbResources, phDesc) : result;
}

struct resource_desc *resource_desc_find(CUdevResourceDesc handle)
{
	struct resource_desc *desc;

	lock_take(&descs_lock);
	desc = descs;
	lock_release(&descs_lock);
	while (desc && (CUdevResourceDesc)desc != handle)
		desc = desc->next;
	return desc;
}

CUresult resource_desc_create(const struct resource_desc *desc, uint32_t green, CUdevice device)
{
	const struct origin *origin;

	if (!desc)
		return send_green_create(
			green, device_get(device)->index, WIRE_GREENS_MAX, 0, 0, 0, NULL, 0);
	origin = &desc->origin;
	if (origin->device != device)
		return CUDA_ERROR_INVALID_DEVICE;
	if (desc->is_mixed || !is_there(origin))
		return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
	return send_green_create(green, device_get(device)->index, origin->of, origin->flags,
		origin->count, origin->n_groups, desc->parts, desc->n_parts);
}
