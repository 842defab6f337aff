/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ELASTIC_STREAM_H
#define ELASTIC_STREAM_H

/*
 * Streams of background sessions: a stream changes between driver streams in shares of several
 * sizes. The functions do nothing for a foreground session.
 *
 * stream::real is the driver stream that gets the next work. It is ordered behind all work of the
 * one before it by an event, so every call that uses stream::real keeps the stream's order. A
 * stream of a green context of the client, or of one of its contexts with SMs of their own, does
 * not change. A graph runs where its nodes were made (graph_twin.h), whatever the stream.
 *
 * The session's worker only.
 */

#include "server/driver/session_stream.h"
#include "server/schedule/classes.h"

/*
 * Before `n' kernels (1 or more) go to the GPU of that stream: sleeps until some may go, and
 * changes the stream to the share that they get. Returns how many may go now.
 */
unsigned elastic_stream_wait_others(struct session *session, struct stream *stream, unsigned n);

/*
 * The same for a graph, which goes as a whole. Returns the share that it gets, and does not change
 * the stream. elastic_stream_change() does, unless any stream is blocked.
 */
unsigned elastic_stream_wait_graph(struct session *session, struct stream *stream, unsigned n);
void elastic_stream_change(struct session *session, struct stream *stream, unsigned share);

static inline unsigned elastic_stream_wait(
	struct session *session, struct stream *stream, unsigned n)
{
	return classes_are_several(session) ? elastic_stream_wait_others(session, stream, n) : n;
}

/* `n' kernels went to the GPU, in that stream; those of a graph with the SMs of that share. */
void elastic_stream_note_others(struct session *session, struct stream *stream, unsigned n);
void elastic_stream_note_graph(
	struct session *session, struct stream *stream, unsigned n, unsigned share);

static inline void elastic_stream_note(struct session *session, struct stream *stream, unsigned n)
{
	if (classes_are_several(session))
		elastic_stream_note_others(session, stream, n);
}

/*
 * After a launch failed: whether it has to be made again on the stream's own SMs, to which the
 * stream returns. A cooperative launch, or a cluster, may not fit into a share.
 */
bool elastic_stream_has_to_retry(struct session *session, struct stream *stream, CUresult result);

/* The context of the share that the stream's launches go to; NULL: all SMs of its session. */
CUcontext elastic_stream_share_context(const struct stream *stream);

static inline CUcontext elastic_stream_context(const struct stream *stream)
{
	return likely(stream->real == stream->home) ? NULL : elastic_stream_share_context(stream);
}

/*
 * Makes that context current, for nodes of graphs that are made or changed before
 * session_device_enter().
 */
CUresult elastic_stream_enter_share(struct session *session, const struct stream *stream);

#endif
