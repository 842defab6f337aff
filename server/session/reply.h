/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPLY_H
#define REPLY_H

#include "session.h"

/*
 * Completes a message: tells whoever waits for it, or keeps what went wrong
 * for a call that waits later. Worker.
 */
void reply_complete(struct session *session, const struct message_head *msg);

/* A result that no call waits for, of work that was asked for. Worker. */
void reply_late(struct session *session, CUresult result);

/*
 * A late error that the program does not know of yet. What it launches meanwhile may
 * need what has failed, and a kernel that works on garbage may end everybody: natively
 * the program would have known. CUDA_SUCCESS: there is none. Worker.
 */
CUresult reply_peek_pending_error(struct session *session);

_hot_ static inline CUresult reply_pending_error(struct session *session)
{
	return likely(session->pending_error == CUDA_SUCCESS) ? CUDA_SUCCESS
							      : reply_peek_pending_error(session);
}

#endif
