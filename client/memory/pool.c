/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Pools: where their blocks come from, and where they go. Any thread of the
 * application.
 *
 * Invariant: a block goes back to the server when no piece of it is used or waits
 * for a stream. The server keeps it mapped until this session's work has ended, so
 * a program that frees too early reads only its own memory.
 */

#include "pool.h"

#include <stdatomic.h>

#include "clock.h"
#include "host.h"
#include "lock.h"
#include "wire.h"
#include "client/util/compat.h"
#include "client/stream/callback.h"
#include "client/stream/timeline.h"
#include "send_memory.h"

#define POOLS_MAX 4096u
/* A pool grows by its own size, to avoid many small blocks, but at most by this much. */
#define BLOCK_MAX (32ull << 20)
/*
 * How long cuMemAllocAsync() waits at most, if a stream may wait for the program: for a
 * semaphore or a host function that the calling thread delays.
 */
#define ALLOC_WAIT_NS 10000000000u
/* Kept for the next cuMemAlloc(): little compared with the cost of a separate context. */
#define PLAIN_KEPT (32ull << 20)

static struct lock pool_lock = LOCK_INIT(POOLS);
static struct pool *pools;
static struct pool *_Atomic plain[DEVICES_MAX], *_Atomic of_graphs[DEVICES_MAX],
	*_Atomic defaults[POOL_HOMES];
static struct slab pool_slab = {
	.lock = LOCK_INIT(SLAB),
	.object_size = sizeof(struct pool),
	.n_max = POOLS_MAX,
};

struct pool_home pool_home_of(struct device *device, CUdevice ordinal)
{
	return (struct pool_home){.number = device->index, .device = device, .ordinal = ordinal};
}

static struct pool *new_locked(const struct pool_home *home, enum pool_kind kind)
{
	struct pool *pool = slab_take(&pool_slab);

	if (!pool)
		return NULL;
	pool->kind = kind;
	pool->memory = home->memory;
	pool->home = home->number;
	pool->device = home->device;
	pool->ordinal = home->ordinal;
	pool->preferred = home->preferred;
	pool->threshold = kind == POOL_PLAIN ? PLAIN_KEPT : 0;
	/* The next launch needs the same amount; the program can trim the pool. */
	if (kind == POOL_GRAPH)
		pool->threshold = UINT64_MAX;
	for (unsigned i = 0; i < POOL_REUSES; i++)
		pool->reuse[i] = 1;
	heap_init(&pool->heap);
	LIST_PUSH(pools, pool);
	return pool;
}

struct pool *pool_new(const struct pool_home *home, enum pool_kind kind)
{
	lock_hold(&pool_lock);
	return new_locked(home, kind);
}

static struct pool *pool_once(
	struct pool *_Atomic *place, const struct pool_home *home, enum pool_kind kind)
{
	struct pool *pool = atomic_load_explicit(place, memory_order_acquire);

	if (likely(pool))
		return pool;
	lock_hold(&pool_lock);
	if (!*place)
		atomic_store_explicit(place, new_locked(home, kind), memory_order_release);
	return *place;
}

struct pool *pool_plain(struct device *device, CUdevice ordinal)
{
	const struct pool_home home = pool_home_of(device, ordinal);

	return pool_once(&plain[device->index], &home, POOL_PLAIN);
}

struct pool *pool_default(const struct pool_home *home)
{
	return pool_once(&defaults[home->number], home, POOL_DEFAULT);
}

struct pool *pool_graph(struct device *device, CUdevice ordinal)
{
	const struct pool_home home = pool_home_of(device, ordinal);

	return pool_once(&of_graphs[device->index], &home, POOL_GRAPH);
}

struct pool *pool_find(CUmemoryPool handle)
{
	struct pool *pool = slab_find(&pool_slab, handle);

	if (!pool || pool->kind == POOL_PLAIN || pool->kind == POOL_GRAPH ||
		atomic_load_explicit(&pool->is_destroyed, memory_order_relaxed))
		return NULL;
	return pool;
}

struct pool *pool_find_own(CUmemoryPool handle)
{
	struct pool *pool = pool_find(handle);

	return pool && pool->kind != POOL_IMPORTED ? pool : NULL;
}

