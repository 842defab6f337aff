/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Streams and the order between them. A worker.
 *
 * Legacy rules: work on the NULL stream waits for all earlier work on the client's blocking
 * streams of that GPU, and their later work waits for it. The NULL stream counts its work
 * (turns::serial), and each blocking stream remembers the count it has waited for; blocking
 * streams with work that the NULL stream has not waited for are on a list. A client that
 * uses only one kind never records an event. A context with its own SMs has its own NULL
 * stream and blocking streams.
 *
 * Invariant: a stream that may have work on the GPU is on session::busy, also after the
 * client has destroyed it. So that list contains all streams to wait for.
 */

#include "stream.h"

#include "park.h"
#include "pending_wait.h"
#include "progress.h"
#include "server/session/at_work.h"
#include "server/session/fault.h"
#include "server/session/session.h"
#include "server/session/session_part.h"
#include "server/schedule/blocked_streams.h"
#include "server/schedule/closed_gpu.h"
#include "server/schedule/gate.h"
#include "server/share/context_share.h"
#include "server/share/green.h"
#include "server/share/session_devices.h"
#include "do_stream.h"

/*
 * Destroyed streams with work left: the worker looks at them after every STREAMS_CLOSED_POLL,
 * and waits for them beyond STREAMS_CLOSED_MAX.
 */
#define STREAMS_CLOSED_POLL 64
#define STREAMS_CLOSED_MAX 1024

struct stream *session_stream(struct session *session, uint32_t id)
{
	struct session_device *sdev;

	if (id >= STREAMS_MAX)
		return NULL;
	if (id >= DEVICES_MAX)
		return session->streams[id];
	sdev = session_device_get(session, id);
	return sdev ? &sdev->null : NULL;
}

CUresult stream_wait_event(
	struct session *session, struct stream *stream, CUevent event, bool may_block)
{
	CUresult result;

	if (unlikely(may_block) && !pending_waits_begin(session, stream))
		return CUDA_ERROR_MPS_RPC_FAILURE;
	if (!may_block)
		blocked_evade(session, stream);
	result = cuda.cuStreamWaitEvent(stream->real, event, CU_EVENT_WAIT_DEFAULT);
	if (unlikely(may_block))
		pending_waits_end(session, stream, stream->real);
	return result;
}

/* Orders all later work on `stream' after the present work of `before'. Makes `event' if needed. */
static CUresult stream_join(
	struct session *session, struct stream *stream, struct stream *before, CUevent *event)
{
	CUresult result = CUDA_SUCCESS;

	if (unlikely(before->parked))
		park_wait(session, before, true);
	blocked_evade(session, before);
	if (!*event)
		result = cuda.cuEventCreate(event, CU_EVENT_DISABLE_TIMING);
	if (result == CUDA_SUCCESS)
		result = cuda.cuEventRecord(*event, before->real);
	if (result == CUDA_SUCCESS)
		result = stream_wait_event(
			session, stream, *event, blocked_contains(session, before->id));
	return result;
}

/* Waits in the driver, but not if the worker might have to release pending waits. */
static CUresult wait_for_old(struct session *session, struct stream *old)
{
	if (unlikely(old->parked))
		park_wait(session, old, false);
	return cuda.cuStreamSynchronize(old->real);
}

/*
 * A destroyed stream of the same ID may still write seqnos to the same timeline. Those come
 * first, or the timeline would decrease.
 */
static CUresult join_closed(struct session *session, struct stream *stream)
{
	CUresult result = CUDA_SUCCESS;

	for (struct stream *old = session->busy; old; old = old->next_busy) {
		if (!old->is_closed || old->id != stream->id || result != CUDA_SUCCESS)
			continue;
		if (old->sdev == stream->sdev)
			result = stream_join(session, stream, old, &old->event);
		else
			result = wait_for_old(session, old);
	}
	return result;
}

static CUresult stream_make_real(struct session *session, struct stream *stream)
{
	CUresult result = stream->green ? green_take_stream(session, stream->green,
						  stream->priority, &stream->real)
					: session_device_take_stream(session, stream->sdev,
						  stream->priority, &stream->real);

	if (result != CUDA_SUCCESS) {
		stream->real = NULL;
		return result;
	}
	result = join_closed(session, stream);
	if (result != CUDA_SUCCESS && !result_is_fault(result)) {
		if (stream->green)
			green_give_stream(stream->green, stream->real);
		else
			session_device_discard_stream(stream->sdev, stream->real);
		stream->real = NULL;
	}
	stream->home = stream->real;
	return result;
}

