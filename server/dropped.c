/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Work that a fault has cost a client.
 *
 * Invariant: the client's error is in the page before any timeline tells that dropped work has
 * ended, and before any host function behind such work is called.
 */

#include "dropped.h"

#include "messages.h"
#include "ring.h"
#include "server/util/log.h"
#include "server/session/fault.h"
#include "server/session/reply.h"
#include "server/session/session.h"
#include "server/share/eviction.h"
#include "server/stream/stream.h"
#include "server/graph/graph_wait.h"

const char *dropped_begin(struct session *session)
{
	if (graphs_await_host(session))
		return "a graph with host functions was on the GPU";
	session->dropped_to = shm_load32(&session->ring->tail);
	session->is_dropping = true;
	reply_late(session, fault_get());
	atomic_store(&session->has_dropped, true);
	streams_ask_host(session);
	return NULL;
}

/* Not what tells of progress, or puts later work in order. */
static bool is_work(uint16_t op)
{
	switch (op) {
	case OP_COPY_IN:
	case OP_COPY_OUT:
	case OP_COPY_DEVICE:
	case OP_COPY_BOX:
	case OP_COPY_ROWS_IN:
	case OP_COPY_ROWS_OUT:
	case OP_COPY_ARRAY:
	case OP_COPY_ARRAYS:
	case OP_COPY_ARRAY_ROWS:
	case OP_FILL:
	case OP_LAUNCH:
	case OP_LAUNCH_WITH:
	case OP_GRAPH_LAUNCH:
	case OP_GRAPH_LAUNCH_CALLS:
	case OP_GRAPH_UPLOAD:
	case OP_MEMORY_OPS:
		return true;
	default:
		return false;
	}
}

/* A client that has got the error may have sent what came before this message earlier. */
static bool is_before_error(struct session *session)
{
	const struct ring_receiver *receiver = &session->receiver;
	const uint32_t end = receiver->head - (receiver->n_held - receiver->n_given);

	return (int32_t)(session->dropped_to - end) >= 0 ||
	       reply_peek_pending_error(session) != CUDA_SUCCESS;
}

bool dropped_takes(struct session *session, const struct message_head *msg)
{
	if (!session->is_dropping)
		return false;
	if (is_before_error(session))
		return is_work(msg->op);
	session->is_dropping = false;
	atomic_fetch_and(&session->memory_wanted, ~WANTED_DROPPED);
	return false;
}