/* The device on which the pool's memory is, or that pins host memory for a stream, and pays. */
static struct device *device_for(const struct pool *pool, const struct stream *stream)
{
	return pool->device ? pool->device
			    : atomic_load_explicit(&stream->context, memory_order_relaxed)->device;
}

static CUresult block_new(
	const struct pool *pool, uint64_t size, const struct stream *stream, uint64_t *ret_address)
{
	unsigned index = device_for(pool, stream)->index;

	if (pool->memory == POOL_OF_DEVICE)
		return send_memory_alloc(index, size, ret_address);
	return host_block_new(index, pool->memory == POOL_MANAGED, size, ret_address);
}

static void block_free(const struct pool *pool, uint64_t address)
{
	if (pool->memory == POOL_OF_DEVICE)
		(void)send_memory_free(address);
	else
		(void)host_free(address);
}

/* Under the lock. Returns whether any memory was released. */
static bool trim_locked(struct pool *pool, uint64_t size_kept)
{
	bool is_less = false;
	uint64_t address, size;

	while (pool->heap.size > size_kept &&
		heap_release(&pool->heap, pool->heap.size - size_kept, &address, &size)) {
		block_free(pool, address);
		is_less = true;
	}
	return is_less;
}

/* Limits the free memory of cuMemAlloc()'s pool, and the total size of other pools. */
static void trim_to_threshold(struct pool *pool)
{
	uint64_t kept = pool->is_destroyed ? 0 : pool->threshold;
	uint64_t address, size;

	if (pool->kind != POOL_PLAIN)
		(void)trim_locked(pool, kept);
	else
		while (pool->heap.empty_bytes > kept &&
			heap_release(&pool->heap, UINT64_MAX, &address, &size))
			block_free(pool, address);
}

/* Under the lock. Frees a destroyed pool that has no block left. */
static void pool_free_destroyed(struct pool *pool)
{
	if (!pool->is_destroyed || pool->heap.size > 0)
		return;
	LIST_DROP(pools, pool);
	slab_give(&pool_slab, pool);
}

/* Free memory goes back to the server at once, not when the host waits. */
static bool pool_keeps_nothing(const struct pool *pool)
{
	return pool->kind == POOL_PLAIN || pool->is_destroyed;
}

void pool_destroy(struct pool *pool)
{
	lock_hold(&pool_lock);
	atomic_store_explicit(&pool->is_destroyed, true, memory_order_relaxed);
	heap_reclaim(&pool->heap);
	(void)trim_locked(pool, 0);
	if (pool->heap.size > 0)
		atomic_store_explicit(&pools_pending, 1, memory_order_release);
	if (heap_next_pending(&pool->heap, NULL))
		callback_expect_ends();
	pool_free_destroyed(pool);
}

/* As in the driver, the requested bytes count, not those of the piece. */
static void pool_count(struct pool *pool, struct piece *piece, uint64_t size)
{
	piece->counted = size;
	pool->used += size;
	pool->used_high = MAX(pool->used_high, pool->used);
}

static uint64_t piece_size(uint64_t size)
{
	return ALIGN_UP(size, (uint64_t)HEAP_ALIGN);
}

static struct piece *pool_take_locked(struct pool *pool, uint64_t size, struct stream *stream)
{
	struct piece *piece = heap_take(&pool->heap, piece_size(size), stream);

	if (!piece)
		return NULL;
	pool_count(pool, piece, size);
	return piece;
}

/* Makes the GPU report its progress on the streams for which free pieces wait. */
static void pool_reclaim(struct pool *pool)
{
	struct piece *piece = NULL;
	uint64_t seqno;

	while ((piece = heap_next_pending(&pool->heap, piece)))
		(void)timeline_post(piece->stream, &seqno);
	heap_reclaim(&pool->heap);
}

static struct piece *pool_take(struct pool *pool, uint64_t size, struct stream *stream)
{
	struct piece *piece;

	lock_hold(&pool_lock);
	piece = pool_take_locked(pool, size, stream);
	if (!piece) {
		pool_reclaim(pool);
		piece = pool_take_locked(pool, size, stream);
	}
	return piece;
}

/* Adds a block, and takes its first piece. */
static CUresult pool_grow(struct pool *pool, uint64_t block_size, uint64_t size,
	struct stream *stream, struct piece **ret_piece)
{
	CUresult result;
	uint64_t address;

