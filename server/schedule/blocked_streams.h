/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BLOCKED_STREAMS_H
#define BLOCKED_STREAMS_H

/*
 * A blocked stream waits on the GPU until its client writes a semaphore. Blocked
 * streams are rationed, and kept apart from calls that wait for everything.
 *
 * A context has 32 hardware queues. A queue in which a stream is blocked delays all
 * work that the driver puts there, of whichever client. The driver chooses a free queue
 * for kernels, copies and batches of kernels of a stream at rest; writes, waits and
 * small fills go to the queue that the stream had last. Measured on an H200, driver 580,
 * with 96 streams: beside one blocked stream, writes of 7 of the other 95 are delayed;
 * behind a copy of a few bytes none is delayed until 20 streams are blocked, and no kernel or
 * copy either; when 32 are blocked, nothing runs any more. Work that follows a copy to the
 * host goes to the queues of such copies, of which there are fewer: right for a write, but
 * a wait there delays copies of other streams at once.
 *
 * Therefore no more than 8 streams are blocked at a time. While any is, work for which the
 * driver would not choose a queue goes behind such a copy. A stream that has to wait for its
 * turn to be blocked delays only its own client.
 *
 * Some driver calls wait for all that is on the GPU, with the driver's lock held: loading and
 * unloading code, unpinning memory, raising the stack, the first launch of a kernel with more
 * local memory than any before, the first change of an attribute of a kernel, making green
 * contexts, ending arrays and, sometimes, graphs. Beside a blocked stream no client could
 * write the semaphore that the stream waits for. So such calls are exclusive: they are made while
 * no stream is blocked. Most of them are quiet calls as well (quiet.h). The same holds for streams
 * and graphs for which the driver may have no space (channel_budget.h).
 *
 * A queue takes 1 020 calls. When it is full the next call waits, again with the driver's lock
 * held. So while any stream is blocked, no stream gets far ahead of the GPU.
 *
 * Any worker, for the session it serves.
 */

#include <stdatomic.h>
#include <stdint.h>

#include "server/driver/driver.h"
#include "server/driver/session_stream.h"

struct device;
struct session;

extern atomic_uint blocked_n;

/* Whether any stream may be blocked now; that may change at any time. */
static inline bool blocked_any(void)
{
	return atomic_load_explicit(&blocked_n, memory_order_relaxed) > 0;
}

/*
 * Before the stream waits: sleeps until it may. It counts as blocked until
 * the GPU has written `serial' to its page->passed. False: the session ends, or
 * the device is lost. The wait is put on the stream between blocked_place() and
 * blocked_placed(), which delay all other threads that want to do so: do not sleep between
 * the two calls.
 */
bool blocked_begin(struct session *session, struct stream *stream, uint64_t serial);
void blocked_place(const struct stream *stream, bool is_new);
void blocked_placed(void);

/*
 * Whether a stream of that number is blocked, as far as the server knows. A stream that waits for
 * it, or for what was recorded on it, is blocked as well.
 */
bool blocked_contains(const struct session *session, uint32_t stream);

/*
 * Around a driver call that waits for everything. False: do not make the call, because
 * the session ends while a stream of its own is blocked, the device is lost, or the turn of the
 * call has not come in `most_ms' (0: no limit). NULL: the call is for no session.
 */
bool exclusive_call_begin(struct session *session, unsigned most_ms);
void exclusive_call_end(void);

/*
 * How many calls a stream may have in its queue, which it may share with other streams, since it
 * was last seen at rest: while any stream is blocked, and, for a stream of a session that is
 * blocked itself, as many as a program may expect; less than n_queue_calls of every driver, so the
 * queue of a stream is never full (driver_facts.h).
 */
#define BLOCKED_BESIDE_MAX 64u
#define BLOCKED_BEHIND_MAX 700u

/*
 * A stream that has more calls waits until it is at rest, no stream is blocked any more, or the
 * session ends. The second number holds for a session that is blocked itself.
 */
void blocked_drain(struct session *session, struct stream *stream);

/* Before a call that goes to the stream's queue. */
static inline void blocked_count_call(struct session *session, struct stream *stream)
{
	if (unlikely(blocked_any()) && ++stream->n_beside > BLOCKED_BESIDE_MAX)
		blocked_drain(session, stream);
}

/* From now on the stream counts as not blocked, whether or not it is. */
void blocked_forget(const struct session *session, const struct stream *stream);

/* The session's streams wait for nothing any more. */
void blocked_forget_all(const struct session *session);

/* Whether streams of the session may be blocked now. */
bool blocked_has(const struct session *session);

/*
 * Before a write, or before a wait or other work: makes the driver choose a queue
 * for the stream, unless the stream is blocked itself. The context of its GPU is current.
 */
void blocked_evade_write(struct session *session, const struct stream *stream);
void blocked_evade(const struct session *session, const struct stream *stream);

/* The same before a write on a stream of the server's own. */
void blocked_evade_real(struct session *session, const struct device *device, CUstream real);

#endif
