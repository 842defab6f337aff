/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOVER_H
#define MOVER_H

/*
 * A mover copies chunks of a session between a GPU and the store, on streams of the server's own.
 * Work of the session does not use them meanwhile. Copies go in batches: while the bytes of one
 * batch are on their way, those of the next one are queued, and no more. A chunk that leaves is
 * given back at the end of the batch with its last byte.
 *
 * The session's worker only.
 */

#include "host_store.h"

struct session;
struct session_device;

/* A chunk that leaves. */
struct moved {
	/* Its bytes are in the store, or (`result' says why) not. */
	void (*done)(void *owner, void *chunk, CUresult result);
	void *owner, *chunk;
	uint64_t size;
};

#define MOVER_BATCH 64u

struct mover {
	struct session *session;
	struct session_device *sdev;
	int32_t priority;
	CUstream stream[2];
	unsigned at; /* the batch that is filled; the other one is on its way */
	struct {
		struct moved of[MOVER_BATCH];
		unsigned n;
		uint64_t bytes;  /* on the stream */
		CUresult result; /* of the first copy that the driver refused */
	} batch[2];
	CUresult in_result; /* of the first copy to the GPU that the driver refused */
};

/* Takes the streams; the GPU is entered. On failure nothing has to be ended. */
CUresult mover_begin(struct mover *mover, struct session *session, struct session_device *sdev);

/* The chunk's bytes go to `stored'. Calls done() for chunks of earlier batches. */
void mover_out(struct mover *mover, const struct moved *chunk, uint64_t address,
	const struct stored *stored);

/* The chunk's bytes come from `stored', until mover_wait(). */
CUresult mover_in(
	struct mover *mover, uint64_t address, uint64_t size, const struct stored *stored);

/* Bytes of the server go to the GPU; they stay until mover_wait(). */
CUresult mover_write(struct mover *mover, uint64_t address, const void *bytes, uint64_t size);

/*
 * A few bytes of the GPU come to the server's own memory. The driver waits for them: for a session
 * that is at rest.
 */
CUresult mover_read(struct mover *mover, uint64_t address, void *bytes, uint64_t size);

/* From other memory of the GPU, until mover_wait(). */
CUresult mover_copy(struct mover *mover, uint64_t address, uint64_t from, uint64_t size);

/*
 * Waits for all copies, and calls done() for the chunks that left. A fault ends the wait. The
 * result is that of a copy that was refused, in either direction.
 */
CUresult mover_wait(struct mover *mover);

/* Waits, and gives the streams back. */
CUresult mover_end(struct mover *mover);

#endif
