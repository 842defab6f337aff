/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STREAM_H
#define STREAM_H

/*
 * Streams of a session. The real ones are all CU_STREAM_NON_BLOCKING and made
 * at the first work, so that no neighbour's default stream holds them up; what
 * legacy default-stream rules a client expects are rebuilt with events.
 *
 * The session's worker only.
 */

#include "server/driver/session_stream.h"

struct session;
struct session_room;

/*
 * Before work: makes the stream's GPU current and the real stream, and orders
 * it behind what it has to wait for.
 */
CUresult stream_begin(struct session *session, struct stream *stream, CUstream *ret_real);

/* The same before what the driver looks for no queue for: see blocked_streams.h. */
CUresult stream_begin_light(struct session *session, struct stream *stream, CUstream *ret_real);

/* Before a mark or an event: the same, but nobody need wait for it. */
CUresult stream_begin_seqno(struct session *session, struct stream *stream, CUstream *ret_real);

/*
 * Makes the begun stream wait for an event, which may be behind something that
 * is blocked (blocked_streams.h): it is one that does, until it has passed.
 */
CUresult stream_wait_event(
	struct session *session, struct stream *stream, CUevent event, bool may_block);

/* Whether nothing was put on it since it was last seen idle, nor has to be waited for. */
bool stream_is_idle(const struct session *session, const struct stream *stream);

/*
 * Looks which streams have come to rest, and frees those that were destroyed.
 * Whether the session has no work on any GPU.
 */
bool streams_poll(struct session *session);

/* Whether a GPU has something to do for the session: for a parked stream it has not. */
bool streams_are_at_work(const struct session *session);

/* Waits for all work of the session. CUDA_SUCCESS or the fault that ended it. */
CUresult streams_wait(struct session *session);

/* What is done for each session: see session_room.h. */
extern const struct session_room streams_room;

#endif
