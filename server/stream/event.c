/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Events, for order between streams and for times. A client sees from the seqno behind an
 * event that it is done. Clients of this server share events by an unguessable token. Workers.
 *
 * Invariant: the worker never waits for a client's event. Only the GPU waits for it; the
 * worker asks for times when it is done. A shared event is on the list while an event of some
 * session refers to it.
 */

#include "event.h"

#include <string.h>

#include "event_times.h"
#include "lock.h"
#include "messages.h"
#include "progress.h"
#include "stream.h"
#include "server/util/token.h"
#include "server/record/record_notes.h"
#include "server/session/session.h"
#include "server/session/session_part.h"
#include "server/schedule/blocked_streams.h"
#include "server/share/session_devices.h"
#include "do_stream.h"

struct shared_event {
	struct shared_event *next;
	struct token token;
	uid_t uid; /* of its user: other users may not open it */
	CUevent real;
	uint32_t device;
	uint32_t n_refs; /* sessions' events */
};

static struct lock lock = LOCK_INIT(IPC_EVENTS);
static struct shared_event *shared_events;

static void shared_event_unref(struct shared_event *shared, bool device_lost)
{
	bool is_last;

	lock_take(&lock);
	is_last = --shared->n_refs == 0;
	if (is_last)
		LIST_DROP(shared_events, shared);
	lock_release(&lock);
	if (!is_last)
		return;
	if (!device_lost)
		cuda.cuEventDestroy_v2(shared->real);
	account_free(shared);
}

static void event_free(struct event *event, bool device_lost)
{
	if (event->shared)
		shared_event_unref(event->shared, device_lost);
	else if (event->real && !device_lost)
		cuda.cuEventDestroy_v2(event->real);
	account_free(event);
}

/* Destroys every event; the streams have ended. */
static void events_free(struct session *session, bool device_lost)
{
	struct event *event;
	uint32_t at = 0;

	while ((event = handle_take(&session->events, &at)))
		event_free(event, device_lost);
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

	if (event->shared && event->sdev != stream->sdev)
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
	if (event->shared)
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

CUresult do_ipc_event_export(
	struct session *session, struct event *event, uint32_t device, uint64_t ret_token[2])
{
	struct shared_event *shared = event->shared;
	struct session_device *sdev;
	CUresult result = session_device_get_entered(session, device, &sdev);

	if (result == CUDA_SUCCESS)
		result = event_make(event, sdev);
	if (result != CUDA_SUCCESS)
		return result;
	if (!shared) {
		shared = account_alloc(session->account, sizeof(*shared), KEPT_EVENT);
		if (!shared || !token_make(&shared->token)) {
			account_free(shared);
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
		account_unkeep(event, KEPT_EVENT);
		shared->uid = session->uid;
		shared->real = event->real;
		shared->device = device;
		shared->n_refs = 1;
		lock_take(&lock);
		LIST_PUSH(shared_events, shared);
		lock_release(&lock);
		event->shared = shared;
	}
	memcpy(ret_token, shared->token.words, sizeof(shared->token.words));
	return CUDA_SUCCESS;
}

/* Takes a reference; NULL: there is no such event. */
static struct shared_event *shared_event_ref(uid_t uid, const uint64_t token[2])
{
	lock_hold(&lock);
	struct shared_event *shared = shared_events;

	while (shared && (shared->uid != uid || !token_is(&shared->token, token)))
		shared = shared->next;
	if (shared)
		shared->n_refs++;
	return shared;
}

CUresult do_ipc_event_open(struct session *session, uint32_t id, const uint64_t token[2])
{
	struct shared_event *shared = shared_event_ref(session->uid, token);
	CUresult result = shared ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
	struct session_device *sdev = NULL;
	struct event *event;

	if (result == CUDA_SUCCESS)
		result = session_device_open(session, shared->device, &sdev);
	if (result == CUDA_SUCCESS)
		result = do_event_create(session, id, CU_EVENT_DISABLE_TIMING);
	if (result != CUDA_SUCCESS) {
		if (shared)
			shared_event_unref(shared, false);
		return result;
	}
	event = session_event(session, id);
	account_unkeep(event, KEPT_EVENT);
	event->shared = shared;
	event->real = shared->real;
	event->sdev = sdev;
	return CUDA_SUCCESS;
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

static const char *events_obstacle(struct session *session)
{
	return record_has(&session->record, OP_IPC_EVENT_EXPORT) ||
			       record_has(&session->record, OP_IPC_EVENT_OPEN)
		       ? "it shares an event with another client"
		       : NULL;
}

const struct session_part events_part = {
	.size = sizeof(struct event_times),
	.begin = events_begin,
	.obstacle = events_obstacle,
	.note = events_note,
	.recall = events_recall,
	.is_recorded = true,
	.end = events_free,
};
