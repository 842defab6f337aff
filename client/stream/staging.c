/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The staging memory in blocks. Any thread of the application.
 *
 * Invariant: a block that is taken belongs to the piece that starts at or before
 * it. pieces[first] says which seqno frees the piece, or that a thread uses it.
 */

#include "staging.h"

#include <string.h>

#include "lock.h"
#include "timeline.h"
#include "client/util/sleep.h"
#include "client/transport/call.h"
#include "client/transport/server_link.h"

#define PIECE_SLEEP_NS 50000u
#define BLOCK 4096u
#define BLOCKS (STAGING_SIZE / BLOCK)
#define SMALL_BLOCKS (STAGING_SMALL / BLOCK)
/* The largest piece in the small part. */
#define SMALL_MAX (SMALL_BLOCKS / 4)

_Static_assert(STAGING_SMALL % BLOCK == 0 && STAGING_LARGE % BLOCK == 0, "whole blocks");
_Static_assert(STAGING_PIECE_MAX <= STAGING_LARGE / 4, "several pieces at once");

struct piece_state {
	struct stream *stream; /* NULL: the thread that took it fills or reads it */
	uint64_t seqno;
	uint32_t n_blocks; /* 0: no piece starts here */
};

static struct lock lock = LOCK_INIT(STAGING);
static bool is_taken[BLOCKS];
static struct piece_state pieces[BLOCKS];

/* A part of the staging memory, in blocks: [begin, end). No piece crosses its border. */
struct part {
	unsigned begin, end;
	unsigned next; /* where the last search ended */
};

static struct part small = {0, SMALL_BLOCKS, 0};
static struct part large = {SMALL_BLOCKS, BLOCKS, SMALL_BLOCKS};

static void free_piece(unsigned first)
{
	memset(is_taken + first, 0, pieces[first].n_blocks);
	pieces[first] = (struct piece_state){0};
}

/* Finds `n' free blocks in a row, starting where the last search ended; BLOCKS: not found. */
static unsigned find_run(const struct part *part, unsigned n)
{
	unsigned run = 0, at = part->next;

	for (unsigned seen = 0; seen < part->end - part->begin + n; seen++, at++) {
		if (at == part->end) {
			at = part->begin;
			run = 0;
		}
		run = is_taken[at] ? 0 : run + 1;
		if (run == n)
			return at + 1 - n;
	}
	return BLOCKS;
}

static void reclaim_pieces(const struct part *part)
{
	for (unsigned i = part->begin; i < part->end; i += MAX(pieces[i].n_blocks, 1u))
		if (pieces[i].stream && timeline_reached(pieces[i].stream, pieces[i].seqno))
			free_piece(i);
}

/* A stream whose work still uses a piece of the large part. NULL: threads use all of them. */
static struct stream *busy_stream(uint64_t *ret_seqno)
{
	const unsigned n = large.end - large.begin;

	for (unsigned k = 0; k < n; k++) {
		/* The next piece in order is among the oldest. */
		unsigned at = large.begin + (large.next - large.begin + k) % n;
		const struct piece_state *piece = &pieces[at];

		if (piece->stream) {
			*ret_seqno = piece->seqno;
			return piece->stream;
		}
	}
	return NULL;
}

static bool take_run(struct part *part, unsigned n, struct staging_piece *ret_piece)
{
	unsigned first = find_run(part, n);

	if (first == BLOCKS) {
		reclaim_pieces(part);
		first = find_run(part, n);
	}
	if (first == BLOCKS)
		return false;
	memset(is_taken + first, true, n);
	pieces[first] = (struct piece_state){.n_blocks = n};
	part->next = first + n < part->end ? first + n : part->begin;
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
	uint32_t n = (wanted + BLOCK - 1) / BLOCK;
	bool is_taken_now;

	lock_hold(&lock);
	is_taken_now = (n <= SMALL_MAX && take_run(&small, n, ret_piece)) ||
		       take_run(&large, n, ret_piece);
	if (is_taken_now)
		ret_piece->size = wanted;
	else
		*ret_stream = busy_stream(ret_seqno);
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
	lock_hold(&lock);
	state->stream = stream;
	state->seqno = seqno;
}

void staging_give(const struct staging_piece *piece)
{
	unsigned first = piece->offset / BLOCK, end;
	struct part *part = first < SMALL_BLOCKS ? &small : &large;

	lock_hold(&lock);
	end = first + pieces[first].n_blocks;
	/* Reuse this memory next: it is probably in the caches. */
	if (part->next == (end < part->end ? end : part->begin))
		part->next = first;
	free_piece(first);
}
