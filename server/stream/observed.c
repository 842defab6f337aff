/* SPDX-License-Identifier: Apache-2.0 */

/* Tells the observers of a session what it gives to the driver. A worker. */

#include "observed.h"

#include "server/schedule/classes.h"
#include "server/schedule/foreground.h"

void observed_begin(struct session *session, struct stream *stream, const struct trace_work *work)
{
	if (session->tracer)
		tracer_open(session, stream, work);
}

CUresult observed_end(struct session *session, const struct stream *stream,
	const struct trace_work *work, CUresult result)
{
	if (result == CUDA_SUCCESS && classes_are_several(session) &&
		classes_join(session) == CLASS_FOREGROUND)
		foreground_note(session, stream,
			foreground_hash(work->shape, (uintptr_t)work->name,
				(const uint32_t[3]){
					work->kind, work->count, (uint32_t)work->size}));
	return session->tracer ? tracer_close(session, result) : result;
}
