/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STAGING_H
#define STAGING_H

/*
 * Pieces of the staging memory: bytes on their way between the program and the
 * GPU. A piece is free again once the stream that used it has passed a seqno
 * posted after the copy. Any thread.
 */

#include "stream.h"

/* What the largest piece holds; longer copies take several, each of which is two driver calls. */
#define STAGING_PIECE_MAX (2u << 20)

struct staging_piece {
	uint32_t offset; /* in the staging memory */
	uint32_t size;
};

/*
 * Takes a piece of at most `size' bytes, waiting for one to be free. What
 * server_link_check() says if none ever will be. Who holds a piece already must not
 * wait for another: staging_try().
 */
CUresult staging_take(uint64_t size, struct staging_piece *ret_piece);

/* The same without waiting; false: none is free. */
bool staging_try(uint64_t size, struct staging_piece *ret_piece);

/* Its bytes, to fill or to read. */
void *staging_bytes(const struct staging_piece *piece);

/* Gives a piece back once the stream has passed what was posted before. */
void staging_give_later(const struct staging_piece *piece, struct stream *stream);

/* Gives it back at once: nothing on the GPU uses it. */
void staging_give(const struct staging_piece *piece);

#endif
