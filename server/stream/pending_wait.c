/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Host functions, and what they and stream memory operations make streams wait
 * for. A worker.
 *
 * Invariant: every wait on the GPU for something of a client's is either in the
 * list, with a value that ends it, or for a word of ring_control->done or
 * ->graph_done, whose tickets TICKET_MAX ends. A client that lives can close its gates again while
 * we open them; then it counts as one whose kernels run on.
 */

#include <string.h>
#include <time.h>

#include "server/session/fault.h"
#include "pending_wait.h"
#include "server/session/session.h"
#include "server/driver/session_device.h"
#include "server/session/session_room.h"
#include "stream.h"
#include "server/driver/stream_pool.h"
#include "server/driver/blocked_streams.h"
#include "waiter.h"
#include "wire.h"

#define PASSED_TRIES 10
#define PASSED_NAP_NS 1000000

static CUdeviceptr page_word(const struct session *session, size_t offset, uint32_t stream)
{
	return session->timeline + offset - offsetof(struct page, timeline) +
	       stream * sizeof(uint64_t);
}

void gates_note_closed(struct session *session)
{
	session->gates->may_be_closed = true;
}

void gates_are_passed(struct session *session)
{
	session->gates->may_be_closed = false;
	if (session->gates->n == 0)
		return;
	pthread_mutex_lock(&session->gates_lock);
	session->gates->n = 0;
	pthread_mutex_unlock(&session->gates_lock);
}

static CUstreamBatchMemOpParams write_op(CUdeviceptr address, uint64_t value)
{
	return (CUstreamBatchMemOpParams){.writeValue = {
						  .operation = CU_STREAM_MEM_OP_WRITE_VALUE_64,
						  .address = address,
						  .value64 = value,
					  }};
}

CUstreamBatchMemOpParams gates_passed_op(
	const struct session *session, const struct stream *stream, uint64_t serial)
{
	return write_op(page_word(session, offsetof(struct page, passed), stream->id), serial);
}

