/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TIMELINE_H
#define TIMELINE_H

/*
 * How far the GPU has come on a stream. Seqnos are numbers that the GPU writes
 * into the server's page in the stream's order; to know that something is done
 * is to have seen a seqno that was posted after it. Any thread.
 */

#include "stream.h"

/* The newest seqno, posting one if there is anything after the last. */
CUresult timeline_post(struct stream *stream, uint64_t *ret_seqno);

/*
 * Notes that something was posted which `ret_seqno' will cover once
 * timeline_post() has been called again.
 */
void timeline_note(struct stream *stream, uint64_t *ret_seqno);

/* The seqno that covers what was posted so far, once timeline_post() has been called again. */
void timeline_cover(struct stream *stream, uint64_t *ret_seqno);

/*
 * Records the event of that number and posts a seqno right behind it, which is
 * then the newest of the stream.
 */
CUresult timeline_record(struct stream *stream, uint32_t event, uint64_t *ret_seqno);

bool timeline_reached(const struct stream *stream, uint64_t seqno);

/* The same, looking for as long as a waiter spins. */
bool timeline_reached_soon(const struct stream *stream, uint64_t seqno);

/*
 * Before a wait for a seqno that stands behind a copy over the bus: sleeps for as
 * long as that must take and looks for half as long, so that who waits for a
 * large copy is not woken late. It need not have been reached then.
 */
void timeline_expect_copy(const struct stream *stream, uint64_t seqno, uint64_t size);

/*
 * timeline_wait() where many waits follow one another and none is long: looks
 * again and again between sleeps, so that neither the server nor the GPU has to
 * wake us. An interrupt for each piece of a copy holds up neighbours.
 */
CUresult timeline_wait_polling(struct stream *stream, uint64_t seqno);

/* Waits for a posted seqno. Returns what server_link_check() says if it will never come. */
CUresult timeline_wait(struct stream *stream, uint64_t seqno);

#endif
