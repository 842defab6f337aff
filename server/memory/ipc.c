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
#include "server/util/pack.h"
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
	struct share *share; /* NULL: of a session that comes with this one, by the next ones */
	struct token token;
	uint64_t address, size;
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

static CUresult share_new(struct session *session, struct session_device *sdev, uint64_t address,
	uint64_t size, const struct token *token)
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
	share->token = *token;
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
	struct token token;
	CUresult result = CUDA_SUCCESS;

	if (owner.session != session->id || !sdev || !arena_has(&sdev->arena, address, size))
		return CUDA_ERROR_INVALID_VALUE;
	lock_take(&lock);
	share = share_of(session->id, address);
	lock_release(&lock);
	if (!share && session->n_shares >= SHARES_MAX)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!share)
		result = token_make(&token) ? share_new(session, sdev, address, size, &token)
					    : CUDA_ERROR_OPERATING_SYSTEM;
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

	while (opened &&
		(!opened->share || opened->is_closing || opened->share->address != address))
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
		if (opened->share)
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

/* The client may use the share, which was opened, at its address. An error closes the share. */
static CUresult share_enter(struct session *session, struct opened *opened, struct share *share)
{
	struct range range = {.address = share->address,
		.size = share->size,
		.real = share->address,
		.owner = share};
	CUresult result = share_prepare(session, share);

	if (result == CUDA_SUCCESS && (find_opened(session, share->address) ||
					      ranges_add(&session->variables, &range) < 0))
		result = CUDA_ERROR_MAP_FAILED;
	if (result != CUDA_SUCCESS) {
		share_close(session, share);
		return result;
	}
	opened->share = share;
	opened->token = share->token;
	opened->address = share->address;
	opened->size = share->size;
	return CUDA_SUCCESS;
}

CUresult do_ipc_memory_open(struct session *session, const uint64_t token[2], uint64_t *ret_address,
	uint64_t *ret_size, uint32_t *ret_device)
{
	struct share *share = NULL;
	struct opened *opened = account_alloc(session->account, sizeof(*opened), 0);
	CUresult result = opened ? share_open(session, token, &share) : CUDA_ERROR_OUT_OF_MEMORY;

	if (result == CUDA_SUCCESS)
		result = share_enter(session, opened, share);
	if (result != CUDA_SUCCESS) {
		account_free(opened);
		return result;
	}
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
		if (opened->share)
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

/* ---- to another server */

/* The memory of a session that has ended has nobody who moves it. */
static bool ipc_needs(const struct session *session, const struct session *other)
{
	lock_hold(&lock);

	for (const struct opened *opened = session->opened; opened; opened = opened->next)
		if (opened->share &&
			(opened->share->is_revoked || (other && opened->share->owner == other->id)))
			return true;
	return false;
}

static const char *ipc_stays(const struct session *session)
{
	return ipc_needs(session, NULL) ? "it uses memory of a client that has ended" : NULL;
}

static void pack_one(struct pack *pack, const struct token *token, uint64_t address, uint64_t size)
{
	pack_put(pack, token, sizeof(*token));
	pack_put_number(pack, address);
	pack_put_number(pack, size);
}

static int ipc_pack(struct session *session, struct pack *pack)
{
	uint64_t n = 0;

	lock_hold(&lock);
	pack_put_number(pack, session->n_shares);
	for (const struct share *share = shares; share; share = share->next)
		if (share->owner == session->id && !share->is_revoked)
			pack_one(pack, &share->token, share->address, share->size);
	for (const struct opened *opened = session->opened; opened; opened = opened->next)
		n++;
	pack_put_number(pack, n);
	for (const struct opened *opened = session->opened; opened; opened = opened->next)
		pack_one(pack, &opened->token, opened->address, opened->size);
	return session->n_closing > 0 ? -EBUSY : 0;
}

/* Memory of the device space, and no more than a GPU can have. */
static bool unpack_one(struct pack *pack, struct opened *ret_opened)
{
	pack_get(pack, &ret_opened->token, sizeof(ret_opened->token));
	ret_opened->address = pack_get_number(pack, DEVICE_SPACE_END);
	ret_opened->size = pack_get_number(pack, DEVICE_SPACE_END - DEVICE_SPACE);
	return !pack->is_bad && ret_opened->size > 0 && ret_opened->address >= DEVICE_SPACE &&
	       ret_opened->size <= DEVICE_SPACE_END - ret_opened->address;
}

static int unpack_share(struct session *session, struct pack *pack, bool is_check)
{
	struct opened packed;
	struct session_device *sdev;
	struct owner owner;

	if (!unpack_one(pack, &packed))
		return -EBADMSG;
	if (is_check)
		return 0;
	owner = owner_of(packed.address);
	sdev = owner.session == session->id ? session_device_get(session, owner.device) : NULL;
	if (!sdev || !arena_has(&sdev->arena, packed.address, packed.size))
		return -EBADMSG;
	return share_new(session, sdev, packed.address, packed.size, &packed.token) == CUDA_SUCCESS
		       ? 0
		       : -ENOMEM;
}

static int unpack_opened(struct session *session, struct pack *pack, bool is_check)
{
	struct opened packed = {0}, *opened;

	if (!unpack_one(pack, &packed))
		return -EBADMSG;
	if (is_check)
		return 0;
	opened = account_alloc(session->account, sizeof(*opened), 0);
	if (!opened)
		return -ENOMEM;
	*opened = packed;
	LIST_PUSH(session->opened, opened);
	return 0;
}

static int unpack_all(struct session *session, struct pack *pack, bool is_check)
{
	uint64_t n = pack_get_number(pack, SHARES_MAX);
	int r = 0;

	for (uint64_t i = 0; i < n && r == 0; i++)
		r = unpack_share(session, pack, is_check);
	n = r == 0 ? pack_get_number(pack, UINT32_MAX) : 0;
	for (uint64_t i = 0; i < n && r == 0; i++)
		r = unpack_opened(session, pack, is_check);
	return pack->is_bad ? -EBADMSG : r;
}

static int ipc_check(struct session *session, struct pack *pack)
{
	return unpack_all(session, pack, true);
}

static int ipc_unpack(struct session *session, struct pack *pack)
{
	return unpack_all(session, pack, false);
}

/* As the client would open it, where it has been. */
static int join_one(struct session *session, struct opened *opened)
{
	struct share *share = NULL;

	if (share_open(session, opened->token.words, &share) != CUDA_SUCCESS)
		return -ENXIO;
	if (share->address != opened->address || share->size != opened->size) {
		share_close(session, share);
		return -EBADMSG;
	}
	return share_enter(session, opened, share) == CUDA_SUCCESS ? 0 : -EIO;
}

static int ipc_join(struct session *session)
{
	int r = 0;

	for (struct opened *opened = session->opened; opened && r == 0; opened = opened->next)
		r = join_one(session, opened);
	return r;
}

const struct session_part ipc_part = {
	.stays = ipc_stays,
	.needs = ipc_needs,
	.pack = ipc_pack,
	.check = ipc_check,
	.unpack = ipc_unpack,
	.join = ipc_join,
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