	if (pool->size_max > 0 && !range_ok(pool->heap.size, block_size, pool->size_max))
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = block_new(pool, block_size, stream, &address);
	if (result != CUDA_SUCCESS)
		return result;
	lock_hold(&pool_lock);
	if (heap_add(&pool->heap, address, block_size) == 0) {
		pool->size_high = MAX(pool->size_high, pool->heap.size);
		*ret_piece = pool_take_locked(pool, size, stream);
	} else {
		block_free(pool, address);
		result = CUDA_ERROR_OUT_OF_MEMORY;
	}
	return result;
}

/* Whether the pool may have memory for which the device pays, or that its work may use. */
static bool pool_is_of(const struct pool *pool, const struct device *device)
{
	return !pool->device || pool->device == device;
}

static bool device_has_pending(const struct device *device)
{
	bool is_found = false;

	lock_hold(&pool_lock);
	for (struct pool *pool = pools; pool && !is_found; pool = pool->next)
		is_found = pool_is_of(pool, device) && heap_next_pending(&pool->heap, NULL);
	return is_found;
}

bool pools_trim_device(const struct device *device)
{
	bool is_less = false;

	lock_hold(&pool_lock);
	for (struct pool *pool = pools, *next; pool; pool = next) {
		next = pool->next;
		if (!pool_is_of(pool, device))
			continue;
		heap_reclaim(&pool->heap);
		is_less |= trim_locked(pool, 0);
		pool_free_destroyed(pool);
	}
	return is_less;
}

/* After the wait, stream_waited() may have released the memory already. */
bool pools_make_space(const struct device *device)
{
	bool is_waiting = device_has_pending(device);

	if (is_waiting && streams_wait_device(device->index) != CUDA_SUCCESS)
		return false;
	return pools_trim_device(device) || is_waiting;
}

/*
 * Takes memory that another stream is about to free, and makes `stream' wait for that
 * stream: the host need not wait. The driver does the same when it has no memory left
 * (REUSE_ALLOW_INTERNAL_DEPENDENCIES).
 */
static struct piece *pool_take_pending(struct pool *pool, uint64_t size, struct stream *stream)
{
	struct stream *before;
	struct piece *piece;
	uint64_t seqno;

	lock_take(&pool_lock);
	piece = heap_take_pending(&pool->heap, piece_size(size), &before, &seqno);
	if (piece)
		pool_count(pool, piece, size);
	lock_release(&pool_lock);
	if (piece && stream_follow(before, seqno, stream) != CUDA_SUCCESS)
		pool_free_at(pool, TAKE_PTR(piece), before, seqno);
	return piece;
}

/* Waits for pieces that were freed in the order of streams. */
static CUresult wait_for_pending(const struct device *device, const struct stream *stream)
{
	bool is_bounded = stream && streams_await_host();
	uint64_t deadline_ns = is_bounded ? now_ns() + ALLOC_WAIT_NS : UINT64_MAX;
	CUresult result = streams_wait_device_until(device->index, deadline_ns);

	return result == CUDA_ERROR_NOT_READY ? CUDA_ERROR_OUT_OF_MEMORY : result;
}

/* Memory is short: only now use or await pieces that were freed in the order of streams. */
static CUresult alloc_again(
	struct pool *pool, uint64_t size, struct stream *stream, struct piece **ret_piece)
{
	struct device *device = device_for(pool, stream);
	bool is_waiting;

	*ret_piece = stream ? pool_take_pending(pool, size, stream) : NULL;
	if (*ret_piece)
		return CUDA_SUCCESS;
	is_waiting = device_has_pending(device);
	if (is_waiting) {
		CUresult result = wait_for_pending(device, stream);

		if (result != CUDA_SUCCESS)
			return result;
	}
	*ret_piece = pool_take(pool, size, stream);
	if (*ret_piece)
		return CUDA_SUCCESS;
	/* After the wait, stream_waited() may have released the memory already. */
	if (!pools_trim_device(device) && !is_waiting)
		return CUDA_ERROR_OUT_OF_MEMORY;
	return pool_grow(pool, ALIGN_UP(size, device->granularity), size, stream, ret_piece);
}