/* The NULL stream waits for the blocking ones. */
static CUresult join_blocking(struct session *session, struct turns *turns)
{
	while (turns->unjoined) {
		struct stream *stream = turns->unjoined;
		CUresult result = stream_join(session, turns->null, stream, &stream->event);

		if (result != CUDA_SUCCESS)
			return result;
		stream->is_unjoined = false;
		turns->unjoined = stream->next_unjoined;
	}
	return CUDA_SUCCESS;
}

/*
 * A blocking stream waits for the NULL stream. One event of the NULL stream serves all
 * blocking streams.
 */
static CUresult join_null(struct session *session, struct turns *turns, struct stream *stream)
{
	struct stream *null = turns->null;
	CUresult result = CUDA_SUCCESS;

	/* All work that an ended NULL stream has counted is done. */
	if (!null || !null->real)
		return CUDA_SUCCESS;
	if (turns->event_serial == turns->serial)
		result = stream_wait_event(
			session, stream, turns->event, blocked_contains(session, null->id));
	else
		result = stream_join(session, stream, null, &turns->event);
	if (result != CUDA_SUCCESS)
		return result;
	turns->event_serial = turns->serial;
	stream->seen_serial = turns->serial;
	return CUDA_SUCCESS;
}

static CUresult stream_enter(struct session *session, struct stream *stream)
{
	CUresult result = CUDA_SUCCESS;

	if (unlikely(session->current != stream->sdev))
		result = session_device_enter(session, stream->sdev);
	if (unlikely(!stream->real) && result == CUDA_SUCCESS)
		result = stream_make_real(session, stream);
	if (unlikely(result != CUDA_SUCCESS))
		return result;
	if (unlikely(stream->parked))
		park_wait(session, stream, true);
	blocked_count_call(session, stream);
	if (!stream->is_busy) {
		stream->is_busy = true;
		stream->next_busy = session->busy;
		session->busy = stream;
		at_work_publish(session);
	}
	return CUDA_SUCCESS;
}

CUresult stream_begin_seqno(struct session *session, struct stream *stream, CUstream *ret_real)
{
	CUresult result = stream_enter(session, stream);

	if (result == CUDA_SUCCESS && stream->is_null && stream->turns->unjoined)
		result = join_blocking(session, stream->turns);
	if (result == CUDA_SUCCESS)
		blocked_evade_write(session, stream);
	*ret_real = stream->real;
	return result;
}

/* False: a fault has ended the wait, so nothing of the session comes onto the GPU any more. */
static bool closed_pass(struct session *session, struct device *device)
{
	closed_wait(session, device);
	return !fault_spares(session);
}

static bool closed_pass_again(struct session *session, struct device *device)
{
	closed_wait_again(session, device);
	return !fault_spares(session);
}

CUresult stream_begin(struct session *session, struct stream *stream, CUstream *ret_real)
{
	struct turns *turns = stream->turns;
	CUresult result = stream_enter(session, stream);

	if (unlikely(result != CUDA_SUCCESS))
		return result;
	if (unlikely(closed_any()) && !closed_pass(session, stream->device))
		return fault_get();
	*ret_real = stream->real;
	at_work_mark(session, stream->id, MARK_WORK);
	if (unlikely(closed_any()) && !closed_pass_again(session, stream->device))
		return fault_get();
	if (stream->is_null) {
		turns->serial++;
		return turns->unjoined ? join_blocking(session, turns) : CUDA_SUCCESS;
	}
	if (!stream->is_blocking)
		return CUDA_SUCCESS;
	if (!stream->is_unjoined) {
		stream->is_unjoined = true;
		stream->next_unjoined = turns->unjoined;
		turns->unjoined = stream;
	}
	if (unlikely(stream->seen_serial != turns->serial))
		return join_null(session, turns, stream);
	return CUDA_SUCCESS;
}

CUresult stream_begin_light(struct session *session, struct stream *stream, CUstream *ret_real)
{
	CUresult result = stream_begin(session, stream, ret_real);

	if (result == CUDA_SUCCESS)
		blocked_evade(session, stream);
	return result;
}

bool stream_is_idle(const struct session *session, const struct stream *stream)
{
	if (stream->is_busy || (stream->is_null && stream->turns->unjoined))
		return false;
	for (const struct stream *old = session->busy; old; old = old->next_busy)
		if (old->is_closed && old->id == stream->id)
			return false;
	return true;
}

/* A stream whose work has ended needs no join. */
static void unlink_unjoined(struct stream *stream)
{
	struct stream **link = &stream->turns->unjoined;

	if (!stream->is_unjoined)
		return;
	while (*link != stream)
		link = &(*link)->next_unjoined;
	*link = stream->next_unjoined;
	stream->is_unjoined = false;
}

