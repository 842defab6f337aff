/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Events, for order between streams and for times. A client sees from the seqno behind an
 * event that it is done. Clients of this server share events (shared_event.h). Workers.
 *
 * Invariant: the worker never waits for a client's event. Only the GPU waits for it; the
 * worker asks for times when it is done.
 */

#include "event.h"

#include <string.h>

#include "event_times.h"
#include "messages.h"
#include "progress.h"
#include "shared_event.h"
#include "stream.h"
#include "server/record/record_notes.h"
#include "server/session/session.h"
#include "server/session/session_part.h"
#include "server/schedule/blocked_streams.h"
#include "server/share/session_devices.h"
#include "do_stream.h"

static void event_free(struct event *event, bool device_lost)
{
	if (event->user)
		event_user_free(event->user, device_lost);
	else if (event->real && !device_lost)
		cuda.cuEventDestroy_v2(event->real);
	account_free(event);
}

/* Destroys every event; the streams have ended. */
static void events_free(struct session *session, bool device_lost)
{
	struct event *event;
	uint32_t at = 0;

	while ((event = handle_take(&session->events, &at))) {
		if (session->keeps_memory && event->user) {
			event->user->is_waiting = true;
			event->user = NULL;
			event->real = NULL;
		}
		event_free(event, device_lost);
	}
	event_anchors_free(session, device_lost);
}

CUresult do_event_create(struct session *session, uint32_t id, uint32_t flags)
{
	struct event *event;
	CUresult result =
		session_object_new(&session->events, id, sizeof(*event), KEPT_EVENT, &event);

	if (result != CUDA_SUCCESS)
		return result;
	event->id = id;
	event->flags = flags;
	return CUDA_SUCCESS;
}

CUresult do_event_destroy(struct session *session, struct event *event)
{
	handle_remove(&session->events, event->id);
	event->is_ended = true;
	if (event->user)
		event->user->is_ended = true;
	if (event->n_users == 0)
		event_free(event, false);
	return CUDA_SUCCESS;
}

void event_use(struct event *event)
{
	event->n_users++;
}

void event_unuse(struct event *event, bool device_lost)
{
	if (--event->n_users == 0 && event->is_ended)
		event_free(event, device_lost);
}

CUresult event_make(struct event *event, struct session_device *sdev)
{
	CUresult result;

	if (event->real)
		return event->sdev == sdev ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
	result = cuda.cuEventCreate(&event->real, event->flags);
	if (result != CUDA_SUCCESS)
		event->real = NULL;
	event->sdev = sdev;
	return result;
}

/*
 * An event of another process belongs to its GPU. It is recorded there, on a stream that
 * waits for this one.
 */
static CUresult record_afar(
	struct session *session, struct event *event, struct stream *stream, CUstream real)
{
	struct stream *there = &event->sdev->null;
	CUstream real_there;
	CUevent between;
	CUresult result = cuda.cuEventCreate(&between, CU_EVENT_DISABLE_TIMING);

	if (result != CUDA_SUCCESS)
		return result;
	result = cuda.cuEventRecord(between, real);
	if (result == CUDA_SUCCESS)
		result = stream_begin_seqno(session, there, &real_there);
	if (result == CUDA_SUCCESS)
		result = stream_wait_event(
			session, there, between, blocked_contains(session, stream->id));
	if (result == CUDA_SUCCESS)
		result = cuda.cuEventRecord(event->real, real_there);
	cuda.cuEventDestroy_v2(between);
	return result;
}

static CUresult event_post(
	struct session *session, struct event *event, struct stream *stream, CUstream real)
{
	CUresult result;

	if (event->user && event->sdev != stream->sdev)
		return record_afar(session, event, stream, real);
	event->stream = stream->id;
	result = event_make(event, stream->sdev);
	return result == CUDA_SUCCESS ? cuda.cuEventRecord(event->real, real) : result;
}

/* Writes the seqno in any case, because the client may wait for it. */
CUresult do_event_record(struct session *session, uint32_t id, uint32_t stream_id, uint64_t seqno)
{
	struct stream *stream = session_stream(session, stream_id);
	struct event *event = session_event(session, id);
	CUresult result = CUDA_ERROR_INVALID_HANDLE, marked;
	CUstream real;

	if (event && stream)
		result = stream_begin_seqno(session, stream, &real);
	if (result == CUDA_SUCCESS)
		result = event_post(session, event, stream, real);
	marked = progress_write(session, stream_id, seqno);
	return result != CUDA_SUCCESS ? result : marked;
}

/* Other processes, or graphs, may have recorded it. */
static bool event_may_block(const struct session *session, const struct event *event)
{
	if (event->user)
		return blocked_any();
	return event->n_users > 0 ? blocked_has(session) : blocked_contains(session, event->stream);
}

CUresult do_event_wait(struct session *session, struct stream *stream, struct event *event)
{
	bool may_block = event_may_block(session, event);
	CUstream real;
	CUresult result = stream_begin(session, stream, &real);

	if (result != CUDA_SUCCESS || !event->real)
		return result;
	return stream_wait_event(session, stream, event->real, may_block);
}