static CUresult done_pin(struct session *session)
{
	uint64_t *done = ((struct ring_control *)session->ring)->done;
	CUresult result;

	if (likely(session->gates->done))
		return CUDA_SUCCESS;
	result = cuda.cuMemHostRegister_v2(done, sizeof(uint64_t[STREAMS_MAX + GRAPH_CALLS]),
		CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
	if (result != CUDA_SUCCESS)
		return result;
	result = cuda.cuMemHostGetDevicePointer_v2(&session->gates->done, done, 0);
	if (result != CUDA_SUCCESS) {
		session->gates->done = 0;
		standing_unpin(session, done);
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

/* The watch comes behind it, so that a client that sleeps hears of it. */
static CUresult ask(struct session *session, struct stream *stream, uint64_t ticket)
{
	CUdeviceptr asked = page_word(session, offsetof(struct page, asked), stream->id);
	CUstream real;
	CUresult result = stream_begin(session, stream, &real);

	standing_evade_write(session, stream);
	if (result == CUDA_SUCCESS)
		result = cuda.cuStreamWriteValue64_v2(
			real, asked, ticket, CU_STREAM_WRITE_VALUE_DEFAULT);
	if (result != CUDA_SUCCESS)
		return result;
	result = waiters_watch_call(session, stream->place->device, real);
	return result_is_fault(result) ? result : CUDA_SUCCESS;
}

/* What the client asks for goes before its answer does: never are both words those of a new ask. */
CUresult gates_graph_call(
	struct session *session, uint32_t call, CUstreamBatchMemOpParams ret_params[GATES_CALL_OPS])
{
	CUdeviceptr asked = session->timeline + offsetof(struct page, graph_asked) -
			    offsetof(struct page, timeline) + call * sizeof(uint64_t);
	CUresult result = done_pin(session);
	CUdeviceptr done =
		session->gates->done + sizeof(uint64_t[STREAMS_MAX]) + call * sizeof(uint64_t);

	ret_params[0] = write_op(asked, 1);
	ret_params[1] = wait_op(done, 1);
	ret_params[2] = write_op(asked, 0);
	ret_params[3] = write_op(done, 0);
	return result;
}

bool gates_begin_wait(struct session *session, struct stream *stream)
{
	bool is_new = !standing_stands(session, stream->id);

	gates_note_closed(session);
	if (!standing_take(session, stream, session->gates->last_serial + 1))
		return false;
	standing_place(stream, is_new);
	return true;
}

/*
 * The driver may be short of memory for a moment. If it is for longer, a wait that nobody knows
 * of is better than one whose end nobody sees.
 */
void gates_note_passed(struct session *session, const struct stream *stream, CUstream real)
{
	CUdeviceptr passed = page_word(session, offsetof(struct page, passed), stream->id);

	for (unsigned i = 0; i < PASSED_TRIES && fault_get() == CUDA_SUCCESS; i++) {
		if (cuda.cuStreamWriteValue64_v2(real, passed, session->gates->last_serial,
			    CU_STREAM_WRITE_VALUE_DEFAULT) == CUDA_SUCCESS)
			return;
		nanosleep(&(struct timespec){.tv_nsec = PASSED_NAP_NS}, NULL);
	}
	standing_forget(session, stream);
}

void gates_end_wait(struct session *session, struct stream *stream, CUstream real)
{
	session->gates->last_serial++;
	gates_note_passed(session, stream, real);
	standing_placed();
}

/*
 * The GPU does not wait for it: loading code would wait for it too, with the
 * driver's lock held, and who is stopped in one would stop everybody. So what
 * comes for the stream is held back (hold.h).
 */
CUresult do_host_call(struct session *session, struct stream *stream, uint64_t ticket)
{
	CUresult result = ask(session, stream, ticket);

	if (unlikely(result_is_fault(result)))
		return result;
	/* Out of its order is better than never: it may be what frees something. */
	if (unlikely(result != CUDA_SUCCESS))
		shm_store64((__shm uint64_t *)(uintptr_t)&session->page->asked[stream->id], ticket);
	stream->held = ticket;
	gates_note_closed(session);
	return result;
}

/* Not a gate of the list: gates_open() ends all that wait for words of the ring's. */
CUresult gates_wait_for_call(struct session *session, struct stream *stream, uint64_t ticket)
{
	CUresult result = done_pin(session);

	if (result != CUDA_SUCCESS)
		return result;
	if (!gates_begin_wait(session, stream))
		return CUDA_ERROR_MPS_RPC_FAILURE;
	result = cuda.cuStreamWaitValue64_v2(stream->real,
		session->gates->done + stream->id * sizeof(uint64_t), ticket,
		CU_STREAM_WAIT_VALUE_GEQ);
	gates_end_wait(session, stream, stream->real);
	return result;
}

static bool gate_is_passed(const struct session *session, const struct gate *gate)
{
	const uint64_t *passed = &session->page->passed[gate->stream];

	return shm_load64((const __shm uint64_t *)(uintptr_t)passed) >= gate->serial;
}

void gates_forget_passed(struct session *session)
{
	struct gates *gates = session->gates;
	uint32_t n = 0;

	pthread_mutex_lock(&session->gates_lock);
	for (uint32_t i = 0; i < gates->n; i++)
		if (!gate_is_passed(session, &gates->list[i]))
			gates->list[n++] = gates->list[i];
	gates->n = n;
	pthread_mutex_unlock(&session->gates_lock);
}

CUresult gates_make_room(struct session *session, uint32_t n)
{
	struct gates *gates = session->gates;
	struct gate *grown, *old;
	uint32_t n_max;

	if (likely(gates->n + n <= gates->n_max))
		return CUDA_SUCCESS;
	gates_forget_passed(session);
	/* Half of it free, or the next look comes too soon. */
	if (2 * (gates->n + n) <= gates->n_max)
		return CUDA_SUCCESS;
	n_max = 2 * (gates->n + n);
	if (n_max > GATES_MAX)
		return CUDA_ERROR_OUT_OF_MEMORY;
	/* Memory may be waited for: not under the lock, which is the loop's too. */
	grown = account_alloc(session->account, n_max * sizeof(*grown), 0);
	if (!grown)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&session->gates_lock);
	old = gates->list;
	if (gates->n > 0)
		memcpy(grown, old, gates->n * sizeof(*grown));
	gates->list = grown;
	gates->n_max = n_max;
	pthread_mutex_unlock(&session->gates_lock);
	account_free(old);
	return CUDA_SUCCESS;
}

static CUresult get_key(struct session *session, struct place *place, CUstream *ret_key)
{
	CUstream *key = &session->gates->keys[place->device->ordinal];
	CUresult result = place_enter(session, place);

	if (result == CUDA_SUCCESS && !*key)
		result = spare_take_key(place->device, key);
	*ret_key = *key;
	return result;
}

void gates_open_one(struct session *session, const struct gate *gate)
{
	CUstream key;

	if (get_key(session, gate->place, &key) != CUDA_SUCCESS)
		return;
	standing_evade_real(session, gate->place->device, key);
	if (gate->is_64)
		cuda.cuStreamWriteValue64_v2(key, gate->address, gate->value, 0);
	else
		cuda.cuStreamWriteValue32_v2(key, gate->address, (uint32_t)gate->value, 0);
}

/* The GPU closes its gate behind each call. */
static void count_graph_calls(struct session *session)
{
	for (uint32_t i = 0; i < GRAPH_CALLS; i++) {
		const uint64_t *asked = &session->page->graph_asked[i];

		session->gates->n_opened +=
			shm_load64((const __shm uint64_t *)(uintptr_t)asked) != 0;
	}
}

/* Of gates in a row on one word each needs a time of its own: the oldest of each stream. */
static void open_oldest(
	struct session *session, void (*open)(struct session *session, const struct gate *gate))
{
	struct gates *gates = session->gates;
	uint8_t seen[STREAMS_MAX / 8] = {0};

	for (uint32_t i = 0; i < gates->n; i++) {
		const struct gate *gate = &gates->list[i];
		uint8_t bit = (uint8_t)(1u << gate->stream % 8);

		if (gate_is_passed(session, gate))
			continue;
		if (!(seen[gate->stream / 8] & bit))
			open(session, gate);
		seen[gate->stream / 8] |= bit;
	}
}

/* In the host space a thread of ours comes to no harm, whatever the client does (shield.h). */
static void open_here(struct session *session, const struct gate *gate)
{
	(void)session;
	if (!gate->is_host)
		return;
	if (gate->is_64)
		shm_store64((__shm uint64_t *)(uintptr_t)gate->address, gate->value);
	else
		shm_store32((__shm uint32_t *)(uintptr_t)gate->address, (uint32_t)gate->value);
}

/* A client that still lives must not take it for what it waited for. */
void gates_open_here(struct session *session)
{
	struct ring_control *control = session->ring;

	session_set_fault(session, CUDA_ERROR_MPS_RPC_FAILURE);
	for (uint32_t i = 0; i < STREAMS_MAX; i++)
		shm_store64((__shm uint64_t *)(uintptr_t)&control->done[i], WIRE_TICKET_MAX);
	for (uint32_t i = 0; i < GRAPH_CALLS; i++)
		shm_store64((__shm uint64_t *)(uintptr_t)&control->graph_done[i], WIRE_TICKET_MAX);
	pthread_mutex_lock(&session->gates_lock);
	open_oldest(session, open_here);
	pthread_mutex_unlock(&session->gates_lock);
}

void gates_open(struct session *session)
{
	uint32_t n_before = session->gates->n;

	count_graph_calls(session);
	gates_open_here(session);
	session_rooms_release(session);
	gates_forget_passed(session);
	session->gates->n_opened += n_before - session->gates->n;
	open_oldest(session, gates_open_one);
}

static void gates_fini(struct session *session, bool is_lost)
{
	struct ring_control *control = session->ring;
	struct gates *gates = session->gates;

	gates_are_passed(session);
	standing_forget_all(session);
	for (unsigned i = 0; i < DEVICES_MAX; i++) {
		struct device *device = device_get(i);

		if (!gates->keys[i] || is_lost)
			continue;
		/* A write that was one too many must not come after its memory has gone. */
		cuda.cuStreamSynchronize(gates->keys[i]);
		spare_give(device, gates->keys[i], device->priority_greatest);
	}
	if (gates->done && !is_lost)
		standing_unpin(session, control->done);
	pthread_mutex_lock(&session->gates_lock);
	account_free(gates->list);
	*gates = (struct gates){0};
	pthread_mutex_unlock(&session->gates_lock);
}

static void gates_begin(struct session *session, void *part)
{
	session->gates = part;
}

const struct session_room gates_room = {
	.size = sizeof(struct gates),
	.begin = gates_begin,
	.end = gates_fini,
};
