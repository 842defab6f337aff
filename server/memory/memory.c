/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Device memory that a client allocates. A worker.
 *
 * Invariant: an address that a client may use lies in its own VA windows, in a mapped and
 * used chunk (in host memory also pinned), or in a variable of its own libraries.
 */

#include "alias.h"
#include "host.h"
#include "space.h"
#include "virtual.h"
#include "server/session/at_work.h"
#include "server/session/session.h"
#include "server/driver/owner.h"
#include "server/device/device_quota.h"
#include "server/schedule/deferred.h"
#include "server/schedule/gate.h"
#include "server/share/eviction.h"
#include "server/share/session_devices.h"
#include "server/share/soft_limit.h"
#include "server/stream/stream.h"
#include "do_memory.h"

/* How long a query of free memory waits for the session's own work. */
#define ENDS_OWN_NS 1000000

static bool is_own(struct session *session, struct owner owner, uint64_t address, uint64_t size)
{
	struct session_device *sdev;

	if (owner.device == OWNER_HOST)
		return host_has(session, address, size) || alias_has(session, address, size);
	if (owner.device == OWNER_RESERVED)
		return virtual_has(session, address, size);
	sdev = session_device_get(session, owner.device);
	return sdev && arena_has(&sdev->arena, address, size);
}

uint64_t memory_find(struct session *session, uint64_t address, uint64_t size)
{
	struct owner owner = owner_of(address);

	if (likely(owner.session == session->id))
		return is_own(session, owner, address, size) ? address : 0;
	return ranges_find(&session->variables, address, size);
}

CUresult do_memory_alloc(
	struct session *session, uint32_t device, uint64_t size, uint64_t *ret_address)
{
	struct session_device *sdev;
	CUresult result = session_device_get_entered(session, device, &sdev);

	return result == CUDA_SUCCESS ? space_take(session, sdev, size, ret_address) : result;
}

/* The bytes stay mapped for the session's next allocation, until the session is idle. */
CUresult do_memory_free(struct session *session, uint64_t address)
{
	struct owner owner = owner_of(address);
	struct session_device *sdev = session_device_get(session, owner.device);

	if (owner.session != session->id || !sdev)
		return CUDA_ERROR_INVALID_VALUE;
	session->has_unused = true;
	session->n_freed++;
	return arena_free(&sdev->arena, address);
}

/* The GPU of memory that is the session's alone; NULL: of none. */
static const struct device *memory_device(struct session *session, uint64_t address, uint64_t size)
{
	struct owner owner = owner_of(address);

	/* A variable's page may hold others' variables. */
	if (owner.session != session->id || owner.device == OWNER_HOST ||
		!memory_check(session, address, size))
		return NULL;
	return owner.device == OWNER_RESERVED ? virtual_device(session, address)
					      : device_get(owner.device);
}

/*
 * The descriptor is the driver's own, for any process and device. It holds the memory, also after
 * the session's end. No other session gets this memory from the server, only from the driver.
 */
CUresult do_memory_dmabuf(struct session *session, uint64_t address, uint64_t size)
{
	const struct device *device = memory_device(session, address, size);
	_cleanup_close_ int fd = -EBADF;
	struct session_device *sdev;
	CUresult result;

	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	result = session_device_get_entered(session, device->ordinal, &sdev);
	if (result == CUDA_SUCCESS)
		result = cuda.cuMemGetHandleForAddressRange(
			&fd, address, size, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
	if (result != CUDA_SUCCESS)
		return result;
	if (owner_of(address).device == OWNER_RESERVED)
		virtual_set_exported(session, address, size);
	else
		arena_set_exported(&sdev->arena, address, size);
	return session_send_memory(session, address, size, fd);
}

/*
 * Natively an array's memory is free when the call returns; here when no client's work
 * delays the end. Until then the free memory that the client sees lacks it: to wait for
 * other clients would be worse.
 */
static void memory_wait_for_ends(struct session *session)
{
	struct gate_wait wait = gate_wait(GATE_ARRAYS, session);
	uint64_t n = deferred_n_added();

	while (!deferred_has_made(n)) {
		if (streams_poll(session))
			session_set_at_work(session, false);
		else if (gate_waited_ns(&wait) >= ENDS_OWN_NS)
			return;
		if (at_work_count() > session->is_at_work || !gate_again(&wait))
			return;
	}
}

/*
 * What groups leave, with what their members have borrowed and would have to give back for what is
 * left of the client's soft limit.
 */
static uint64_t left_in_groups(struct session *session, const struct session_device *sdev)
{
	const uint32_t device = sdev->device->ordinal;
	uint64_t left = lease_left(session, device), soft = soft_limit_left(session, device);
	const struct group *full = device_quota_full_group(sdev->memory, device, soft);

	if (!full || left >= soft)
		return left;
	return MAX(left, MIN(soft, left + eviction_others(session, device, full)));
}

/* A limit counts unused memory as free, because that is reclaimed before the limit refuses. */
static void apply_limits(
	struct session *session, const struct session_device *sdev, uint64_t *free, uint64_t *total)
{
	const struct quota *quota = &sdev->memory->quota;
	uint64_t own = atomic_load(&quota->limit), used = quota_used(quota);
	uint64_t left = left_in_groups(session, sdev);

	left = MIN(own > used ? own - used : 0, left);
	*total = MIN(*total, device_quota_limit(sdev->memory));
	if (left < *total)
		*free = MIN(*free,
			left + sdev->arena.unused_bytes + host_unused_of(session, sdev->memory));
	*free = MIN(*free, *total);
}

/*
 * What others make space for: where clients oversubscribe the GPU, as much as if the client were
 * alone; else borrowed memory, for what is left of the client's soft limit.
 */
static uint64_t free_with_space(const struct session *session, const struct session_device *sdev,
	uint64_t free, uint64_t total)
{
	uint64_t used = quota_used(&sdev->memory->quota);
	uint64_t away = sdev->arena.away + sdev->allocations_away;
	const uint32_t device = sdev->device->ordinal;

	if (eviction_is_allowed(session))
		free += eviction_others(session, device, NULL);
	else
		free = MAX(free, MIN(soft_limit_left(session, device),
					 free + eviction_others(session, device, NULL)));
	free -= MIN(free, away);
	return MIN(free, total - MIN(total, used - MIN(used, sdev->arena.unused_bytes)));
}

CUresult do_memory_info(
	struct session *session, uint32_t device, uint64_t *ret_free, uint64_t *ret_total)
{
	struct session_device *sdev;
	CUresult result = session_device_get_entered(session, device, &sdev);

	if (result != CUDA_SUCCESS)
		return result;
	memory_wait_for_ends(session);
	result = device_memory_info(sdev->device, ret_free, ret_total);
	if (result == CUDA_SUCCESS && eviction_may_ask(session, device, 0))
		*ret_free = free_with_space(session, sdev, *ret_free, *ret_total);
	if (result == CUDA_SUCCESS)
		apply_limits(session, sdev, ret_free, ret_total);
	return result;
}
