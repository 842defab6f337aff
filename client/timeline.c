/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Marks and waiting for them. Any thread of the application.
 *
 * Invariant: a stream's marks are posted in rising order, because number and
 * place in the ring are taken under one lock; so its timeline never falls.
 */

#include "call.h"
#include "link.h"
#include "send.h"
#include "timeline.h"

#define SPINS_A_LOOK 16

CUresult timeline_mark(struct stream *stream, uint64_t *ret_mark)
{
	CUresult result = CUDA_SUCCESS;

	pthread_mutex_lock(&stream->lock);
	if (__atomic_exchange_n(&stream->is_issued, 0, __ATOMIC_ACQ_REL)) {
		result = send_mark(stream_id(stream), stream->marked + 1);
		if (result == CUDA_SUCCESS)
			__atomic_store_n(&stream->marked, stream->marked + 1, __ATOMIC_RELEASE);
		else
			stream_issued(stream);
	}
	*ret_mark = stream->marked;
	pthread_mutex_unlock(&stream->lock);
	return result;
}

void timeline_note(struct stream *stream, uint64_t *ret_mark)
{
	pthread_mutex_lock(&stream->lock);
	stream_issued(stream);
	*ret_mark = stream->marked + 1;
	pthread_mutex_unlock(&stream->lock);
}

CUresult timeline_record(struct stream *stream, uint32_t event, uint64_t *ret_mark)
{
	CUresult result;

	pthread_mutex_lock(&stream->lock);
	/* Cleared first: what another thread posts meanwhile may come behind the mark. */
	__atomic_store_n(&stream->is_issued, 0, __ATOMIC_RELEASE);
	result = send_event_record(event, stream_id(stream), stream->marked + 1);
	if (result == CUDA_SUCCESS) {
		__atomic_store_n(&stream->marked, stream->marked + 1, __ATOMIC_RELEASE);
		*ret_mark = stream->marked;
	} else {
		stream_issued(stream);
	}
	pthread_mutex_unlock(&stream->lock);
	return result;
}

bool timeline_reached(const struct stream *stream, uint64_t mark)
{
	return shm_load64(&server.page->timeline[stream_id(stream)]) >= mark;
}

bool timeline_reached_soon(const struct stream *stream, uint64_t mark)
{
	uint64_t give_up_ns;

	if (timeline_reached(stream, mark))
		return true;
	give_up_ns = call_now_ns() + CALL_SPIN_NS;
	do
		for (unsigned i = 0; i < SPINS_A_LOOK; i++) {
			if (timeline_reached(stream, mark))
				return true;
			shm_relax();
		}
	while (call_now_ns() < give_up_ns);
	return false;
}

CUresult timeline_wait(struct stream *stream, uint64_t mark)
{
	const uint32_t __shm *word =
		(const uint32_t __shm *)&server.page->timeline[stream_id(stream)];
	CUresult result;

	if (likely(timeline_reached_soon(stream, mark)))
		return link_check(&server);
	result = send_watch(stream_id(stream), mark);
	if (result != CUDA_SUCCESS)
		return result;
	for (;;) {
		/* The low half is what the waker wakes; it differs whenever the whole does. */
		uint32_t before = shm_load32(word);

		if (timeline_reached(stream, mark))
			return link_check(&server);
		shm_wait(word, before, CALL_ROUND_MS);
		if (timeline_reached(stream, mark))
			return link_check(&server);
		if (!link_is_alive(&server)) {
			result = link_check(&server);
			return result != CUDA_SUCCESS ? result : CUDA_ERROR_MPS_RPC_FAILURE;
		}
	}
}
