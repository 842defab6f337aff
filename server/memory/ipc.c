/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Memory that clients of this server share. A handle is an unguessable token, and every client that
 * opens it gets the same pointer. The memory stays until the last client has closed it. Several
 * workers at a time.
 *
 * Invariant: a share is on the list while its exporter lives and has not ended it, or a
 * session has it open. Open memory is never unmapped. The lock is held briefly, and never
 * during a driver call.
 */

#include <stdatomic.h>
#include <string.h>

#include "lock.h"
#include "server/util/token.h"
#include "server/session/fault.h"
#include "server/session/session.h"
#include "server/session/session_part.h"
#include "server/driver/va_space.h"
#include "server/share/session_devices.h"
#include "server/stream/fence.h"
#include "do_memory.h"

/* For one session: bounds the list. */
#define SHARES_MAX 16384u

/* Memory for which its owner has a token. */
struct share {
	struct share *next;
	struct token token;
	uint32_t owner;   /* ID of a session */
	uid_t uid;        /* of its user: other users may not open it */
	bool is_revoked;  /* no session may open it any more */
	uint32_t n_opens; /* sessions that have it open */
	uint32_t device;
	uint64_t address, size;
	uint64_t chunk, chunk_size; /* the chunk that contains it */
};

/* A share that a session has open, or has closed while earlier work still runs. */
struct opened {
	struct opened *next;
	struct share *share;
	bool is_closing;
	struct fence fence;
};

/* The remaining memory of a session that has ended. */
struct remains {
	struct remains *next;
	struct arena arena;
};

static struct lock lock = LOCK_INIT(IPC_MEMORY);
static struct share *shares;
static struct remains *all_remains;
static atomic_uint n_open; /* opens of all shares: usually 0, so most look-ups end here */

static bool is_open_locked(uint64_t address, uint64_t size)
{
	for (const struct share *share = shares; share; share = share->next)
		if (share->n_opens > 0 && share->address < address + size &&
			address < share->address + share->size)
			return true;
	return false;
}

static bool ipc_is_open(uint64_t address, uint64_t size)
{
	if (likely(atomic_load(&n_open) == 0))
		return false;
	lock_hold(&lock);
	return is_open_locked(address, size);
}

static bool ipc_is_offered(uint64_t address, uint64_t size)
{
	lock_hold(&lock);

	for (const struct share *share = shares; share; share = share->next)
		if (share->address < address + size && address < share->address + share->size)
			return true;
	return false;
}

/* Frees what no session has open any more, and keeps the rest. Takes `remains'. */
static void ipc_settle(struct remains *remains)
{
	struct arena *arena = &remains->arena, gone = {0};
	bool device_lost = fault_get() != CUDA_SUCCESS, is_open;

	if (!device_lost && device_enter(arena->device) == CUDA_SUCCESS)
		arena_end_unshared(arena);
	lock_take(&lock);
	is_open = is_open_locked(arena->base, arena->size);
	if (is_open)
		LIST_PUSH(all_remains, remains);
	lock_release(&lock);
	if (is_open)
		return;
	/* The arena owns the memory of `remains'. */
	gone = *arena;
	arena_fini(&gone, device_lost);
}

static void ipc_keep_arena(struct arena *arena)
{
	struct remains *remains = arena->remains;

	if (!ipc_is_open(arena->base, arena->size)) {
		arena_fini(arena, false);
		return;
	}
	remains->arena = *arena;
	*arena = (struct arena){0};
	ipc_settle(remains);
}

/* Takes the remains that contain this address off the list. NULL: their session lives. */
static struct remains *take_remains(uint64_t address)
{
	struct remains **link = &all_remains;
	struct remains *found;

	while (*link && !range_ok(address - (*link)->arena.base, 1, (*link)->arena.size))
		link = &(*link)->next;
	found = *link;
	if (found)
		*link = found->next;
	return found;
}

/* Under the lock: takes the share off the list. */
static void share_free(struct share *share)
{
	LIST_DROP(shares, share);
	account_free(share);
}

/* A session closes the share. */
static void share_close(struct session *session, struct share *share)
{
	struct remains *remains = NULL;

	lock_take(&lock);
	atomic_fetch_sub(&n_open, 1);
	if (--share->n_opens == 0 && share->is_revoked) {
		remains = take_remains(share->address);
		share_free(share);
	}
	lock_release(&lock);
	if (!remains)
		return;
	ipc_settle(remains);
	session->current = NULL; /* another GPU's context may be current now */
}

