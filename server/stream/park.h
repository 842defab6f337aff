/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PARK_H
#define PARK_H

/*
 * Streams parked for a host function: their later work waits in the worker, and the GPU
 * waits for nothing. So a client that is stopped in a host function, or never returns from
 * it, delays only itself.
 *
 * But all messages of the client wait behind a parked stream, and a thread that waits for
 * the answer to one may hold a lock that the function needs. CUDA forbids the function to
 * call CUDA, not to take locks. So after a while, and only if a thread waits, the stream
 * goes to the GPU with a wait for the function's end, like any other wait (see
 * blocked_streams.h).
 *
 * The session's worker only.
 */

#include <stdbool.h>

struct session;
struct stream;

/* Whether the stream is not parked any more; checks it now. */
bool park_is_over(const struct session *session, struct stream *stream);

/*
 * Waits until the stream is not parked, the session ends, the device is lost or, if
 * `may_block', the GPU waits for the function.
 */
void park_wait(struct session *session, struct stream *stream, bool may_block);

#endif