static void free_real(struct stream *stream, bool device_lost)
{
	each_part(session_parts, stream_end, stream, device_lost);
	if (!device_lost && stream->event)
		cuda.cuEventDestroy_v2(stream->event);
	if (!device_lost && stream->real && stream->green)
		green_give_stream(stream->green, stream->real);
	else if (!device_lost && stream->real)
		session_device_give_stream(stream->sdev, stream->real, stream->priority);
	stream->event = NULL;
	stream->real = stream->home = NULL;
	if (!stream->share)
		green_unref(stream->green, device_lost);
	else if (stream->turns->null == stream)
		stream->turns->null = NULL;
	stream->green = NULL;
	context_share_unref(TAKE_PTR(stream->share), device_lost);
}

/* A destroyed stream and a later one of the same ID have one mark. */
static bool has_twin(const struct session *session, const struct stream *stream)
{
	const struct stream *other = session->n_closed > 0 ? session->busy : NULL;

	for (; other; other = other->next_busy)
		if (other != stream && other->id == stream->id)
			return true;
	return false;
}

/* The stream is at rest, or the context is lost. It is not on the busy list. */
static void stream_rest(struct session *session, struct stream *stream, bool device_lost)
{
	stream->is_busy = false;
	if (!has_twin(session, stream))
		at_work_mark(session, stream->id, 0);
	unlink_unjoined(stream);
	/* The seqno of a NULL stream includes the blocking streams, which end before it does. */
	if ((!stream->is_null || stream->is_closed) && !device_lost)
		progress_settle(session, stream);
	if (stream->is_closed) {
		session->n_closed--;
		free_real(stream, device_lost);
		account_free(stream);
	}
}

bool streams_poll(struct session *session)
{
	struct stream **link = &session->busy;

	while (*link) {
		struct stream *stream = *link;

		if (!park_is_over(session, stream) ||
			fault_note(session, cuda.cuStreamQuery(stream->real)) != CUDA_SUCCESS) {
			link = &stream->next_busy;
			continue;
		}
		*link = stream->next_busy;
		stream_rest(session, stream, false);
	}
	if (!session->busy) {
		pending_waits_are_passed(session);
		each_part(session_parts, rest, session);
	}
	if (!session->busy && session->has_pending_seqnos)
		progress_settle_all(session);
	at_work_publish(session);
	return !session->busy;
}

void streams_look(struct session *session)
{
	for (struct stream *stream = session->busy; stream; stream = stream->next_busy) {
		if (!session_stream_is_at_work(session, stream->id) ||
			!park_is_over(session, stream))
			continue;
		if (fault_note(session, cuda.cuStreamQuery(stream->real)) == CUDA_SUCCESS &&
			!has_twin(session, stream))
			at_work_mark(session, stream->id, 0);
	}
}

bool streams_rest_spared(struct session *session)
{
	for (struct stream *stream = session->busy; stream; stream = stream->next_busy)
		if (!park_is_over(session, stream))
			return false;
	while (session->busy) {
		struct stream *stream = session->busy;

		session->busy = stream->next_busy;
		progress_settle(session, stream);
		stream_rest(session, stream, true);
	}
	pending_waits_are_passed(session);
	each_part(session_parts, rest, session);
	progress_settle_all(session);
	at_work_publish(session);
	return true;
}

void streams_ask_host(struct session *session)
{
	for (const struct stream *stream = session->busy; stream; stream = stream->next_busy) {
		uint64_t __shm *asked = &session->page->asked[stream->id];

		if (shm_load64(asked) < stream->parked)
			shm_store64(asked, stream->parked);
	}
	shm_add32(&session->page->n_asked, 1);
	shm_wake(&session->page->n_asked);
}

bool streams_are_at_work(const struct session *session)
{
	for (const struct stream *stream = session->busy; stream; stream = stream->next_busy)
		if (cuda.cuStreamQuery(stream->real) != CUDA_SUCCESS)
			return true;
	return false;
}

/* Does not wait in the driver, because a stream may be blocked until the client acts or ends. */
static CUresult wait_by_looking(struct session *session)
{
	struct gate_wait wait = gate_wait(GATE_REST, session);

	wait.ignores_end = true;
	while (!streams_poll(session)) {
		uint64_t passed = session->pending_waits->n_released;

		if (gate_is_over(&wait))
			return fault_get();
		if (atomic_load(&session->is_ending))
			pending_waits_release(session);
		if (passed != session->pending_waits->n_released)
			gate_look_soon(&wait);
		gate_again(&wait);
	}
	return CUDA_SUCCESS;
}

