/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OBSERVED_H
#define OBSERVED_H

/*
 * Work for a stream that others have to know of: a trace (tracer.h), and the controller of the
 * GPU's shares (foreground.h). Without them the cost is one branch. The session's worker only.
 */

#include "tracer.h"

/* Around work for a stream that stream_begin() has prepared. Returns `result'. */
void observed_begin(struct session *session, struct stream *stream, const struct trace_work *work);
CUresult observed_end(struct session *session, const struct stream *stream,
	const struct trace_work *work, CUresult result);

static inline bool is_observed(const struct session *session)
{
	return unlikely(atomic_load_explicit(&session->observers, memory_order_relaxed) != 0);
}

/* `call' gives the work to the driver. The rest is the initializer of its description. */
#define OBSERVED(session, stream, call, ...)                                                       \
	({                                                                                         \
		CUresult observed_;                                                                \
                                                                                                   \
		if (is_observed(session)) {                                                        \
			const struct trace_work work_ = __VA_ARGS__;                               \
                                                                                                   \
			observed_begin((session), (stream), &work_);                               \
			observed_ = observed_end((session), (stream), &work_, (call));             \
		} else {                                                                           \
			observed_ = (call);                                                        \
		}                                                                                  \
		observed_;                                                                         \
	})

#endif
