/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BLOCKED_STREAMS_H
#define BLOCKED_STREAMS_H

/*
 * Streams that stand still until their client writes a word: rationed, and kept
 * apart from what waits for everything.
 *
 * A context has 32 hardware queues, and one where a stream waits for a word is
 * blocked for all that the driver puts there, whoever's it is. The driver looks
 * for a free queue for kernels, copies and trains of kernels of a stream at
 * rest; writes, waits and small fills go where the stream was last. Measured on
 * an H200, driver 580, 96 streams: with one that waits 7 of 95 streams' writes
 * stand still; behind a copy of a few bytes none does until 20 wait, and no
 * kernel or copy either; when 32 wait nothing runs any more. What follows a copy
 * to the host goes where such copies go, of which there are fewer queues: right
 * for a write, but a wait there holds up others' copies at once.
 *
 * So no more than 8 wait at a time, and while any does, what the driver would
 * not look for a queue for goes behind such a copy. Who has to wait for a turn
 * holds up its own client alone.
 *
 * Loading and unloading code, unpinning memory, raising the stack, the first
 * launch of a kernel with more local memory than any before, the first change of an attribute of
 * one, the making of green contexts, the end of arrays and, sometimes, of graphs wait for all that
 * is on the GPU with the driver's lock held: beside a stream that stands still nobody could write
 * the word it waits for. They are made while none stands; so are streams and graphs that the
 * driver may have no room for (room.h).
 *
 * A queue takes 1 020 calls. When it is full the next call waits, again
 * with the driver's lock held; so while any stream stands still, no other, nor
 * itself, gets far ahead of the GPU.
 *
 * Any worker, for the session it serves.
 */

#include <stdatomic.h>
#include <stdint.h>

#include "driver.h"

struct device;
struct session;
struct stream;

extern atomic_uint standing_n;

/* Whether streams may stand still now; a moment later it may be otherwise. */
static inline bool standing_any(void)
{
	return atomic_load_explicit(&standing_n, memory_order_relaxed) > 0;
}

/*
 * Before the stream waits: naps until it may. It is said to stand still until
 * the GPU has written `serial' to its page->passed. False: the session ends, or
 * all is lost. What waits is put on the stream between _place and _placed, which
 * hold up all others that want to do so: nothing that naps comes between.
 */
bool standing_take(struct session *session, struct stream *stream, uint64_t serial);
void standing_place(const struct stream *stream, bool is_new);
void standing_placed(void);

/*
 * Whether a stream of that number stands still, as far as we know; so does who waits for it, or
 * for what was recorded on it.
 */
bool standing_stands(const struct session *session, uint32_t stream);

/*
 * Around a driver call that waits for everything. False: it is not to be made, as
 * the session ends and stands still itself, or all is lost, or its turn has not
 * come in `most_ms' (0: it may take for ever). NULL: no session's.
 */
bool standing_call_begin(struct session *session, unsigned most_ms);
void standing_call_end(void);

/* Such a call: unpins memory that was registered. */
void standing_unpin(struct session *session, void *memory);

/*
 * Calls for a stream since it was last seen at rest, while any stands still; several
 * streams may share a queue. One that stands may have as much behind it as a program
 * may expect.
 */
#define STANDING_BESIDE_MAX 64u
#define STANDING_BEHIND_MAX 700u

/*
 * Beyond the former: until the stream is at rest or none stands still any more. Of a
 * session that stands itself only beyond the latter. Or until the session ends.
 */
void standing_drain(struct session *session, struct stream *stream);

/* It counts as one that does not stand, whether or not it does. */
void standing_forget(const struct session *session, const struct stream *stream);

/* The session's streams wait for nothing any more. */
void standing_forget_all(const struct session *session);

/* Whether streams of the session may stand still now. */
bool standing_has(const struct session *session);

/*
 * Before a write, or before a wait and all else: makes the driver look for a
 * queue for the stream, unless it stands still itself. Its GPU is current.
 */
void standing_evade_write(struct session *session, const struct stream *stream);
void standing_evade(const struct session *session, const struct stream *stream);

/* For a write on a stream that is no client's. */
void standing_evade_real(struct session *session, const struct device *device, CUstream real);

#endif
