/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Seqnos, which the GPU writes into a stream's timeline, and watches, by which a sleeping
 * client is woken. A worker.
 *
 * Invariant: every seqno is written in the end, or the client is notified of a fault,
 * because it may wait for the seqno without a limit.
 */

#include "progress.h"

#include "stream.h"
#include "tracer.h"
#include "waiter.h"
#include "server/session/at_work.h"
#include "server/session/counting.h"
#include "server/session/fault.h"
#include "server/session/session.h"
#include "server/share/session_device.h"
#include "do_stream.h"

static void write_now(struct session *session, uint32_t stream, uint64_t value)
{
	uint64_t __shm *seqno = &session->page->timeline[stream];

	shm_store64(seqno, value);
	shm_wake(shm_low_half(seqno));
}

static CUresult write_in_order(struct session *session, struct stream *stream, uint64_t value)
{
	CUdeviceptr word = session->timeline + stream->id * sizeof(uint64_t);
	CUstream real;
	CUresult result;

	if (stream_is_idle(session, stream)) {
		write_now(session, stream->id, value);
		return CUDA_SUCCESS;
	}
	result = stream_begin_seqno(session, stream, &real);
	if (result == CUDA_SUCCESS)
		result = cuda.cuStreamWriteValue64_v2(
			real, word, value, CU_STREAM_WRITE_VALUE_DEFAULT);
	at_work_mark(session, stream->id, value);
	stream->seqno = value;
	if (likely(result == CUDA_SUCCESS) || result_is_fault(result))
		return result;
	/* The worker does not wait: the stream may depend on this client's next message. */
	session->has_pending_seqnos = true;
	return result;
}

/*
 * A stream that could not be created has no work. The client learns of that from the
 * result of a later call; its threads that wait meanwhile must not wait for ever.
 */
CUresult progress_write(struct session *session, uint32_t id, uint64_t value)
{
	struct stream *stream = session_stream(session, id);

	if (stream)
		return write_in_order(session, stream, value);
	write_now(session, id, value);
	return CUDA_ERROR_INVALID_HANDLE;
}

void progress_settle(struct session *session, struct stream *stream)
{
	if (stream->seqno > shm_load64(&session->page->timeline[stream->id]))
		write_now(session, stream->id, stream->seqno);
}

void progress_settle_all(struct session *session)
{
	session->has_pending_seqnos = false;
	for (uint32_t i = 0; i < STREAMS_MAX; i++)
		if (session->streams[i])
			progress_settle(session, session->streams[i]);
	for (uint32_t i = 0; i < DEVICES_MAX; i++)
		if (session->devices[i])
			progress_settle(session, &session->devices[i]->null);
}

CUresult do_seqno_watch(struct session *session, uint32_t id, uint64_t value)
{
	struct stream *stream = session_stream(session, id);
	uint64_t __shm *seqno = &session->page->timeline[id];
	CUstream real;
	CUresult result;

	if (!stream || shm_load64(seqno) >= value || stream_is_idle(session, stream)) {
		shm_wake(shm_low_half(seqno));
		return CUDA_SUCCESS;
	}
	result = stream_begin_seqno(session, stream, &real);
	if (result != CUDA_SUCCESS)
		return result;
	counter_add(session, COUNTER_WAITS, 1);
	tracer_mark(session, id, TRACE_WAIT);
	return waiters_watch(session, stream->id, stream->device, real);
}
