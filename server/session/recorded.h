/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RECORDED_H
#define RECORDED_H

/*
 * The record of a session (server/record/record.h), as messages make it, and the replay that makes
 * objects again. The dispatcher calls recorded_keep(). The session's worker only.
 */

#include "session.h"
#include "server/record/record_script.h"

/* Whether the message that is executed makes something again: its client does not know. */
static inline bool recorded_is_replay(const struct session *session)
{
	return session->step != NULL;
}

/*
 * Within a replay: the first 8 bytes of the answers that the client has. The rule of the message
 * has that many.
 */
uint64_t recorded_answer(const struct session *session);

#endif
