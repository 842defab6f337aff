/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STAGING_H
#define STAGING_H

/*
 * Pieces of the staging memory, which hold bytes on their way between the program
 * and the GPU. A piece becomes free when the stream that used it has passed a seqno
 * posted after the copy. Any thread.
 */

#include "stream.h"

/* The size of the largest piece. Longer copies take several pieces, each with two driver calls. */
#define STAGING_PIECE_MAX (2u << 20)

struct staging_piece {
	uint32_t offset; /* in the staging memory */
	uint32_t size;
};

/*
 * Takes a piece of at most `size' bytes, and waits until one is free. Returns the
 * result of server_link_check() if that will never happen. A thread that holds a
 * piece must not wait for another one: it uses staging_try().
 */
CUresult staging_take(uint64_t size, struct staging_piece *ret_piece);

/* Does not wait; false: no piece is free. */
bool staging_try(uint64_t size, struct staging_piece *ret_piece);

/* The bytes of a piece, to fill or to read. */
void *staging_bytes(const struct staging_piece *piece);

/* Returns a piece after the stream has passed the work that was posted before. */
void staging_give_later(const struct staging_piece *piece, struct stream *stream);

/* Returns a piece at once: the GPU does not use it. */
void staging_give(const struct staging_piece *piece);

#endif