CUresult streams_wait(struct session *session)
{
	if (session->pending_waits->may_be_closed)
		return wait_by_looking(session);
	while (session->busy) {
		struct stream *stream = session->busy;
		CUresult result = fault_note(session, cuda.cuStreamSynchronize(stream->real));

		if (result_is_fault(result))
			return result;
		/* The driver may have no memory for the wait. */
		if (result != CUDA_SUCCESS)
			return wait_by_looking(session);
		session->busy = stream->next_busy;
		stream_rest(session, stream, false);
	}
	at_work_publish(session);
	return CUDA_SUCCESS;
}

/* Destroys every stream. Their work has ended, or the context is lost (`device_lost'). */
static void streams_free(struct session *session, bool device_lost)
{
	while (session->busy) {
		struct stream *stream = session->busy;

		session->busy = stream->next_busy;
		stream_rest(session, stream, device_lost);
	}
	for (uint32_t i = DEVICES_MAX; i < STREAMS_MAX; i++) {
		struct stream *stream = session->streams[i];

		session->streams[i] = NULL;
		if (stream)
			free_real(stream, device_lost);
		account_free(stream);
	}
	for (uint32_t i = 0; i < DEVICES_MAX; i++)
		if (session->devices[i])
			free_real(&session->devices[i]->null, device_lost);
}

CUresult do_stream_create(
	struct session *session, uint32_t id, uint32_t device, uint32_t flags, int32_t priority)
{
	struct session_device *sdev = session_device_get(session, device);
	struct stream *stream;

	if (!sdev || id < DEVICES_MAX || session->streams[id])
		return CUDA_ERROR_INVALID_VALUE;
	stream = account_alloc(session->account, sizeof(*stream), KEPT_STREAM + KEPT_EVENT);
	if (!stream)
		return CUDA_ERROR_OUT_OF_MEMORY;
	stream->id = id;
	stream->device = sdev->device;
	stream->sdev = sdev;
	stream->priority = session_device_priority(sdev, priority);
	stream->turns = &sdev->turns;
	stream->is_blocking = !(flags & CU_STREAM_NON_BLOCKING);
	stream->is_apart = session->limits.priority == PRIORITY_BACKGROUND;
	session->streams[id] = stream;
	at_work_note_stream(session, id);
	return CUDA_SUCCESS;
}

CUresult do_green_stream(
	struct session *session, uint32_t id, struct green *green, int32_t priority)
{
	CUresult result = do_stream_create(
		session, id, green->sdev->device->ordinal, CU_STREAM_NON_BLOCKING, priority);

	if (result != CUDA_SUCCESS)
		return result;
	session->streams[id]->green = green_ref(green);
	session->streams[id]->is_apart = true;
	return CUDA_SUCCESS;
}

CUresult do_context_share_stream(struct session *session, uint32_t id, struct context_share *share,
	uint32_t flags, uint32_t is_null, int32_t priority)
{
	struct stream *stream;
	CUresult result;

	if (is_null && share->turns.null)
		return CUDA_ERROR_INVALID_VALUE;
	result = do_stream_create(session, id, share->sdev->device->ordinal, flags, priority);
	if (result != CUDA_SUCCESS)
		return result;
	stream = session->streams[id];
	stream->share = context_share_ref(share);
	stream->green = share->sms.green;
	stream->is_apart = true;
	stream->turns = &share->turns;
	if (is_null) {
		stream->is_null = true;
		stream->is_blocking = false;
		share->turns.null = stream;
	}
	return CUDA_SUCCESS;
}

CUresult do_stream_priority(struct session *session, struct stream *stream, int32_t priority)
{
	CUstreamAttrValue value = {.priority = session_device_priority(stream->sdev, priority)};
	CUresult result = session_device_enter(session, stream->sdev);

	if (result == CUDA_SUCCESS && stream->real)
		result = cuda.cuStreamSetAttribute(
			stream->real, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value);
	if (result == CUDA_SUCCESS)
		stream->priority = value.priority;
	return result;
}

/* The stream's work continues, as natively. The real stream stays until the work has ended. */
CUresult do_stream_destroy(struct session *session, struct stream *stream)
{
	if (stream->is_null && !stream->share)
		return CUDA_ERROR_INVALID_HANDLE;
	session->streams[stream->id] = NULL;
	if (!stream->is_busy) {
		progress_settle(session, stream);
		free_real(stream, false);
		account_free(stream);
		return CUDA_SUCCESS;
	}
	stream->is_closed = true;
	if (++session->n_closed % STREAMS_CLOSED_POLL == 0)
		streams_poll(session);
	return session->n_closed > STREAMS_CLOSED_MAX ? streams_wait(session) : CUDA_SUCCESS;
}

const struct session_part streams_part = {
	.end = streams_free,
	.is_recorded = true,
};
