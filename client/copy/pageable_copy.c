/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Copies of pageable memory through the staging memory. Any thread of the
 * application.
 *
 * Invariant: a piece is returned only after the stream has passed its copy.
 */

#include "pageable_copy.h"

#include <stdatomic.h>
#include <string.h>

#include "client/util/uncached_copy.h"
#include "client/util/worker_pool.h"
#include "client/transport/server_link.h"
#include "client/stream/staging.h"
#include "client/stream/timeline.h"
#include "send_copy.h"

/* Pieces in flight in one copy from the device: the host empties one while the GPU fills others. */
#define IN_FLIGHT_MAX 4

/* The share of the copy that a thread takes at a time. */
#define SHARE_MIN (256u << 10)
#define SHARE_MAX STAGING_PIECE_MAX
#define SHARES (4ull * (WORKER_POOL_MAX + 1))

/*
 * With two helpers the p99 latency of neighbours' launches is 1.6 times that on a quiet machine,
 * with seven 2.4 times (measured).
 */
#define HELPERS_BESIDE_OTHERS 2u

struct in_flight {
	struct staging_piece piece;
	uint64_t seqno;
};

/*
 * A large piece bypasses the caches, which hold the program's memory rather than the staging
 * memory: uploads of 19 MB of eight clients are 1.3 times as fast (measured).
 */
static void copy_piece(void *dst, const void *src, uint32_t size)
{
	if (size >= SHARE_MIN)
		uncached_copy(dst, src, size);
	else
		memcpy(dst, src, size);
}

static CUresult copy_in(struct stream *stream, uint64_t dst, const uint8_t *src, uint64_t size)
{
	while (size > 0) {
		struct staging_piece piece;
		CUresult result = staging_take(size, &piece);

		if (result != CUDA_SUCCESS)
			return result;
		copy_piece(staging_bytes(&piece), src, piece.size);
		result = send_copy_in(stream_id(stream), dst, piece.offset, piece.size);
		if (result != CUDA_SUCCESS) {
			staging_give(&piece);
			return result;
		}
		staging_give_later(&piece, stream);
		dst += piece.size;
		src += piece.size;
		size -= piece.size;
	}
	return CUDA_SUCCESS;
}

/* Posts the copy of the next piece from the device. */
static CUresult copy_out_begin(struct stream *stream, uint64_t src, struct in_flight *ret_begun)
{
	const struct staging_piece *piece = &ret_begun->piece;
	CUresult result = send_copy_out(stream_id(stream), src, piece->offset, piece->size);

	if (result != CUDA_SUCCESS) {
		staging_give(piece);
		return result;
	}
	stream_issued(stream);
	result = timeline_post(stream, &ret_begun->seqno);
	if (result != CUDA_SUCCESS)
		staging_give_later(piece, stream);
	return result;
}

static CUresult copy_out_end(struct stream *stream, uint8_t *dst, const struct in_flight *begun)
{
	CUresult result = begun->piece.size >= SHARE_MIN
				  ? timeline_wait_polling(stream, begun->seqno)
				  : timeline_wait(stream, begun->seqno);

	if (result != CUDA_SUCCESS) {
		staging_give_later(&begun->piece, stream);
		return result;
	}
	copy_piece(dst, staging_bytes(&begun->piece), begun->piece.size);
	staging_give(&begun->piece);
	return CUDA_SUCCESS;
}