/* One of them was recorded before it was made again. */
static CUresult elapsed_by_clock(
	struct session *session, struct event *start, struct event *end, float *ret_milliseconds)
{
	uint64_t start_ns, end_ns;

	if (!event_time(session, start, &start_ns) || !event_time(session, end, &end_ns))
		return CUDA_ERROR_INVALID_HANDLE;
	*ret_milliseconds = (float)((double)(int64_t)(end_ns - start_ns) / 1000000);
	return CUDA_SUCCESS;
}

CUresult do_event_elapsed(
	struct session *session, struct event *start, struct event *end, float *ret_milliseconds)
{
	CUresult result = CUDA_ERROR_INVALID_HANDLE;

	if (start->real && end->real)
		result = cuda.cuEventElapsedTime(ret_milliseconds, start->real, end->real);
	return result == CUDA_ERROR_INVALID_HANDLE
		       ? elapsed_by_clock(session, start, end, ret_milliseconds)
		       : result;
}

/* The session's event shares the real one from now on. */
static void event_share(struct event *event, struct event_user *user, struct session_device *sdev)
{
	account_unkeep(event, KEPT_EVENT);
	event->user = user;
	event->real = user->shared->real;
	event->sdev = sdev;
}

static CUresult export_new(
	struct session *session, struct event *event, struct session_device *sdev)
{
	struct event_user *user;
	CUresult result = event_make(event, sdev);

	if (result == CUDA_SUCCESS)
		result = shared_event_make(
			session, event->id, sdev->device->ordinal, event->real, &user);
	if (result == CUDA_SUCCESS)
		event_share(event, user, sdev);
	return result;
}

/* In a replay, others may share it already. */
static CUresult export_again(
	struct event *event, struct session_device *sdev, struct event_user *user)
{
	if (event->real || user->shared->device != sdev->device->ordinal) {
		event_user_free(user, false);
		return CUDA_ERROR_INVALID_HANDLE;
	}
	event_share(event, user, sdev);
	return CUDA_SUCCESS;
}

CUresult do_ipc_event_export(
	struct session *session, struct event *event, uint32_t device, uint64_t ret_token[2])
{
	struct event_user *user;
	struct session_device *sdev;
	CUresult result = session_device_get_entered(session, device, &sdev);

	if (result != CUDA_SUCCESS)
		return result;
	if (event->user)
		result = event_make(event, sdev);
	else if ((user = event_user_take(session, event->id, NULL)))
		result = export_again(event, sdev, user);
	else
		result = export_new(session, event, sdev);
	if (result == CUDA_SUCCESS)
		memcpy(ret_token, event->user->shared->token.words, sizeof(struct token));
	return result;
}

CUresult do_ipc_event_open(struct session *session, uint32_t id, const uint64_t token[2])
{
	struct event_user *user = event_user_take(session, id, token);
	CUresult result = user ? CUDA_SUCCESS : shared_event_open(session, id, token, &user);
	struct session_device *sdev = NULL;

	if (result != CUDA_SUCCESS)
		return result;
	result = session_device_open(session, user->shared->device, &sdev);
	if (result == CUDA_SUCCESS)
		result = do_event_create(session, id, CU_EVENT_DISABLE_TIMING);
	if (result == CUDA_SUCCESS)
		event_share(session_event(session, id), user, sdev);
	else
		event_user_free(user, false);
	return result;
}

/* If other clients record the event, too, no seqno shows that it is done. So ask the driver. */
CUresult do_ipc_event_query(struct session *session, struct event *event)
{
	CUresult result;

	if (!event->real)
		return CUDA_SUCCESS;
	result = session_device_enter(session, event->sdev);
	return result == CUDA_SUCCESS ? cuda.cuEventQuery(event->real) : result;
}

/* The times of those that were recorded, if they have one. */
static void events_note(struct session *session, struct record_notes *notes)
{
	struct event *event;
	uint32_t at = 0;
	uint64_t without = 0; /* GPUs whose anchor does not pass, one bit each */

	while ((event = handle_next(&session->events, &at))) {
		uint64_t ns, gpu = event->real ? 1ull << event->sdev->device->ordinal : 0;

		if (event->flags & CU_EVENT_DISABLE_TIMING || gpu & without)
			continue;
		if (event->real && event_anchor_make(session, event->sdev) != CUDA_SUCCESS)
			without |= gpu;
		else if (event_time(session, event, &ns))
			record_notes_add(
				notes, RECORD_EVENT, event->id, event->sdev->device->ordinal, ns);
	}
}

static bool events_recall(struct session *session, const struct record_note *note)
{
	struct session_device *sdev;
	struct event *event;

	if (note->kind != RECORD_EVENT)
		return true;
	event = session_event(session, note->id);
	sdev = session_device_get(session, note->index);
	if (!event || !sdev || event->real)
		return false;
	event->recorded_ns = note->value;
	event->sdev = sdev;
	return true;
}

static void events_begin(struct session *session, void *part)
{
	session->event_times = part;
}

const struct session_part events_part = {
	.size = sizeof(struct event_times),
	.begin = events_begin,
	.note = events_note,
	.recall = events_recall,
	.is_recorded = true,
	.end = events_free,
};
