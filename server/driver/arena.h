/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ARENA_H
#define ARENA_H

/*
 * A session's memory on one GPU: units of the device space, reserved in the
 * driver, filled with chunks that are mapped as they are needed. Small pieces
 * share a chunk. Chunks that nobody uses stay mapped, for this session alone,
 * until arena_trim(): so no client ever reads another's bytes.
 *
 * The session's worker only, with the GPU's context current.
 */

#include "server/util/account.h"
#include "device.h"
#include "device_quota.h"
#include "owner.h"

#define ARENA_ALIGN 512u

struct chunk;
struct arena;
struct session;

/* Where addresses and bytes of an arena come from. */
struct arena_backing {
	/* Takes the addresses [base, base + size); any failure: others are tried. */
	CUresult (*claim)(struct arena *arena);
	void (*disclaim)(struct arena *arena, bool device_lost);
	/* Bytes for a chunk's addresses. Nothing is left behind on failure. */
	CUresult (*back)(struct arena *arena, uint64_t address, uint64_t size,
		CUmemGenericAllocationHandle *ret_handle);
	void (*unback)(struct arena *arena, uint64_t address, uint64_t size,
		CUmemGenericAllocationHandle handle);
	uint64_t kept; /* by the driver for each chunk */
};

struct arena {
	const struct arena_backing *backing;
	struct account *account; /* not owned: that pays for tables and chunks */
	void *remains;           /* what ipc.c needs at the end, if some of it is shared; or NULL */
	struct device *device;   /* not owned; NULL: of the host space */
	uint64_t others;         /* a bit for each GPU besides that reaches all of it */
	uint64_t base, size;     /* the reservation */
	uint32_t unit, n_units;
	uint64_t page; /* bytes: granularity of chunks */
	uint32_t n_pages;
	uint64_t *taken;             /* a bit a page of the reservation */
	struct chunk **chunk_of;     /* by page; NULL: nothing mapped */
	struct chunk *shared;        /* chunks cut in small pieces */
	struct chunk *spare;         /* mapped, and nobody uses them */
	uint64_t unused_bytes;       /* on a GPU also part of device::unused */
	bool is_ending;              /* ... and of device::going: its session has ended */
	uint64_t mapped;             /* bytes of all chunks */
	struct device_quota *memory; /* a reference: what they are charged to; NULL: nothing */
};

/*
 * Reserves as many units as the GPU has memory. Zero-initialised is finished.
 * CUDA_ERROR_OUT_OF_MEMORY when the device space or our own memory is used up.
 * The caller may set `memory' before the first chunk.
 */
CUresult arena_init(
	struct arena *arena, struct device *device, uint32_t session, struct account *account);

/*
 * The same with other bytes than a GPU's: `size' of them (whole units), in
 * chunks of multiples of `page', at or after unit `from'.
 */
CUresult arena_init_backed(struct arena *arena, const struct arena_backing *backing,
	struct account *account, struct owner owner, uint32_t from, uint64_t size, uint64_t page);

/*
 * Unmaps and returns everything. No work of the session may be on the GPU.
 * `device_lost': the driver has no use any more, only our own memory goes.
 */
void arena_fini(struct arena *arena, bool device_lost);

/* At least `size' bytes, aligned to ARENA_ALIGN. `size' is not 0. */
CUresult arena_alloc(struct arena *arena, uint64_t size, uint64_t *ret_address);

/* Only what arena_alloc() returned: else CUDA_ERROR_INVALID_VALUE and nothing happens. */
CUresult arena_free(struct arena *arena, uint64_t address);

/* Gives the spare chunks back. No work of the session may be on the GPU. */
void arena_trim(struct arena *arena);

/* Work of `device' may touch all of it from now on. */
CUresult arena_grant_access(struct arena *arena, const struct device *device);

/* Its session has ended: gives back what no other has open. Only arena_fini() may follow. */
void arena_end_unshared(struct arena *arena);

/* The chunk that a used address lies in; false: none. */
bool arena_chunk(
	const struct arena *arena, uint64_t address, uint64_t *ret_start, uint64_t *ret_size);

/* Whether all these bytes are mapped. */
bool arena_has(const struct arena *arena, uint64_t address, uint64_t size);

/* What the room that shares memory between sessions says of it. */
struct arena_sharing {
	/* Whether another session has some of these bytes open. Any thread. */
	bool (*is_open)(uint64_t address, uint64_t size);

	/* Takes an arena whose session has ended, and keeps of it what others have open. */
	void (*keep)(struct arena *arena);

	/* Work of `device' may touch what the session has open of others. */
	CUresult (*grant_access)(const struct session *session, const struct device *device);
};

/* (server/rooms.c) */
extern const struct arena_sharing *const arena_sharing;

#endif
