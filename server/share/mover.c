/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Copies of chunks, in two batches. A worker.
 *
 * Invariant: done() is called after the last copy of its chunk has ended, so a chunk that is given
 * back has all its bytes in the store.
 */

#include "mover.h"

#include "session_devices.h"
#include "server/session/fault.h"
#include "server/session/session.h"
#include "server/device/device.h"
#include "server/schedule/closed_gpu.h"
#include "server/schedule/gate.h"

/*
 * Enough that the next batch begins before the GPU has copied this one: 2.5 ms at 55 GB/s. In slots
 * that are not adjacent, these are 64 copies: a stream takes a thousand (driver_facts.h), and then
 * the driver holds up launches of all clients (120 ms for 6.5 GB, measured).
 */
#define BATCH_BYTES ((uint64_t)128 << 20)

CUresult mover_begin(struct mover *mover, struct session *session, struct session_device *sdev)
{
	CUresult result;

	*mover = (struct mover){
		.session = session, .sdev = sdev, .priority = session_device_priority(sdev, 0)};
	for (unsigned i = 0; i < 2; i++) {
		result = session_device_take_stream(
			session, sdev, mover->priority, &mover->stream[i]);
		if (result == CUDA_SUCCESS)
			continue;
		if (i > 0)
			session_device_give_stream(sdev, mover->stream[0], mover->priority);
		return result;
	}
	return CUDA_SUCCESS;
}

/*
 * Looks until nothing is on the stream: also if the session ends, and if the driver refuses a
 * look. Only a fault ends the copies otherwise.
 */
static CUresult stream_wait(struct mover *mover, CUstream stream)
{
	struct gate_wait wait = gate_wait(GATE_MOVE, mover->session);

	wait.ignores_end = true;
	for (;;) {
		CUresult result = fault_note(mover->session, cuda.cuStreamQuery(stream));

		if (result == CUDA_SUCCESS || result_is_fault(result)) {
			gate_end(&wait);
			return result;
		}
		if (!gate_again(&wait)) {
			gate_end(&wait);
			return fault_get();
		}
	}
}

static CUresult batch_end(struct mover *mover, unsigned i)
{
	CUresult result = mover->batch[i].result, waited = CUDA_SUCCESS;

	if (mover->batch[i].n == 0 && mover->batch[i].bytes == 0)
		return CUDA_SUCCESS;
	waited = stream_wait(mover, mover->stream[i]);
	if (waited != CUDA_SUCCESS)
		result = waited;
	for (unsigned k = 0; k < mover->batch[i].n; k++) {
		const struct moved *chunk = &mover->batch[i].of[k];

		chunk->done(chunk->owner, chunk->chunk, result);
	}
	mover->batch[i].n = 0;
	mover->batch[i].bytes = 0;
	mover->batch[i].result = CUDA_SUCCESS;
	return result;
}

static void next_batch(struct mover *mover)
{
	mover->at = !mover->at;
	(void)batch_end(mover, mover->at);
}

/* A quiet call waits for the copies that are queued. Until it is over, launches wait for it. */
static void wait_while_closed(struct mover *mover)
{
	_cleanup_(gate_end) struct gate_wait wait = gate_wait(GATE_CLOSED, mover->session);

	wait.ignores_end = true;
	while (closed_any() && closed_for_call(mover->sdev->device->closed) && gate_again(&wait))
		;
}

/* Queues the copy, in the current batch and the next ones. */
static CUresult queue(struct mover *mover, struct store_copy copy)
{
	CUresult result = CUDA_SUCCESS;

	while (copy.size > 0 && result == CUDA_SUCCESS) {
		uint64_t left = copy.size, *bytes = &mover->batch[mover->at].bytes;

		if (*bytes >= BATCH_BYTES) {
			next_batch(mover);
			continue;
		}
		if (*bytes == 0)
			wait_while_closed(mover);
		result =
			host_store_copy_next(&copy, BATCH_BYTES - *bytes, mover->stream[mover->at]);
		*bytes += left - copy.size;
	}
	return result;
}

void mover_out(struct mover *mover, const struct moved *chunk, uint64_t address,
	const struct stored *stored)
{
	CUresult result = queue(mover, host_store_copy(stored, address, chunk->size, true));
	unsigned at = mover->at;

	if (result != CUDA_SUCCESS && mover->batch[at].result == CUDA_SUCCESS)
		mover->batch[at].result = fault_note(mover->session, result);
	mover->batch[at].of[mover->batch[at].n++] = *chunk;
	if (mover->batch[at].n == MOVER_BATCH || mover->batch[at].bytes >= BATCH_BYTES)
		next_batch(mover);
}

static CUresult note_in(struct mover *mover, CUresult result)
{
	result = fault_note(mover->session, result);
	if (mover->in_result == CUDA_SUCCESS)
		mover->in_result = result;
	return result;
}

CUresult mover_in(struct mover *mover, uint64_t address, uint64_t size, const struct stored *stored)
{
	return note_in(mover, queue(mover, host_store_copy(stored, address, size, false)));
}

CUresult mover_write(struct mover *mover, uint64_t address, const void *bytes, uint64_t size)
{
	return note_in(
		mover, cuda.cuMemcpyHtoDAsync_v2(address, bytes, size, mover->stream[mover->at]));
}

CUresult mover_read(struct mover *mover, uint64_t address, void *bytes, uint64_t size)
{
	return note_in(
		mover, cuda.cuMemcpyDtoHAsync_v2(bytes, address, size, mover->stream[mover->at]));
}

CUresult mover_copy(struct mover *mover, uint64_t address, uint64_t from, uint64_t size)
{
	return note_in(
		mover, cuda.cuMemcpyDtoDAsync_v2(address, from, size, mover->stream[mover->at]));
}

CUresult mover_wait(struct mover *mover)
{
	CUresult first = batch_end(mover, !mover->at), second = batch_end(mover, mover->at);
	CUresult result = first != CUDA_SUCCESS ? first : second;

	for (unsigned i = 0; i < 2; i++) {
		CUresult waited = stream_wait(mover, mover->stream[i]);

		result = waited != CUDA_SUCCESS ? waited : result;
	}
	return result != CUDA_SUCCESS ? result : mover->in_result;
}

CUresult mover_end(struct mover *mover)
{
	CUresult result = mover_wait(mover);

	for (unsigned i = 0; i < 2; i++)
		if (result_is_fault(result))
			session_device_discard_stream(mover->sdev, mover->stream[i]);
		else
			session_device_give_stream(mover->sdev, mover->stream[i], mover->priority);
	return result;
}
