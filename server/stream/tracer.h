/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRACER_H
#define TRACER_H

/*
 * Records what the streams of a session do while a trace runs. Timing events of the driver
 * go into a stream before and behind each piece of work. The session's worker only.
 *
 * See observed.h for the cost without a trace.
 */

#include "server/session/session.h"
#include "server/session/trace_writer.h"
#include "server/driver/driver.h"

struct stream;

struct trace_work {
	enum trace_kind kind;
	uint32_t count;   /* of kernels */
	uint64_t size;    /* bytes */
	const char *name; /* NULL: none */
	bool is_mixed;    /* other kernels have other names */
	uint64_t shape;   /* equal for launches of equal grids */
};

/* Joins the trace that has begun, or leaves the one that has ended: see trace_has_changed(). */
void tracer_sync(struct session *session);

/* Around work for a stream that stream_begin() has prepared. Returns `result'. */
void tracer_open(struct session *session, struct stream *stream, const struct trace_work *work);
CUresult tracer_close(struct session *session, CUresult result);

/* Which copy: see counter_add_copy(). */
static inline enum trace_kind trace_copy_kind(bool to_host, bool from_host)
{
	return to_host == from_host ? TRACE_COPY_WITHIN : to_host ? TRACE_COPY_OUT : TRACE_COPY_IN;
}

/* A point in time of a stream. */
void tracer_mark(struct session *session, uint32_t stream, enum trace_kind kind);

/* Checks which work has ended, if a trace runs. */
void tracer_poll(struct session *session);

/* A level of a GPU: written if it has changed. The session is traced. */
void tracer_level(struct session *session, uint32_t ordinal, enum trace_kind kind, uint64_t value);

/* Sleeps as ring_sleep(), and meanwhile checks which work has ended. */
void tracer_sleep(struct session *session, int timeout_ms);

#endif
