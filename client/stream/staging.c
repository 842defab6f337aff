/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The staging memory in blocks. Any thread of the application.
 *
 * Invariant: a block that is taken belongs to the piece that starts at or before
 * it. pieces[first] says which seqno frees the piece, or that a thread uses it.
 */

#include <pthread.h>
#include <string.h>

#include "client/transport/call.h"
#include "client/transport/server_link.h"
#include "client/util/sleep.h"
#include "staging.h"
#include "timeline.h"

#define PIECE_SLEEP_NS 50000u
#define BLOCK 4096u
#define BLOCKS (STAGING_SIZE / BLOCK)

_Static_assert(STAGING_SIZE % BLOCK == 0, "whole blocks");
_Static_assert(STAGING_PIECE_MAX <= STAGING_SIZE / 4, "several pieces at once");

struct piece_state {
	struct stream *stream; /* NULL: the thread that took it fills or reads it */
	uint64_t seqno;
	uint32_t n_blocks; /* 0: no piece starts here */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool is_taken[BLOCKS];
static struct piece_state pieces[BLOCKS];
static unsigned next_block;

static void free_piece(unsigned first)
{
	memset(is_taken + first, 0, pieces[first].n_blocks);
	pieces[first] = (struct piece_state){0};
}

/* Finds `n' free blocks in a row, starting where the last search ended; BLOCKS: not found. */
static unsigned find_run(unsigned n)
{
	unsigned run = 0, at = next_block;

	for (unsigned seen = 0; seen < BLOCKS + n; seen++, at++) {
		if (at == BLOCKS)
			at = run = 0;
		run = is_taken[at] ? 0 : run + 1;
		if (run == n)
			return at + 1 - n;
	}
	return BLOCKS;
}

static void reclaim_pieces(void)
{
	for (unsigned i = 0; i < BLOCKS; i += MAX(pieces[i].n_blocks, 1u))
		if (pieces[i].stream && timeline_reached(pieces[i].stream, pieces[i].seqno))
			free_piece(i);
}

/* A stream whose work still uses a piece, to wait for. NULL: threads use all pieces. */
static struct stream *busy_stream(uint64_t *ret_seqno)
{
	for (unsigned k = 0; k < BLOCKS; k++) {
		/* The next piece in order is among the oldest. */
		const struct piece_state *piece = &pieces[(next_block + k) % BLOCKS];

		if (piece->stream) {
			*ret_seqno = piece->seqno;
			return piece->stream;
		}
	}
	return NULL;
}

static bool take_run(unsigned n, struct staging_piece *ret_piece)
{
	unsigned first = find_run(n);

	if (first == BLOCKS) {
		reclaim_pieces();
		first = find_run(n);
	}
	if (first == BLOCKS)
		return false;
	memset(is_taken + first, true, n);
	pieces[first] = (struct piece_state){.n_blocks = n};
	next_block = (first + n) % BLOCKS;
	ret_piece->offset = first * BLOCK;
	return true;
}

/* Waits until another piece is likely to be free. */
static CUresult wait_for_piece(struct stream *stream, uint64_t seqno)
{
	uint64_t posted;
	CUresult result = server_link_check(&server);

	if (result != CUDA_SUCCESS)
		return result;
	if (!stream) {
		sleep_ns(PIECE_SLEEP_NS);
		return CUDA_SUCCESS;
	}
	/* The seqno that frees the piece may not have been posted yet. */
	result = timeline_post(stream, &posted);
	return result == CUDA_SUCCESS ? timeline_wait_polling(stream, MIN(seqno, posted)) : result;
}

/* Takes a piece; if none is free, returns the stream and seqno to wait for. */
static bool staging_take_or_busy(uint64_t size, struct staging_piece *ret_piece,
	struct stream **ret_stream, uint64_t *ret_seqno)
{
	uint32_t wanted = (uint32_t)MIN(size, STAGING_PIECE_MAX);
	bool is_taken_now;

	pthread_mutex_lock(&lock);
	is_taken_now = take_run((wanted + BLOCK - 1) / BLOCK, ret_piece);
	if (is_taken_now)
		ret_piece->size = wanted;
	else
		*ret_stream = busy_stream(ret_seqno);
	pthread_mutex_unlock(&lock);
	return is_taken_now;
}

bool staging_try(uint64_t size, struct staging_piece *ret_piece)
{
	struct stream *stream;
	uint64_t seqno;

	return staging_take_or_busy(size, ret_piece, &stream, &seqno);
}

CUresult staging_take(uint64_t size, struct staging_piece *ret_piece)
{
	CUresult result = CUDA_SUCCESS;
	struct stream *stream = NULL;
	uint64_t seqno = 0;

	while (result == CUDA_SUCCESS && !staging_take_or_busy(size, ret_piece, &stream, &seqno))
		result = wait_for_piece(stream, seqno);
	return result;
}

void *staging_bytes(const struct staging_piece *piece)
{
	return shm_raw(server.staging + piece->offset);
}

void staging_give_later(const struct staging_piece *piece, struct stream *stream)
{
	struct piece_state *state = &pieces[piece->offset / BLOCK];
	uint64_t seqno;

	timeline_note(stream, &seqno);
	pthread_mutex_lock(&lock);
	state->stream = stream;
	state->seqno = seqno;
	pthread_mutex_unlock(&lock);
}

void staging_give(const struct staging_piece *piece)
{
	unsigned first = piece->offset / BLOCK;

	pthread_mutex_lock(&lock);
	/* Reuse this memory next: it is probably in the caches. */
	if (next_block == (first + pieces[first].n_blocks) % BLOCKS)
		next_block = first;
	free_piece(first);
	pthread_mutex_unlock(&lock);
}