/* Under the lock. */
static struct share *share_of(uint32_t owner, uint64_t address)
{
	struct share *share = shares;

	while (share && (share->owner != owner || share->is_revoked || share->address != address))
		share = share->next;
	return share;
}

static CUresult share_new(
	struct session *session, struct session_device *sdev, uint64_t address, uint64_t size)
{
	struct share *share;

	if (!sdev->arena.remains)
		sdev->arena.remains = account_alloc(session->account, sizeof(struct remains), 0);
	if (!sdev->arena.remains)
		return CUDA_ERROR_OUT_OF_MEMORY;
	share = account_alloc(session->account, sizeof(*share), 0);
	if (!share)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*share = (struct share){
		.owner = session->id, .uid = session->uid, .address = address, .size = size};
	share->device = sdev->device->ordinal;
	if (!arena_chunk(&sdev->arena, address, &share->chunk, &share->chunk_size) ||
		!range_ok(address - share->chunk, size, share->chunk_size)) {
		account_free(share);
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (!token_make(&share->token)) {
		account_free(share);
		return CUDA_ERROR_OPERATING_SYSTEM;
	}
	lock_take(&lock);
	LIST_PUSH(shares, share);
	lock_release(&lock);
	session->n_shares++;
	return CUDA_SUCCESS;
}

CUresult do_ipc_memory_export(
	struct session *session, uint64_t address, uint64_t size, uint64_t ret_token[2])
{
	struct owner owner = owner_of(address);
	struct session_device *sdev = session_device_get(session, owner.device);
	struct share *share;
	CUresult result = CUDA_SUCCESS;

	if (owner.session != session->id || !sdev || !arena_has(&sdev->arena, address, size))
		return CUDA_ERROR_INVALID_VALUE;
	lock_take(&lock);
	share = share_of(session->id, address);
	lock_release(&lock);
	if (!share && session->n_shares >= SHARES_MAX)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!share)
		result = share_new(session, sdev, address, size);
	if (result != CUDA_SUCCESS)
		return result;
	lock_take(&lock);
	/* Only this worker can remove an own share that is not revoked. */
	share = share_of(session->id, address);
	if (share->size == size)
		memcpy(ret_token, share->token.words, sizeof(share->token.words));
	else
		result = CUDA_ERROR_INVALID_VALUE;
	lock_release(&lock);
	return result;
}

CUresult do_ipc_memory_end(struct session *session, uint64_t address, uint32_t *ret_is_open)
{
	struct share *share;

	*ret_is_open = 0;
	lock_hold(&lock);
	share = share_of(session->id, address);
	if (share && share->n_opens > 0)
		*ret_is_open = 1;
	else if (share) {
		session->n_shares--;
		share_free(share);
	}
	return CUDA_SUCCESS;
}

/* Opens a share and counts that, or returns the reason why not. */
static CUresult share_open(
	struct session *session, const uint64_t token[2], struct share **ret_share)
{
	lock_hold(&lock);
	struct share *share = shares;

	while (share && (share->is_revoked || share->uid != session->uid ||
				!token_is(&share->token, token)))
		share = share->next;
	if (!share)
		return CUDA_ERROR_INVALID_VALUE;
	if (share->owner == session->id)
		return CUDA_ERROR_INVALID_CONTEXT;
	share->n_opens++;
	atomic_fetch_add(&n_open, 1);
	*ret_share = share;
	return CUDA_SUCCESS;
}

static struct opened *find_opened(const struct session *session, uint64_t address)
{
	struct opened *opened = session->opened;

	while (opened && (opened->is_closing || opened->share->address != address))
		opened = opened->next;
	return opened;
}

