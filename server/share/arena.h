/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ARENA_H
#define ARENA_H

/*
 * A session's memory on one GPU: VA windows of the device space, reserved in the driver,
 * into which chunks are mapped as needed. Small pieces share a chunk. Unused chunks stay
 * mapped, for this session only, until arena_trim(). So a client never reads bytes of
 * another client.
 *
 * The session's worker only, with the GPU's context current.
 */

#include "host_store.h"
#include "server/util/account.h"
#include "server/driver/owner.h"
#include "server/device/device.h"
#include "server/device/device_quota.h"

#define ARENA_ALIGN 512u

struct chunk;
struct arena;
struct mover;
struct pack;
struct session;

/* Where the addresses and the bytes of an arena come from. */
struct arena_backing {
	/* Reserves the addresses [base, base + size). After any failure the arena tries others. */
	CUresult (*claim)(struct arena *arena);
	void (*disclaim)(struct arena *arena, bool device_lost);
	/* Maps bytes at a chunk's addresses. On failure nothing stays mapped. */
	CUresult (*back)(struct arena *arena, uint64_t address, uint64_t size,
		CUmemGenericAllocationHandle *ret_handle);
	void (*unback)(struct arena *arena, uint64_t address, uint64_t size,
		CUmemGenericAllocationHandle handle);
	/* Maps the allocation at a chunk's addresses, and takes it, on failure too. */
	CUresult (*map)(struct arena *arena, uint64_t address, uint64_t size,
		CUmemGenericAllocationHandle handle);
	uint64_t part; /* bytes: a chunk's memory comes in parts of this size; 0: in one */
	uint64_t kept; /* that the driver keeps for each part */
};

struct arena {
	const struct arena_backing *backing;
	struct account *account; /* not owned: pays for tables and chunks */
	void *remains;           /* what ipc.c needs at the end, if memory is shared; else NULL */
	struct device *device;   /* not owned; NULL: an arena of the host space */
	uint64_t others;         /* one bit for each other GPU that reaches all of it */
	uint64_t base, size;     /* the reservation */
	uint32_t va_window, n_va_windows; /* the first one; how many */
	uint64_t page;                    /* bytes: granularity of chunks */
	uint32_t n_pages;
	uint64_t *taken;             /* a bit for each page of the reservation */
	struct chunk **chunk_of;     /* by page; NULL: nothing mapped */
	struct chunk *shared;        /* chunks divided into small pieces */
	struct chunk *spare;         /* mapped, and unused */
	uint64_t unused_bytes;       /* on a GPU also part of device::unused */
	bool is_ending;              /* ... and of device::closing: the session has ended */
	uint64_t mapped;             /* bytes of all chunks */
	uint64_t away;               /* of these, evicted: in the store, not on the GPU */
	struct device_quota *memory; /* a reference: charged for all chunks; NULL: no quota */
};

/*
 * Reserves as many VA windows as the GPU has memory, at or after window `from'. A
 * zero-initialised arena needs no arena_fini(). CUDA_ERROR_OUT_OF_MEMORY: the device space or the
 * server's own memory is used up. The caller may set `memory' before the first chunk.
 */
CUresult arena_init(struct arena *arena, struct device *device, uint32_t session,
	struct account *account, uint32_t from);

/*
 * The same with memory that is not of a GPU: `size' bytes (whole VA windows), in chunks of
 * multiples of `page', at or after window `from'.
 */
CUresult arena_init_backed(struct arena *arena, const struct arena_backing *backing,
	struct account *account, struct owner owner, uint32_t from, uint64_t size, uint64_t page);

/*
 * Unmaps and returns everything. No work of the session may be on the GPU. `device_lost':
 * frees only the server's own memory, without driver calls.
 */
void arena_fini(struct arena *arena, bool device_lost);

/* At least `size' bytes, aligned to ARENA_ALIGN. `size' is not 0. */
CUresult arena_alloc(struct arena *arena, uint64_t size, uint64_t *ret_address);

/*
 * Accepts only results of arena_alloc(). Otherwise returns CUDA_ERROR_INVALID_VALUE and does
 * nothing.
 */
CUresult arena_free(struct arena *arena, uint64_t address);

/* Gives the unused chunks back. No work of the session may be on the GPU. */
void arena_trim(struct arena *arena);

/* From now on work of `device' may touch the whole arena. */
CUresult arena_grant_access(struct arena *arena, const struct device *device);

/*
 * The session has ended: gives back what no other session has open. Only arena_fini() may
 * follow.
 */
void arena_end_unshared(struct arena *arena);

/* The chunk that contains a used address. False: there is none. */
bool arena_chunk(
	const struct arena *arena, uint64_t address, uint64_t *ret_start, uint64_t *ret_size);

/*
 * A descriptor of these bytes, which are all mapped, goes to the client. Their chunks are of
 * this session alone, so their memory goes back to the driver only, which keeps it for the
 * descriptor.
 */
void arena_set_exported(struct arena *arena, uint64_t address, uint64_t size);

/* Whether all these bytes are mapped. */
bool arena_has(const struct arena *arena, uint64_t address, uint64_t size);

/*
 * Puts used chunks into the mover, until `bytes' leave, or all that may. Adds to `*stays' a bit for
 * each reason (enum eviction_stay) why a chunk stays. Returns the bytes in the mover. When it has
 * ended, arena::away has grown by the bytes that have left. (arena_evict.c)
 */
uint64_t arena_evict(struct arena *arena, struct mover *mover, uint64_t bytes, unsigned *stays);

/*
 * Maps memory for the chunks that are away, and puts them into the mover; arena_returned() when it
 * has waited. CUDA_ERROR_OUT_OF_MEMORY: some have no memory yet, or no room in a group.
 */
CUresult arena_return(struct arena *arena, struct mover *mover);
void arena_returned(struct arena *arena, CUresult result);

/*
 * The session moves to another server: its chunks, with a descriptor of the memory that each has on
 * a GPU, or of a copy of its bytes that are away. The arena in the other server has the same
 * addresses, and no chunk yet. 0 or -errno. (arena_move.c)
 */
int arena_pack(const struct arena *arena, struct pack *pack);
int arena_unpack(struct arena *arena, struct pack *pack);

/*
 * Whether arena_unpack() finds its bytes right, and as many descriptors as it needs, for an arena
 * of `size' bytes on a GPU or in the host space. Does not keep the descriptors. 0 or -errno.
 */
int arena_check(
	struct account *account, uint64_t base, uint64_t size, bool is_host, struct pack *pack);

/* What the room that shares memory between sessions knows about it. */
struct arena_sharing {
	/* Whether another session has some of these bytes open. Any thread. */
	bool (*is_open)(uint64_t address, uint64_t size);

	/* The same, or may open them: the session has given a token away. */
	bool (*is_offered)(uint64_t address, uint64_t size);

	/* Takes an arena whose session has ended, and keeps what other sessions have open. */
	void (*keep)(struct arena *arena);

	/* Lets work of `device' touch the memory of other sessions that this session has open. */
	CUresult (*grant_access)(const struct session *session, const struct device *device);
};

/* Defined in server/rooms.c. */
extern const struct arena_sharing *const arena_sharing;
extern const struct arena_sharing ipc_sharing; /* memory/ipc.c */

#endif
