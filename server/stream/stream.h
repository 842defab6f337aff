/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STREAM_H
#define STREAM_H

/*
 * Streams of a session. All real streams are CU_STREAM_NON_BLOCKING and made at the first
 * work, so that the default stream of another client does not delay them. The server
 * implements the legacy default-stream rules of each client with events.
 *
 * Calls stream/park.h, pending_wait.h and progress.h, and they call it: a stream that waits for its
 * client has to put that wait, and a seqno, on the GPU like other work.
 *
 * The session's worker only.
 */

#include "server/driver/session_stream.h"

struct session;

/*
 * Before work: makes the stream's GPU current, makes the real stream, and orders it after
 * the work that it has to wait for.
 */
CUresult stream_begin(struct session *session, struct stream *stream, CUstream *ret_real);

/* The same, before calls for which the driver does not choose a queue: see blocked_streams.h. */
CUresult stream_begin_light(struct session *session, struct stream *stream, CUstream *ret_real);

/* The same, before a seqno or an event; later work need not wait for it. */
CUresult stream_begin_seqno(struct session *session, struct stream *stream, CUstream *ret_real);

/*
 * Makes the begun stream wait for an event. `may_block': the event may follow a wait of a
 * blocked stream (blocked_streams.h), so this stream counts as blocked until the event has
 * passed.
 */
CUresult stream_wait_event(
	struct session *session, struct stream *stream, CUevent event, bool may_block);

/*
 * Whether the stream got no work since it was last seen idle, and has no other stream to
 * wait for.
 */
bool stream_is_idle(const struct session *session, const struct stream *stream);

/*
 * Finds the streams that are at rest, and frees those that were destroyed. Returns whether
 * the session has no work on any GPU.
 */
bool streams_poll(struct session *session);

/*
 * Asks the driver about streams that are at work as far as their timelines tell, so that a fault
 * finds no session at work whose work has ended. They stay on session::busy.
 */
void streams_look(struct session *session);

/*
 * The same after a fault, of a session that has no work on any GPU any more: asks no driver. False:
 * work of a stream waits for a host function.
 */
bool streams_rest_spared(struct session *session);

/* A fault has ended the work before host functions that the GPU has not asked for: they are due. */
void streams_ask_host(struct session *session);

/* Whether a GPU has work of the session now. Work of a parked stream is not on the GPU. */
bool streams_are_at_work(const struct session *session);

/* Waits for all work of the session. Returns CUDA_SUCCESS or the fault that ended the work. */
CUresult streams_wait(struct session *session);

#endif