static CUresult copy_out(struct stream *stream, uint8_t *dst, uint64_t src, uint64_t size)
{
	struct in_flight queue[IN_FLIGHT_MAX];
	unsigned n_begun = 0, n_ended = 0;
	CUresult result = CUDA_SUCCESS;

	while (size > 0 || n_begun > n_ended) {
		struct in_flight *next = &queue[n_begun % IN_FLIGHT_MAX];
		bool can_begin = false;

		if (size > 0 && n_begun == n_ended) {
			result = staging_take(size, &next->piece);
			can_begin = result == CUDA_SUCCESS;
		} else if (size > 0 && n_begun - n_ended < IN_FLIGHT_MAX)
			can_begin = staging_try(size, &next->piece);
		if (can_begin) {
			result = copy_out_begin(stream, src, next);
			src += next->piece.size;
			size -= next->piece.size;
			n_begun += result == CUDA_SUCCESS;
		} else if (result == CUDA_SUCCESS) {
			const struct in_flight *oldest = &queue[n_ended++ % IN_FLIGHT_MAX];

			result = copy_out_end(stream, dst, oldest);
			dst += oldest->piece.size;
		}
		if (result != CUDA_SUCCESS)
			break;
	}
	for (; n_ended < n_begun; n_ended++)
		staging_give_later(&queue[n_ended % IN_FLIGHT_MAX].piece, stream);
	return result;
}

/* A large copy, of which several threads take shares until it is complete. */
struct pageable_copy {
	struct stream *stream;
	uint64_t device;
	uint8_t *host;
	uint64_t size;
	uint64_t share;
	bool is_in;
	_Atomic uint32_t n_threads; /* those that have taken part, also those that have left */
	_Atomic uint64_t next;      /* the first byte that no thread has taken */
	_Atomic uint32_t result;    /* the first error, or CUDA_SUCCESS */
};

/*
 * How many helpers a copy may have now. All clients share the bus, the memory and the driver's
 * locks, and each has two threads that need a processor: its own and the server's. The helper of
 * one of eight clients on 16 processors makes copies from the GPU twice as fast (measured).
 */
static unsigned helpers_now(void)
{
	unsigned n_clients = server_link_clients_at_work(&server);
	unsigned share = worker_pool_processors() / (2 * n_clients);

	if (server.is_without_helpers)
		return 0;
	return n_clients == 1 ? WORKER_POOL_MAX : MIN(share, HELPERS_BESIDE_OTHERS);
}

/* A helper leaves if other clients have begun to work meanwhile. The first thread stays. */
static void pageable_copy_work(void *arg)
{
	struct pageable_copy *copy = arg;
	uint32_t none = CUDA_SUCCESS;
	uint32_t number = atomic_fetch_add_explicit(&copy->n_threads, 1, memory_order_relaxed);

	while (atomic_load_explicit(&copy->result, memory_order_relaxed) == CUDA_SUCCESS &&
		number <= helpers_now()) {
		uint64_t at =
			atomic_fetch_add_explicit(&copy->next, copy->share, memory_order_relaxed);
		uint64_t size = at < copy->size ? MIN(copy->size - at, copy->share) : 0;
		CUresult result;

		if (size == 0)
			return;
		result = copy->is_in
				 ? copy_in(copy->stream, copy->device + at, copy->host + at, size)
				 : copy_out(copy->stream, copy->host + at, copy->device + at, size);
		if (result != CUDA_SUCCESS)
			atomic_compare_exchange_strong_explicit(&copy->result, &none,
				(uint32_t)result, memory_order_relaxed, memory_order_relaxed);
	}
}

CUresult pageable_copy(
	struct stream *stream, uint64_t device, uint8_t *host, uint64_t size, bool is_in)
{
	struct pageable_copy copy = {
		.stream = stream, .device = device, .host = host, .size = size, .is_in = is_in};

	if (size < PAGEABLE_COPY_SHARED_MIN)
		return is_in ? copy_in(stream, device, host, size)
			     : copy_out(stream, host, device, size);
	/* Several shares for each thread, so that the threads end together. */
	copy.share = MAX(MIN(size / SHARES, SHARE_MAX), SHARE_MIN) & ~(SHARE_MIN - 1ull);
	worker_pool_run(
		pageable_copy_work, &copy, (unsigned)MIN((size - 1) / copy.share, helpers_now()));
	return (CUresult)copy.result;
}
