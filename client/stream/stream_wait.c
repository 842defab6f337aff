/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Waiting for streams, by the rules of the NULL stream. Any thread of the application.
 *
 * Invariant: a wait posts the seqnos of all streams before it waits for the first, so the
 * GPU works on all of them at once.
 */

#include <stdatomic.h>

#include "stream.h"
#include "timeline.h"
#include "client/transport/server_link.h"

static CUresult wait_one_until(struct stream *stream, uint64_t deadline_ns)
{
	uint64_t seqno;
	CUresult result = timeline_post(stream, &seqno);

	return result == CUDA_SUCCESS ? timeline_wait_until(stream, seqno, deadline_ns) : result;
}

static CUresult wait_one(struct stream *stream)
{
	return wait_one_until(stream, UINT64_MAX);
}

/* `null' and the streams ordered with it; NULL: all streams of the device. */
static bool is_meant(const struct stream *stream, unsigned device, const struct stream *null)
{
	uint32_t state = atomic_load_explicit(&stream->state, memory_order_acquire);

	if (stream_id(stream) < DEVICES_MAX)
		return null ? stream == null : stream_id(stream) == device;
	/* If the slot changes owner meanwhile, the wait is at worst unnecessary. */
	if (state == STREAM_FREE || state == STREAM_ORPHAN_CLOSED)
		return false;
	return null ? atomic_load_explicit(&stream->null, memory_order_relaxed) == null
		    : atomic_load_explicit(&stream->device, memory_order_relaxed) == device;
}

/*
 * The streams of programs follow the devices' NULL streams; NULL streams of other
 * devices are skipped.
 */
static unsigned next_of(unsigned i)
{
	return i < DEVICES_MAX ? DEVICES_MAX : i + 1;
}

static CUresult wait_many(unsigned device, const struct stream *null, uint64_t deadline_ns)
{
	unsigned n = streams_ever();
	CUresult result = CUDA_SUCCESS;
	uint64_t seqno;

	for (unsigned i = device; i < n && result == CUDA_SUCCESS; i = next_of(i))
		if (is_meant(&streams[i], device, null) && timeline_is_busy(&streams[i]))
			result = timeline_post(&streams[i], &seqno);
	for (unsigned i = device; i < n && result == CUDA_SUCCESS; i = next_of(i))
		if (is_meant(&streams[i], device, null) && timeline_is_busy(&streams[i]))
			result = wait_one_until(&streams[i], deadline_ns);
	if (result == CUDA_SUCCESS)
		result = server_link_check(&server);
	streams_end_orphans();
	stream_waited();
	return result;
}

/* The NULL stream also waits for the work of all blocking streams. */
CUresult stream_wait(struct stream *stream)
{
	CUresult result;

	if (stream_is_null(stream))
		return wait_many(stream->device, stream, UINT64_MAX);
	result = wait_one(stream);
	stream_waited();
	return result;
}

CUresult stream_wait_turn(struct stream *stream)
{
	struct stream *null = stream->null;
	CUresult result = stream_wait(stream);

	if (result != CUDA_SUCCESS || !null || stream == null || !timeline_is_busy(null))
		return result;
	return wait_one(null);
}

/*
 * A seqno that is posted now arrives a moment later even if the work is done. So
 * the first query waits for that moment.
 */
static CUresult query_one(struct stream *stream)
{
	bool is_new = atomic_load_explicit(&stream->is_issued, memory_order_acquire);
	uint64_t seqno;
	CUresult result = timeline_post(stream, &seqno);

	if (result != CUDA_SUCCESS)
		return result;
	if (is_new ? timeline_reached_soon(stream, seqno) : timeline_reached(stream, seqno))
		return CUDA_SUCCESS;
	return CUDA_ERROR_NOT_READY;
}

static CUresult query_many(unsigned device, const struct stream *null)
{
	unsigned n = streams_ever();
	CUresult result = CUDA_SUCCESS;

	for (unsigned i = device; i < n && result == CUDA_SUCCESS; i = next_of(i))
		if (is_meant(&streams[i], device, null) && timeline_is_busy(&streams[i]))
			result = query_one(&streams[i]);
	return result;
}

CUresult stream_query(struct stream *stream)
{
	return stream_is_null(stream) ? query_many(stream->device, stream) : query_one(stream);
}

bool streams_await_host(void)
{
	unsigned n = streams_ever();

	for (unsigned i = 0; i < n; i++)
		if (!timeline_reached(&streams[i],
			    atomic_load_explicit(&streams[i].host_seqno, memory_order_acquire)))
			return true;
	return false;
}

CUresult streams_wait_device(unsigned device)
{
	return streams_wait_device_until(device, UINT64_MAX);
}

CUresult streams_wait_device_until(unsigned device, uint64_t deadline_ns)
{
	return wait_many(device, NULL, deadline_ns);
}
