/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The store of evicted bytes. Any thread.
 *
 * Invariant: a slot is free, or in exactly one chain. A piece that has slots is registered, and no
 * copy crosses the end of a piece.
 */

#include "host_store.h"

#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "lock.h"
#include "server/util/bitmap.h"
#include "server/util/log.h"
#include "server/util/machine_memory.h"
#include "server/util/number.h"
#include "server/schedule/quiet.h"

/*
 * To register a piece takes the driver's lock: launches of other clients wait for 0.9 ms (an H200)
 * to 3 ms (an H100) for 32 MiB, and for a quarter of that with this size.
 */
#define PIECE ((uint64_t)8 << 20)
#define PIECE_SLOTS ((uint32_t)(PIECE / STORE_SLOT))

/* The store's part of the machine's memory, or of its cgroup's, by default. */
#define STORE_PART 4
#define MACHINE_MEMORY_DEFAULT ((uint64_t)4 << 30)
#define LIMIT_MIB_MAX ((uint64_t)1 << 24)

/* Linux 5.14 */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* Under the lock, except for `base' and `n_pieces_max', which are set once. */
static struct lock lock = LOCK_INIT(HOST_STORE);
static struct {
	uint8_t *base; /* addresses for all pieces, reserved at first use; NULL: not yet */
	uint32_t n_pieces_max;
	uint32_t n_pieces; /* from the first one on, registered or about to be */
	uint64_t *taken;   /* a bit for each slot of all pieces; also of those that are not there */
	uint32_t *next;    /* the next slot of a chain */
	uint32_t n_free, lowest_free;
	uint64_t limit;
	bool is_changing; /* a thread makes or ends a piece: others wait */
	bool cannot_grow; /* an attempt has failed: idle workers make none then, until the last
			     session ends */
} store;

/* Who makes a piece without need, and for how long. NULL: it is needed now. */
struct patience {
	bool (*goes_on)(void *);
	void *arg;
};

static uint32_t slots_of(uint64_t size)
{
	return (uint32_t)(ALIGN_UP(size, STORE_SLOT) / STORE_SLOT);
}

void host_store_init(void)
{
	uint64_t machine = machine_memory("");
	uint64_t usual = (machine ? machine : MACHINE_MEMORY_DEFAULT) / STORE_PART;

	store.limit = number_setting("MPS_OVERSUBSCRIBE_HOST", "MiB", 0, LIMIT_MIB_MAX, usual >> 20)
		      << 20;
	resource_of_server(RESOURCE_STORE)->limit = store.limit;
}

uint64_t host_store_limit(void)
{
	return store.limit;
}

uint64_t host_store_used(void)
{
	lock_hold(&lock);

	return ((uint64_t)store.n_pieces * PIECE_SLOTS - store.n_free) * STORE_SLOT;
}