CUresult pool_alloc(
	struct pool *pool, uint64_t size, struct stream *stream, struct piece **ret_piece)
{
	const struct device *device = device_for(pool, stream);
	uint64_t least, best;
	CUresult result;

	if (size > (pool->memory == POOL_OF_DEVICE ? device->heap_size : WIRE_HOST_MAX))
		return CUDA_ERROR_OUT_OF_MEMORY;
	*ret_piece = pool_take(pool, size, stream);
	if (*ret_piece)
		return CUDA_SUCCESS;
	least = ALIGN_UP(size, device->granularity);
	best = pool->kind == POOL_PLAIN ? least : MAX(least, MIN(pool->heap.size, BLOCK_MAX));
	result = pool_grow(pool, best, size, stream, ret_piece);
	if (result == CUDA_ERROR_OUT_OF_MEMORY && least < best)
		result = pool_grow(pool, least, size, stream, ret_piece);
	if (result == CUDA_ERROR_OUT_OF_MEMORY)
		result = alloc_again(pool, size, stream, ret_piece);
	return result;
}

void pool_free(struct pool *pool, struct piece *piece, struct stream *stream)
{
	uint64_t seqno = 0;

	if (stream)
		timeline_cover(stream, &seqno);
	pool_free_at(pool, piece, stream, seqno);
}

void pool_free_at(struct pool *pool, struct piece *piece, struct stream *stream, uint64_t seqno)
{
	lock_hold(&pool_lock);
	pool->used -= piece->counted;
	heap_give(&pool->heap, piece, stream, seqno);
	if (!stream && pool_keeps_nothing(pool)) {
		trim_to_threshold(pool);
		pool_free_destroyed(pool);
	} else if (pool_keeps_nothing(pool)) {
		atomic_store_explicit(&pools_pending, 1, memory_order_release);
		callback_expect_ends();
	} else if (pool->heap.size > pool->threshold) {
		atomic_store_explicit(&pools_pending, 1, memory_order_release);
	}
}

void pool_trim(struct pool *pool, uint64_t size_kept)
{
	lock_hold(&pool_lock);
	heap_reclaim(&pool->heap);
	(void)trim_locked(pool, size_kept);
}

void pools_reclaim(void)
{
	bool is_pending = false;

	lock_hold(&pool_lock);
	for (struct pool *pool = pools, *next; pool; pool = next) {
		next = pool->next;
		heap_reclaim(&pool->heap);
		trim_to_threshold(pool);
		is_pending |= heap_next_pending(&pool->heap, NULL) != NULL ||
			      (pool->is_destroyed && pool->heap.size > 0);
		pool_free_destroyed(pool);
	}
	atomic_store_explicit(&pools_pending, is_pending, memory_order_release);
}

bool pools_free_ended(void)
{
	bool is_waiting = false;

	if (!lock_try(&pool_lock))
		return true;
	for (struct pool *pool = pools, *next; pool; pool = next) {
		next = pool->next;
		if (!pool_keeps_nothing(pool))
			continue;
		pool_reclaim(pool);
		trim_to_threshold(pool);
		is_waiting |= heap_next_pending(&pool->heap, NULL) != NULL;
		pool_free_destroyed(pool);
	}
	lock_release(&pool_lock);
	return is_waiting;
}

void pool_get_size(struct pool *pool, struct pool_size *ret_size)
{
	lock_hold(&pool_lock);
	*ret_size =
		(struct pool_size){pool->heap.size, pool->size_high, pool->used, pool->used_high};
}

void pool_reset_high(struct pool *pool, bool of_used)
{
	lock_hold(&pool_lock);
	if (of_used)
		pool->used_high = pool->used;
	else
		pool->size_high = pool->heap.size;
}

void pool_set_threshold(struct pool *pool, uint64_t threshold)
{
	lock_hold(&pool_lock);
	pool->threshold = threshold;
	if (pool->heap.size > threshold)
		atomic_store_explicit(&pools_pending, 1, memory_order_release);
}

uint64_t pools_kept(const struct device *device)
{
	const struct pool *pool = atomic_load_explicit(&plain[device->index], memory_order_acquire);
	uint64_t kept = 0;

	lock_hold(&pool_lock);
	if (pool)
		kept = pool->heap.empty_bytes;
	return kept;
}
