/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Replies, in the page that the client can only read. A worker.
 *
 * Invariant: the `seq' of a reply slot is written after everything else in it.
 */

#include "reply.h"

#include "counting.h"
#include "fault.h"
#include "messages.h"

void reply_late(struct session *session, CUresult result)
{
	if (result == CUDA_SUCCESS)
		return;
	session->n_late_errors++;
	session->pending_error = result;
	shm_store64(
		&session->page->error, (uint64_t)session->n_late_errors << 32 | (uint32_t)result);
}

CUresult reply_peek_pending_error(struct session *session)
{
	uint32_t taken = shm_load32(&session->ring->errors_taken);

	if ((int32_t)(session->n_late_errors - taken) <= 0)
		session->pending_error = CUDA_SUCCESS;
	return session->pending_error;
}

static void reply_send(struct session *session, const struct message_head *msg)
{
	const struct reply *reply = &session->reply;
	unsigned slot = msg->reply - 1u;
	struct reply_head __shm *head = &session->page->reply[slot].head;

	shm_copy_in(head + 1, reply->body, reply->size);
	shm_store32(&head->result, reply->result);
	shm_store32(&head->size, reply->size);
	shm_store32(&head->seq, msg->seq);
	shm_fence();
	if (shm_load32(&session->ring->waiting[slot]))
		shm_wake(&head->seq);
}

/*
 * The fault has not changed what the message asks for. So the successor executes the message, if
 * the client goes on there.
 *
 * A client without a GPU is not notified of another client's fault. It waits until this
 * server has ended, and the next one replies (client/transport/reconnect.c).
 */
static bool is_for_the_next_server(struct session *session, const struct message_head *msg)
{
	if (!result_is_fault((CUresult)session->reply.result))
		return false;
	if (fault_spares(session)) {
		session->n_messages--;
		fault_put_back(session, (const uint8_t *)msg + 1);
		return true;
	}
	return !atomic_load(&session->is_active);
}

/* "Not ready" is an answer, and so is that pinned memory needs a new region. */
static bool is_error(const struct session *session, uint32_t op)
{
	return session->reply.result != CUDA_ERROR_NOT_READY && op != OP_HOST_ALLOC;
}

/* The call has failed. False: there is no answer here. */
static __attribute__((noinline)) bool note_failure(
	struct session *session, const struct message_head *msg)
{
	session->reply.result =
		(uint32_t)fault_note_failure(session, (CUresult)session->reply.result);
	if (is_for_the_next_server(session, msg))
		return false;
	if (is_error(session, msg->op))
		counter_add(session, COUNTER_ERRORS, 1);
	return true;
}

void reply_dropped(struct session *session, const struct message_head *msg)
{
	session->reply.result = (uint32_t)session->pending_error;
	session->reply.size = 0;
	if (msg->reply)
		reply_send(session, msg);
}

void reply_complete(struct session *session, const struct message_head *msg)
{
	if (unlikely(session->reply.result != CUDA_SUCCESS) && !note_failure(session, msg))
		return;
	if (msg->reply)
		reply_send(session, msg);
	else
		reply_late(session, (CUresult)session->reply.result);
}
