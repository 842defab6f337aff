/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TIMELINE_H
#define TIMELINE_H

/*
 * How far the GPU has come on a stream. Marks are numbers that the GPU writes
 * into the server's page in the stream's order; to know that something is done
 * is to have seen a mark that was posted after it. Any thread.
 */

#include "stream.h"

/* The newest mark, posting one if there is anything after the last. */
CUresult timeline_mark(struct stream *stream, uint64_t *ret_mark);

/*
 * Notes that something was posted which `ret_mark' will cover once
 * timeline_mark() has been called again.
 */
void timeline_note(struct stream *stream, uint64_t *ret_mark);

/* The mark that covers what was posted so far, once timeline_mark() has been called again. */
void timeline_cover(struct stream *stream, uint64_t *ret_mark);

/*
 * Records the event of that number and posts a mark right behind it, which is
 * then the newest of the stream.
 */
CUresult timeline_record(struct stream *stream, uint32_t event, uint64_t *ret_mark);

bool timeline_reached(const struct stream *stream, uint64_t mark);

/* The same, looking for as long as a waiter spins. */
bool timeline_reached_soon(const struct stream *stream, uint64_t mark);

/*
 * Before a wait for a mark that stands behind a copy over the bus: sleeps for as
 * long as that must take and looks for half as long, so that who waits for a
 * large copy is not woken late. It need not have been reached then.
 */
void timeline_expect_copy(const struct stream *stream, uint64_t mark, uint64_t size);

/*
 * timeline_wait() where many waits follow one another and none is long: looks
 * again and again between naps, so that neither the server nor the GPU has to
 * wake us. An interrupt for each piece of a copy holds up neighbours.
 */
CUresult timeline_wait_napping(struct stream *stream, uint64_t mark);

/* Waits for a posted mark. Returns what server_link_check() says if it will never come. */
CUresult timeline_wait(struct stream *stream, uint64_t mark);

#endif
