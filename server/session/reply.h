/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPLY_H
#define REPLY_H

#include "session.h"

/*
 * Completes a message: wakes the thread that waits for it, or keeps its error for a later
 * call. Worker.
 */
void reply_complete(struct session *session, const struct message_head *msg);

/* The message is not executed, because of an error that is kept for a later call. */
void reply_dropped(struct session *session, const struct message_head *msg);

/* The error of a message without a reply. Worker. */
void reply_late(struct session *session, CUresult result);

/*
 * A pending error that the program does not know yet. What it launches meanwhile may need
 * the failed work, and a kernel that computes with garbage may end every session. Natively
 * the program would know the error. CUDA_SUCCESS: no error. Worker.
 */
CUresult reply_peek_pending_error(struct session *session);

_hot_ static inline CUresult reply_pending_error(struct session *session)
{
	return likely(session->pending_error == CUDA_SUCCESS) ? CUDA_SUCCESS
							      : reply_peek_pending_error(session);
}

#endif
