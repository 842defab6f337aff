/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Host functions, and the waits of streams for them and for stream memory operations. A
 * worker.
 *
 * Invariant: every wait on the GPU for a client is either in the list, with a value that
 * ends it, or waits for a ticket in ring_control->done or ->graph_done, which TICKET_MAX
 * ends. A client that lives can add pending waits while the server releases them; then it
 * counts as one whose kernels continue.
 */

#include "pending_wait.h"

#include <string.h>
#include <time.h>

#include "lock.h"
#include "stream.h"
#include "waiter.h"
#include "wire.h"
#include "server/session/fault.h"
#include "server/session/session.h"
#include "server/session/session_part.h"
#include "server/schedule/blocked_streams.h"
#include "server/schedule/quiet.h"
#include "server/schedule/stream_pool.h"
#include "server/share/session_device.h"
#include "do_stream.h"

#define PASSED_TRIES 10
#define PASSED_SLEEP_NS 1000000

static CUdeviceptr page_word(const struct session *session, size_t offset, uint32_t stream)
{
	return session->timeline + offset - offsetof(struct page, timeline) +
	       stream * sizeof(uint64_t);
}

void pending_waits_note_new(struct session *session)
{
	session->pending_waits->may_be_closed = true;
}

void pending_waits_are_passed(struct session *session)
{
	session->pending_waits->may_be_closed = false;
	if (session->pending_waits->n == 0)
		return;
	lock_take(&session->pending_waits_lock);
	session->pending_waits->n = 0;
	lock_release(&session->pending_waits_lock);
}

static CUstreamBatchMemOpParams write_op(CUdeviceptr address, uint64_t value)
{
	return (CUstreamBatchMemOpParams){.writeValue = {
						  .operation = CU_STREAM_MEM_OP_WRITE_VALUE_64,
						  .address = address,
						  .value64 = value,
					  }};
}

CUstreamBatchMemOpParams pending_waits_passed_op(
	const struct session *session, const struct stream *stream, uint64_t serial)
{
	return write_op(page_word(session, offsetof(struct page, passed), stream->id), serial);
}

