/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TIMELINE_H
#define TIMELINE_H

/*
 * The progress of the GPU on a stream. The GPU writes seqnos into the server's
 * page, in the stream's order. Work is done when a seqno that was posted after it
 * has been reached. Any thread.
 */

#include "stream.h"

/* The newest seqno; posts one if there is work after the last one. */
CUresult timeline_post(struct stream *stream, uint64_t *ret_seqno);

/* Notes that work was posted. `ret_seqno' will cover it after the next call of timeline_post(). */
void timeline_note(struct stream *stream, uint64_t *ret_seqno);

/* The seqno that will cover the work posted so far, after the next call of timeline_post(). */
void timeline_cover(struct stream *stream, uint64_t *ret_seqno);

/*
 * Records the event of that ID, and posts a seqno right behind it, which is then
 * the stream's newest.
 */
CUresult timeline_record(struct stream *stream, uint32_t event, uint64_t *ret_seqno);

bool timeline_reached(const struct stream *stream, uint64_t seqno);

/* Whether posted work on the stream may not be done. */
bool timeline_is_busy(const struct stream *stream);

/* The same, but spins as long as other waits do. */
bool timeline_reached_soon(const struct stream *stream, uint64_t seqno);

/*
 * Before a wait for a seqno behind a copy over the bus: sleeps for the least time
 * that the copy can take, and spins for half as long, so that the wait for a large
 * copy does not end late. Between the two it wakes the server's worker. The seqno need not
 * have been reached then.
 */
void timeline_expect_copy(const struct stream *stream, uint64_t seqno, uint64_t size);

/*
 * Like timeline_wait(), for many short waits in a row: looks again and again
 * between sleeps, so that neither the server nor the GPU must wake the thread. An
 * interrupt for each piece of a copy would delay other clients.
 */
CUresult timeline_wait_polling(struct stream *stream, uint64_t seqno);

/* Waits for a posted seqno. Returns the result of server_link_check() if it will never come. */
CUresult timeline_wait(struct stream *stream, uint64_t seqno);

/* The same at most until now_ns() is `deadline_ns': then CUDA_ERROR_NOT_READY. */
CUresult timeline_wait_until(struct stream *stream, uint64_t seqno, uint64_t deadline_ns);

#endif
