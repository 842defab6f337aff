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

#endif
