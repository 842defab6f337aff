/* SPDX-License-Identifier: Apache-2.0 */

/* Tells the observers of a session what it gives to the driver. A worker. */

#include "observed.h"

#include "clock.h"
#include "stream.h"
#include "server/session/session.h"
#include "server/device/device.h"
#include "server/schedule/background.h"
#include "server/schedule/classes.h"
#include "server/schedule/elastic.h"
#include "server/schedule/foreground.h"

void observed_begin(struct session *session, struct stream *stream, const struct trace_work *work)
{
	if (session->tracer)
		tracer_open(session, stream, work);
}

/* Beside sessions of another class. */
static void trace_level(struct session *session, const struct device *device)
{
	unsigned sms = elastic_sms_of(device, session->background->groups);
	unsigned slowdown;

	if (classes_join(session) == CLASS_BACKGROUND) {
		if (sms > 0)
			tracer_level(session, device->ordinal, TRACE_SHARE, sms);
		return;
	}
	slowdown = elastic_slowdown(device, session->id, now_ns());
	if (slowdown > 0)
		tracer_level(session, device->ordinal, TRACE_SLOWDOWN, slowdown);
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
	if (!session->tracer)
		return result;
	if (classes_are_several(session))
		trace_level(session, stream->device);
	return tracer_close(session, result);
}
