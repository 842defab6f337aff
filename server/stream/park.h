/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PARK_H
#define PARK_H

/*
 * Streams parked for a host function: what comes for them waits in the worker,
 * and the GPU waits for nothing. So a client that is stopped in one, or never
 * comes back from it, costs nobody anything. The session's worker only.
 *
 * But behind a parked stream wait all messages of its client, and a thread that
 * waits for the answer to one may have the lock that the function wants. CUDA
 * forbids it to call CUDA, not to take locks. So after a while, and while
 * somebody waits, the stream is given to the GPU after all, with a wait for the
 * function's end as any other (see blocked_streams.h).
 */

#include <stdbool.h>

struct session;
struct stream;

/* Whether the stream is parked no more, looked at now. */
bool park_is_over(const struct session *session, struct stream *stream);

/* Until it is, or the session ends, or all is lost, or the GPU waits for it, if that may be. */
void park_wait(struct session *session, struct stream *stream, bool may_block);

#endif
