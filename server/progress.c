/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Marks, which the GPU writes into a stream's timeline, and watches, by which
 * a sleeping client is woken. A worker.
 *
 * Invariant: every mark is written in the end, or the client told of a fault:
 * somebody may wait for it without a limit.
 */

#include "session.h"

static void write_now(struct session *session, const struct stream *stream, uint64_t value)
{
	uint64_t *word = &session->page->timeline[stream->id];

	shm_store64((__shm uint64_t *)(uintptr_t)word, value);
	shm_wake((__shm uint32_t *)(uintptr_t)word);
}

CUresult do_mark(struct session *session, struct stream *stream, uint64_t value)
{
	CUdeviceptr word = session->timeline + stream->id * sizeof(uint64_t);
	CUstream real;
	CUresult result;

	if (stream_is_idle(session, stream)) {
		write_now(session, stream, value);
		return CUDA_SUCCESS;
	}
	result = stream_begin_mark(session, stream, &real);
	if (result == CUDA_SUCCESS)
		result = cuda.cuStreamWriteValue64_v2(
			real, word, value, CU_STREAM_WRITE_VALUE_DEFAULT);
	if (likely(result == CUDA_SUCCESS) || result_is_fault(result))
		return result;
	if (streams_wait(session) == CUDA_SUCCESS)
		write_now(session, stream, value);
	return result;
}

CUresult do_watch(struct session *session, struct stream *stream, uint64_t value)
{
	uint64_t *word = &session->page->timeline[stream->id];
	CUstream real;
	CUresult result;

	if (shm_load64((__shm uint64_t *)(uintptr_t)word) >= value ||
		stream_is_idle(session, stream)) {
		shm_wake((__shm uint32_t *)(uintptr_t)word);
		return CUDA_SUCCESS;
	}
	result = stream_begin_mark(session, stream, &real);
	if (result != CUDA_SUCCESS)
		return result;
	return waiters_watch(session, stream->id, stream->place->device, real);
}
