/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Allocations that a program has mapped itself leave their GPU and come back. A worker.
 *
 * Invariant: an allocation that is away is mapped nowhere, has no handle, and has all its bytes in
 * the store. Its mappings stay in their regions. Quotas of groups do not count it.
 */

#include "mapping.h"
#include "virtual.h"
#include "server/session/session.h"
#include "server/driver/va_space.h"
#include "server/device/device_quota.h"
#include "server/share/eviction.h"
#include "server/share/mover.h"
#include "server/share/session_devices.h"

/* NOLINTBEGIN(bugprone-macro-parentheses): a name that is declared takes none. */

/* Each mapping of the session. */
#define each_mapping(session, mapping)                                                             \
	for (struct region *_region = (session)->regions; _region; _region = _region->next)        \
		for (struct mapping *mapping = _region->mappings;                                  \
			mapping < _region->mappings + _region->n; mapping++)

/* NOLINTEND(bugprone-macro-parentheses) */

/* The mapping whose bytes are copied; one that the mover's GPU may write. */
static bool is_copied(const struct mapping *mapping, const struct session_device *sdev)
{
	return mapping->allocation->device == sdev->device &&
	       mapping->writers & 1ull << sdev->device->ordinal;
}

static void unmap_all(struct session *session, const struct allocation *allocation)
{
	unsigned n_left = allocation->n_mappings;

	each_mapping(session, mapping)
	{
		if (mapping->allocation != allocation)
			continue;
		va_space_unmap(mapping->address, mapping->size);
		if (--n_left == 0)
			return;
	}
}

static struct session_device *home(struct session *session, const struct allocation *allocation)
{
	return session_device_get(session, allocation->device->ordinal);
}

/* The bytes are in the store. */
static void allocation_left(void *owner, void *item, CUresult result)
{
	struct session *session = owner;
	struct allocation *allocation = item;

	if (result != CUDA_SUCCESS) {
		host_store_give(&allocation->stored);
		return;
	}
	unmap_all(session, allocation);
	cuda.cuMemRelease(allocation->handle);
	allocation->is_away = true;
	home(session, allocation)->allocations_away += allocation->size;
	device_quota_leave(allocation->memory, allocation->size);
}

/* An allocation without a mapping that the GPU may write stays: that is rare. */
uint64_t virtual_evict(struct session *session, struct mover *mover, uint64_t bytes,
	uint64_t largest, unsigned *stays)
{
	uint64_t leaving = 0;

	each_mapping(session, mapping)
	{
		struct allocation *allocation = mapping->allocation;
		enum eviction_stay stay = STAY_NOTHING;

		if (leaving >= bytes)
			return leaving;
		/* One in the store is away or, for its first mapping, on its way. */
		if (allocation->stored.n > 0 || allocation->size > largest ||
			!is_copied(mapping, mover->sdev))
			continue;
		if (!allocation->memory || allocation->is_exported)
			stay = STAY_EXPORTED;
		else if (!host_store_take(session->account, allocation->size, &allocation->stored))
			stay = STAY_STORE;
		*stays |= 1u << stay;
		if (stay != STAY_NOTHING)
			continue;
		leaving += allocation->size;
		mover_out(mover,
			&(struct moved){allocation_left, session, allocation, allocation->size},
			mapping->address, &allocation->stored);
	}
	return leaving;
}

CUresult mapping_fill(const struct mapping *mapping)
{
	CUresult result =
		va_space_map(mapping->address, mapping->size, mapping->allocation->handle);

	if (result != CUDA_SUCCESS)
		return result;
	for (uint64_t left = mapping->readers; left && result == CUDA_SUCCESS; left &= left - 1) {
		uint32_t ordinal = (uint32_t)__builtin_ctzll(left);

		result = va_space_grant_access(mapping->address, mapping->size,
			device_get(ordinal)->handle,
			mapping->writers & 1ull << ordinal ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
							   : CU_MEM_ACCESS_FLAGS_PROT_READ);
	}
	if (result != CUDA_SUCCESS)
		va_space_unmap(mapping->address, mapping->size);
	return result;
}

/* On failure none is mapped. */
static CUresult map_all(struct session *session, const struct allocation *allocation)
{
	CUresult result = CUDA_SUCCESS;
	const struct mapping *failed = NULL;

	each_mapping(session, mapping)
	{
		if (mapping->allocation != allocation || failed)
			continue;
		result = mapping_fill(mapping);
		if (result != CUDA_SUCCESS)
			failed = mapping;
	}
	if (!failed)
		return CUDA_SUCCESS;
	each_mapping(session, mapping)
	{
		if (mapping == failed)
			break;
		if (mapping->allocation == allocation)
			va_space_unmap(mapping->address, mapping->size);
	}
	return result;
}

static CUresult make_again(struct session *session, struct allocation *allocation)
{
	CUresult result =
		cuda.cuMemCreate(&allocation->handle, allocation->size, &allocation->prop, 0);

	if (result != CUDA_SUCCESS)
		return result;
	result = map_all(session, allocation);
	if (result != CUDA_SUCCESS)
		cuda.cuMemRelease(allocation->handle);
	return result;
}

static CUresult allocation_return(
	struct session *session, struct mover *mover, const struct mapping *mapping)
{
	struct allocation *allocation = mapping->allocation;
	CUresult result;

	if (!device_quota_return(allocation->memory, allocation->size))
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = make_again(session, allocation);
	if (result != CUDA_SUCCESS) {
		device_quota_leave(allocation->memory, allocation->size);
		return result;
	}
	allocation->is_away = false;
	mover->sdev->allocations_away -= allocation->size;
	return mover_in(mover, mapping->address, allocation->size, &allocation->stored);
}

CUresult virtual_return(struct session *session, struct mover *mover)
{
	each_mapping(session, mapping)
	{
		CUresult result;

		if (mover->sdev->allocations_away == 0)
			return CUDA_SUCCESS;
		if (!mapping->allocation->is_away || !is_copied(mapping, mover->sdev))
			continue;
		result = allocation_return(session, mover, mapping);
		if (result != CUDA_SUCCESS)
			return result;
	}
	return CUDA_SUCCESS;
}

void virtual_returned(struct session *session, struct session_device *sdev, CUresult result)
{
	each_mapping(session, mapping)
	{
		struct allocation *allocation = mapping->allocation;

		if (allocation->stored.n == 0 || allocation->is_away ||
			allocation->device != sdev->device)
			continue;
		if (result == CUDA_SUCCESS)
			host_store_give(&allocation->stored);
		else
			allocation_left(session, allocation, CUDA_SUCCESS);
	}
}