/* Under the lock. The tables are for all pieces that the limit allows. */
static bool reserve(void)
{
	uint32_t n_max = (uint32_t)(store.limit / PIECE), n_slots = n_max * PIECE_SLOTS;
	uint64_t bytes = (uint64_t)n_max * PIECE;
	uint8_t *base;

	if (store.base || n_max == 0)
		return store.base;
	/* Large pages are present sooner, and registered sooner. They need aligned addresses. */
	base = mmap(
		NULL, bytes + PIECE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	store.taken = calloc(BITS_WORDS(n_slots), sizeof(uint64_t));
	store.next = calloc(n_slots, sizeof(uint32_t));
	if (base == MAP_FAILED || !store.taken || !store.next) {
		if (base != MAP_FAILED)
			munmap(base, bytes + PIECE);
		free(store.taken);
		free(store.next);
		return false;
	}
	madvise(base, bytes + PIECE, MADV_DONTDUMP);
	madvise(base, bytes + PIECE, MADV_DONTFORK);
	bitmap_fill(store.taken, 0, n_slots, true);
	store.base = (uint8_t *)(uintptr_t)ALIGN_UP((uint64_t)(uintptr_t)base, PIECE);
	store.n_pieces_max = n_max;
	store.lowest_free = n_slots;
	return true;
}

static uint8_t *piece_at(uint32_t piece)
{
	return store.base + (uint64_t)piece * PIECE;
}

/* False: the system has no memory for pages. An access would end the process. */
static bool make_present(void *memory, size_t size)
{
	if (madvise(memory, size, MADV_POPULATE_WRITE) == 0)
		return true;
	if (errno != EINVAL)
		return false;
	memset(memory, 0, size);
	return true;
}

enum making {
	MADE,
	LEFT_OFF, /* what is present stays so, for the next attempt */
	FAILED
};

/* To make 32 MiB present takes 6 ms (an H200's host, measured). */
static enum making piece_fill(uint8_t *memory, const struct patience *patience)
{
	CUresult result;

	if (mprotect(memory, PIECE, PROT_READ | PROT_WRITE) < 0)
		return FAILED;
	madvise(memory, PIECE, MADV_HUGEPAGE);
	for (uint64_t at = 0; at < PIECE; at += STORE_SLOT) {
		if (patience && !patience->goes_on(patience->arg))
			return LEFT_OFF;
		if (!make_present(memory + at, STORE_SLOT))
			return FAILED;
	}
	result = cuda.cuMemHostRegister_v2(memory, PIECE, CU_MEMHOSTREGISTER_PORTABLE);
	if (result == CUDA_SUCCESS)
		return MADE;
	log_line(
		"The driver refuses to register memory for evicted bytes: %s", result_name(result));
	return FAILED;
}

/* Under the lock: the slots of a piece can be taken, or no more. */
static void set_slots(uint32_t piece, bool is_free)
{
	bitmap_fill(store.taken, piece * PIECE_SLOTS, PIECE_SLOTS, !is_free);
	store.n_free = is_free ? store.n_free + PIECE_SLOTS : store.n_free - PIECE_SLOTS;
	if (is_free)
		store.lowest_free = MIN(store.lowest_free, piece * PIECE_SLOTS);
}

/* Under the lock, which it leaves meanwhile; nobody else makes or ends a piece. */
static enum making piece_make(const struct patience *patience)
{
	uint32_t piece = store.n_pieces;
	enum making making;

	store.is_changing = true;
	lock_release(&lock);
	making = piece_fill(piece_at(piece), patience);
	if (making == FAILED)
		madvise(piece_at(piece), PIECE, MADV_DONTNEED);
	lock_take(&lock);
	store.is_changing = false;
	if (making == MADE) {
		store.n_pieces++;
		set_slots(piece, true);
	}
	return making;
}

/* Under the lock, which it leaves meanwhile. False: the store cannot grow. */
static bool grow(void)
{
	if (store.is_changing) {
		lock_release(&lock);
		nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
		lock_take(&lock);
		return true;
	}
	return reserve() && store.n_pieces < store.n_pieces_max && piece_make(NULL) == MADE;
}

bool host_store_warm(uint64_t size, bool (*goes_on)(void *), void *arg)
{
	uint64_t n = ALIGN_UP(size, PIECE) / PIECE;
	enum making making;

	lock_hold(&lock);
	if (store.n_pieces >= MIN(n, store.n_pieces_max) || store.cannot_grow)
		return false;
	if (store.is_changing)
		return true;
	making = piece_make(&(struct patience){goes_on, arg});
	store.cannot_grow = making == FAILED;
	return making != FAILED;
}

/* Under the lock; enough slots are free. Neighbours in memory become neighbours in the chain. */
static struct stored chain(uint32_t n)
{
	struct stored stored = {.n = n};
	uint32_t *link = &stored.first, slot = store.lowest_free;

	for (uint32_t i = 0; i < n; slot++) {
		if (bit_get(store.taken, slot))
			continue;
		bit_set(store.taken, slot, true);
		*link = slot;
		link = &store.next[slot];
		i++;
	}
	store.n_free -= n;
	store.lowest_free = slot;
	return stored;
}

/* Under the lock: how many slots are free when the store has grown to its limit. */
static uint64_t slots_left(void)
{
	return store.n_free + (store.limit / PIECE - store.n_pieces) * PIECE_SLOTS;
}

/* False: the store cannot grow. It makes no piece for what does not fit. */
static bool take_slots(uint32_t n, struct stored *ret_stored)
{
	lock_hold(&lock);

	while (store.n_free < n)
		if (slots_left() < n || !grow())
			return false;
	*ret_stored = chain(n);
	return true;
}

bool host_store_take(struct account *account, uint64_t size, struct stored *ret_stored)
{
	uint32_t n = slots_of(size);

	if (!account_charge_only(account, RESOURCE_STORE, n * STORE_SLOT))
		return false;
	if (!take_slots(n, ret_stored)) {
		account_refund_only(account, RESOURCE_STORE, n * STORE_SLOT);
		return false;
	}
	ret_stored->account = account;
	return true;
}

bool host_store_take_over(struct account *account, uint64_t size, struct stored *ret_stored)
{
	uint32_t n = slots_of(size);

	if (!take_slots(n, ret_stored))
		return false;
	account_force(account, RESOURCE_STORE, n * STORE_SLOT);
	ret_stored->account = account;
	return true;
}

void *host_store_memory(const struct stored *stored)
{
	return store.base + stored->first * STORE_SLOT;
}

static void give_slots(const struct stored *stored)
{
	uint32_t slot = stored->first;

	lock_hold(&lock);
	for (uint32_t i = 0; i < stored->n; i++) {
		bit_set(store.taken, slot, false);
		store.lowest_free = MIN(store.lowest_free, slot);
		slot = store.next[slot];
	}
	store.n_free += stored->n;
}

void host_store_give(struct stored *stored)
{
	if (stored->n == 0)
		return;
	give_slots(stored);
	account_refund_only(stored->account, RESOURCE_STORE, stored->n * STORE_SLOT);
	*stored = (struct stored){0};
}

/* How many slots of a chain, from `slot' on, one copy may take: neighbours within a piece. */
static uint32_t run_of(uint32_t slot, uint32_t n_left)
{
	uint32_t n = 1;

	while (n < n_left && store.next[slot + n - 1] == slot + n && (slot + n) % PIECE_SLOTS != 0)
		n++;
	return n;
}

void *host_store_next(struct store_copy *copy, uint64_t *ret_size)
{
	uint32_t n = copy->n > 0 ? run_of(copy->slot, copy->n) : 0;
	void *memory = store.base + copy->slot * STORE_SLOT;

	if (n == 0)
		return NULL;
	*ret_size = MIN(n * STORE_SLOT, copy->size);
	copy->size -= *ret_size;
	copy->slot = store.next[copy->slot + n - 1];
	copy->n -= n;
	return memory;
}

static CUresult copy_run(const struct store_copy *copy, uint64_t bytes, CUstream stream)
{
	void *memory = store.base + copy->slot * STORE_SLOT;

	return copy->is_out ? cuda.cuMemcpyDtoHAsync_v2(memory, copy->address, bytes, stream)
			    : cuda.cuMemcpyHtoDAsync_v2(copy->address, memory, bytes, stream);
}

CUresult host_store_copy_next(struct store_copy *copy, uint64_t bytes, CUstream stream)
{
	uint32_t n_left = MAX(1u, (uint32_t)(MIN(bytes, copy->size) / STORE_SLOT));

	while (n_left > 0 && copy->n > 0) {
		uint32_t n = run_of(copy->slot, MIN(n_left, copy->n));
		uint64_t size = MIN(n * STORE_SLOT, copy->size);
		CUresult result = copy_run(copy, size, stream);

		if (result != CUDA_SUCCESS)
			return result;
		copy->address += size;
		copy->size -= size;
		copy->slot = store.next[copy->slot + n - 1];
		copy->n -= n;
		n_left -= n;
	}
	return CUDA_SUCCESS;
}

/* Under the lock. False: there is none, or bytes are in the store. */
static bool take_piece(uint32_t *ret_piece)
{
	if (store.is_changing || store.n_pieces == 0 || store.n_free < store.n_pieces * PIECE_SLOTS)
		return false;
	store.is_changing = true;
	*ret_piece = --store.n_pieces;
	set_slots(*ret_piece, false);
	return true;
}

void host_store_trim(struct session *session)
{
	uint32_t piece;

	lock_take(&lock);
	store.cannot_grow = false;
	/* An idle worker has left off there. */
	if (!store.is_changing && store.n_pieces < store.n_pieces_max)
		madvise(piece_at(store.n_pieces), PIECE, MADV_DONTNEED);
	while (take_piece(&piece)) {
		lock_release(&lock);
		quiet_unpin(session, piece_at(piece));
		madvise(piece_at(piece), PIECE, MADV_DONTNEED);
		lock_take(&lock);
		store.is_changing = false;
	}
	lock_release(&lock);
}