/* While the share is open, its chunk stays mapped. */
static CUresult share_grant_access(const struct share *share, const struct device *device)
{
	const struct device *own = device_get(share->device);

	return device != own && device_reaches(device, own)
		       ? va_space_grant_access(share->chunk, share->chunk_size, device->handle,
				 CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
		       : CUDA_SUCCESS;
}

static CUresult ipc_grant_access(const struct session *session, const struct device *device)
{
	CUresult result = CUDA_SUCCESS;

	for (const struct opened *opened = session->opened; opened && result == CUDA_SUCCESS;
		opened = opened->next)
		result = share_grant_access(opened->share, device);
	return result;
}

/* Grants access to all GPUs that the session uses, including the GPU of the memory. */
static CUresult share_prepare(struct session *session, const struct share *share)
{
	struct session_device *sdev;
	CUresult result = session_device_open(session, share->device, &sdev);

	for (unsigned i = 0; i < DEVICES_MAX && result == CUDA_SUCCESS; i++)
		if (session->devices[i])
			result = share_grant_access(share, session->devices[i]->device);
	return result;
}

CUresult do_ipc_memory_open(struct session *session, const uint64_t token[2], uint64_t *ret_address,
	uint64_t *ret_size, uint32_t *ret_device)
{
	struct share *share = NULL;
	struct opened *opened;
	struct range range;
	CUresult result = share_open(session, token, &share);

	if (result != CUDA_SUCCESS)
		return result;
	range = (struct range){.address = share->address,
		.size = share->size,
		.real = share->address,
		.owner = share};
	opened = account_alloc(session->account, sizeof(*opened), 0);
	result = opened ? share_prepare(session, share) : CUDA_ERROR_OUT_OF_MEMORY;
	if (result == CUDA_SUCCESS && (find_opened(session, share->address) ||
					      ranges_add(&session->variables, &range) < 0))
		result = CUDA_ERROR_MAP_FAILED;
	if (result != CUDA_SUCCESS) {
		share_close(session, share);
		account_free(opened);
		return result;
	}
	opened->share = share;
	LIST_PUSH(session->opened, opened);
	*ret_address = share->address;
	*ret_size = share->size;
	*ret_device = share->device;
	return CUDA_SUCCESS;
}

/* Drops what was closed while work ran that is done now. */
static void ipc_poll(struct session *session)
{
	struct opened **link = &session->opened;

	while (session->n_closing > 0 && *link) {
		struct opened *opened = *link;

		if (!opened->is_closing || !fence_is_passed(&opened->fence)) {
			link = &opened->next;
			continue;
		}
		*link = opened->next;
		session->n_closing--;
		share_close(session, opened->share);
		account_free(opened);
	}
}

/* The client may no longer use the bytes. They stay until the queued work has ended. */
CUresult do_ipc_memory_close(struct session *session, uint64_t address)
{
	struct opened *opened = find_opened(session, address);
	CUresult result;

	if (!opened)
		return CUDA_ERROR_INVALID_VALUE;
	result = fence_init(&opened->fence, session);
	if (result != CUDA_SUCCESS)
		return result;
	ranges_remove(&session->variables, opened->share);
	session->n_freed++;
	opened->is_closing = true;
	session->n_closing++;
	ipc_poll(session);
	return CUDA_SUCCESS;
}

/* Frees the session's shares that no session has open; the others follow later. */
static void revoke_all(const struct session *session)
{
	lock_hold(&lock);
	struct share *share, *next;

	for (share = shares; share; share = next) {
		next = share->next;
		if (share->owner != session->id)
			continue;
		share->is_revoked = true;
		if (share->n_opens == 0)
			share_free(share);
	}
}

/* Its work is done, and no session can open its memory any more. */
static void ipc_end(struct session *session, bool device_lost)
{
	while (session->opened) {
		struct opened *opened = LIST_POP(session->opened);

		fence_fini(&opened->fence, device_lost);
		share_close(session, opened->share);
		account_free(opened);
	}
	session->n_closing = 0;
	if (session->n_shares > 0)
		revoke_all(session);
}

static bool ipc_is_settled(const struct session *session)
{
	return session->n_closing == 0;
}

static const char *ipc_obstacle(struct session *session)
{
	return session->opened || session->n_shares > 0 ? "it shares memory with another client"
							: NULL;
}

const struct session_part ipc_part = {
	.obstacle = ipc_obstacle,
	.is_settled = ipc_is_settled,
	.poll = ipc_poll,
	.end = ipc_end,
};

const struct arena_sharing ipc_sharing = {
	.is_open = ipc_is_open,
	.is_offered = ipc_is_offered,
	.keep = ipc_keep_arena,
	.grant_access = ipc_grant_access,
};