static CUresult done_pin(struct session *session)
{
	void *done = shm_raw(&session->ring->done[0]);
	CUresult result;

	if (likely(session->pending_waits->done))
		return CUDA_SUCCESS;
	result = cuda.cuMemHostRegister_v2(done, sizeof(uint64_t[STREAMS_MAX + GRAPH_CALLS]),
		CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
	if (result != CUDA_SUCCESS)
		return result;
	result = cuda.cuMemHostGetDevicePointer_v2(&session->pending_waits->done, done, 0);
	if (result != CUDA_SUCCESS) {
		session->pending_waits->done = 0;
		quiet_unpin(session, done);
	}
	return result;
}

static CUstreamBatchMemOpParams wait_op(CUdeviceptr address, uint64_t value)
{
	return (CUstreamBatchMemOpParams){.waitValue = {
						  .operation = CU_STREAM_MEM_OP_WAIT_VALUE_64,
						  .address = address,
						  .value64 = value,
						  .flags = CU_STREAM_WAIT_VALUE_GEQ,
					  }};
}

/* The watch follows the write, so that it wakes a client that sleeps. */
static CUresult pending_wait_ask(struct session *session, struct stream *stream, uint64_t ticket)
{
	CUdeviceptr asked = page_word(session, offsetof(struct page, asked), stream->id);
	CUstream real;
	CUresult result = stream_begin(session, stream, &real);

	blocked_evade_write(session, stream);
	if (result == CUDA_SUCCESS)
		result = cuda.cuStreamWriteValue64_v2(
			real, asked, ticket, CU_STREAM_WRITE_VALUE_DEFAULT);
	if (result != CUDA_SUCCESS)
		return result;
	result = waiters_watch_call(session, stream->device, real);
	return result_is_fault(result) ? result : CUDA_SUCCESS;
}

/*
 * Clears the request before the answer, so the semaphores never look like those of a new
 * request.
 */
CUresult pending_waits_graph_call(struct session *session, uint32_t call,
	CUstreamBatchMemOpParams ret_params[PENDING_WAIT_CALL_OPS])
{
	CUdeviceptr asked = session->timeline + offsetof(struct page, graph_asked) -
			    offsetof(struct page, timeline) + call * sizeof(uint64_t);
	CUresult result = done_pin(session);
	CUdeviceptr done = session->pending_waits->done + sizeof(uint64_t[STREAMS_MAX]) +
			   call * sizeof(uint64_t);

	ret_params[0] = write_op(asked, 1);
	ret_params[1] = wait_op(done, 1);
	ret_params[2] = write_op(asked, 0);
	ret_params[3] = write_op(done, 0);
	return result;
}

bool pending_waits_begin(struct session *session, struct stream *stream)
{
	bool is_new = !blocked_contains(session, stream->id);

	pending_waits_note_new(session);
	if (!blocked_begin(session, stream, session->pending_waits->last_serial + 1))
		return false;
	blocked_place(stream, is_new);
	return true;
}

/*
 * The driver may be short of memory for a moment. If it stays short, a wait that is not counted is
 * better than an entry that never ends.
 */
void pending_waits_note_passed(struct session *session, const struct stream *stream, CUstream real)
{
	CUdeviceptr passed = page_word(session, offsetof(struct page, passed), stream->id);

	for (unsigned i = 0; i < PASSED_TRIES && fault_get() == CUDA_SUCCESS; i++) {
		if (cuda.cuStreamWriteValue64_v2(real, passed, session->pending_waits->last_serial,
			    CU_STREAM_WRITE_VALUE_DEFAULT) == CUDA_SUCCESS)
			return;
		nanosleep(&(struct timespec){.tv_nsec = PASSED_SLEEP_NS}, NULL);
	}
	blocked_forget(session, stream);
}

void pending_waits_end(struct session *session, struct stream *stream, CUstream real)
{
	session->pending_waits->last_serial++;
	pending_waits_note_passed(session, stream, real);
	blocked_placed();
}

/*
 * The GPU does not wait for a host function: loading code would wait, too, with the driver's
 * lock held, so a client that is stopped in one would stop all clients. Instead, later work
 * of the stream is parked (park.h).
 */
CUresult do_host_call(struct session *session, struct stream *stream, uint64_t ticket)
{
	CUresult result = pending_wait_ask(session, stream, ticket);

	if (unlikely(result_is_fault(result)))
		return result;
	/* Too early is better than never: the function may free something. */
	if (unlikely(result != CUDA_SUCCESS))
		shm_store64(&session->page->asked[stream->id], ticket);
	stream->parked = ticket;
	pending_waits_note_new(session);
	return result;
}

/*
 * The list has no entry for this wait: pending_waits_release() ends all waits for semaphores
 * in the ring memory.
 */
CUresult pending_waits_for_call(struct session *session, struct stream *stream, uint64_t ticket)
{
	CUresult result = done_pin(session);

	if (result != CUDA_SUCCESS)
		return result;
	if (!pending_waits_begin(session, stream))
		return CUDA_ERROR_MPS_RPC_FAILURE;
	result = cuda.cuStreamWaitValue64_v2(stream->real,
		session->pending_waits->done + stream->id * sizeof(uint64_t), ticket,
		CU_STREAM_WAIT_VALUE_GEQ);
	pending_waits_end(session, stream, stream->real);
	return result;
}

static bool pending_wait_is_passed(
	const struct session *session, const struct pending_wait *pending_wait)
{
	return shm_load64(&session->page->passed[pending_wait->stream]) >= pending_wait->serial;
}

void pending_waits_forget_passed(struct session *session)
{
	struct pending_waits *pending_waits = session->pending_waits;
	uint32_t n = 0;

	lock_take(&session->pending_waits_lock);
	for (uint32_t i = 0; i < pending_waits->n; i++)
		if (!pending_wait_is_passed(session, &pending_waits->list[i]))
			pending_waits->list[n++] = pending_waits->list[i];
	pending_waits->n = n;
	lock_release(&session->pending_waits_lock);
}

CUresult pending_waits_reserve(struct session *session, uint32_t n)
{
	struct pending_waits *pending_waits = session->pending_waits;
	struct pending_wait *grown, *old;
	uint32_t n_max;

	if (likely(pending_waits->n + n <= pending_waits->n_max))
		return CUDA_SUCCESS;
	pending_waits_forget_passed(session);
	/* Half of the list must be free, or the next search comes too soon. */
	if (2 * (pending_waits->n + n) <= pending_waits->n_max)
		return CUDA_SUCCESS;
	n_max = 2 * (pending_waits->n + n);
	if (n_max > PENDING_WAITS_MAX)
		return CUDA_ERROR_OUT_OF_MEMORY;
	/* The allocation may wait, so it is not under the lock, which the loop takes, too. */
	grown = account_alloc(session->account, n_max * sizeof(*grown), 0);
	if (!grown)
		return CUDA_ERROR_OUT_OF_MEMORY;
	lock_take(&session->pending_waits_lock);
	old = pending_waits->list;
	if (pending_waits->n > 0)
		memcpy(grown, old, pending_waits->n * sizeof(*grown));
	pending_waits->list = grown;
	pending_waits->n_max = n_max;
	lock_release(&session->pending_waits_lock);
	account_free(old);
	return CUDA_SUCCESS;
}

static CUresult get_release_stream(
	struct session *session, struct session_device *sdev, CUstream *ret_real)
{
	CUstream *release = &session->pending_waits->release_streams[sdev->device->ordinal];
	CUresult result = session_device_enter(session, sdev);

	if (result == CUDA_SUCCESS && !*release)
		result = stream_pool_take_reserved(sdev->device, release);
	*ret_real = *release;
	return result;
}

void pending_waits_release_one(struct session *session, const struct pending_wait *pending_wait)
{
	CUstream release;

	if (get_release_stream(session, pending_wait->sdev, &release) != CUDA_SUCCESS)
		return;
	blocked_evade_real(session, pending_wait->sdev->device, release);
	if (pending_wait->is_64)
		cuda.cuStreamWriteValue64_v2(
			release, pending_wait->address, pending_wait->value, 0);
	else
		cuda.cuStreamWriteValue32_v2(
			release, pending_wait->address, (uint32_t)pending_wait->value, 0);
}

/* The GPU waits again after each call. */
static void count_graph_calls(struct session *session)
{
	for (uint32_t i = 0; i < GRAPH_CALLS; i++)
		session->pending_waits->n_released +=
			shm_load64(&session->page->graph_asked[i]) != 0;
}

/*
 * Each of several waits in a row on one semaphore is released separately: the oldest of each
 * stream.
 */
static void release_oldest(struct session *session,
	void (*release)(struct session *session, const struct pending_wait *pending_wait))
{
	struct pending_waits *pending_waits = session->pending_waits;
	uint8_t seen[STREAMS_MAX / 8] = {0};

	for (uint32_t i = 0; i < pending_waits->n; i++) {
		const struct pending_wait *pending_wait = &pending_waits->list[i];
		uint8_t bit = (uint8_t)(1u << pending_wait->stream % 8);

		if (pending_wait_is_passed(session, pending_wait))
			continue;
		if (!(seen[pending_wait->stream / 8] & bit))
			release(session, pending_wait);
		seen[pending_wait->stream / 8] |= bit;
	}
}

/* In the host space a write is safe, whatever the client does to its files (sigbus_guard.h). */
static void release_here(_unused_ struct session *session, const struct pending_wait *pending_wait)
{
	if (!pending_wait->is_host)
		return;
	if (pending_wait->is_64)
		shm_store64(shm_at(pending_wait->address), pending_wait->value);
	else
		shm_store32(shm_at(pending_wait->address), (uint32_t)pending_wait->value);
}

/*
 * Sets a fault first, so that a client that lives does not take this value for the one it
 * waits for.
 */
void pending_waits_release_here(struct session *session)
{
	session_set_fault(session, CUDA_ERROR_MPS_RPC_FAILURE);
	for (uint32_t i = 0; i < STREAMS_MAX; i++)
		shm_store64(&session->ring->done[i], WIRE_TICKET_MAX);
	for (uint32_t i = 0; i < GRAPH_CALLS; i++)
		shm_store64(&session->ring->graph_done[i], WIRE_TICKET_MAX);
	lock_take(&session->pending_waits_lock);
	release_oldest(session, release_here);
	lock_release(&session->pending_waits_lock);
}

void pending_waits_release(struct session *session)
{
	uint32_t n_before = session->pending_waits->n;

	count_graph_calls(session);
	pending_waits_release_here(session);
	each_part(session_parts, release, session);
	pending_waits_forget_passed(session);
	session->pending_waits->n_released += n_before - session->pending_waits->n;
	release_oldest(session, pending_waits_release_one);
}

static void pending_waits_fini(struct session *session, bool device_lost)
{
	struct pending_waits *pending_waits = session->pending_waits;

	pending_waits_are_passed(session);
	blocked_forget_all(session);
	for (unsigned i = 0; i < DEVICES_MAX; i++) {
		struct device *device = device_get(i);

		if (!pending_waits->release_streams[i] || device_lost)
			continue;
		/* A superfluous write must not come after its memory has gone. */
		cuda.cuStreamSynchronize(pending_waits->release_streams[i]);
		stream_pool_give(
			device, pending_waits->release_streams[i], device->priority_greatest);
	}
	if (pending_waits->done && !device_lost)
		quiet_unpin(session, shm_raw(&session->ring->done[0]));
	lock_take(&session->pending_waits_lock);
	account_free(pending_waits->list);
	*pending_waits = (struct pending_waits){0};
	lock_release(&session->pending_waits_lock);
}

static void pending_waits_init(struct session *session, void *part)
{
	session->pending_waits = part;
}

const struct session_part pending_waits_part = {
	.size = sizeof(struct pending_waits),
	.begin = pending_waits_init,
	.end = pending_waits_fini,
};
