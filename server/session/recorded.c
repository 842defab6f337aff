/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What the messages of a session leave behind. A worker.
 *
 * Invariant: the record has what the last message with success has made, or it was given up.
 */

#include "recorded.h"

#include <string.h>

void recorded_keep(
	struct session *session, const struct message_head *head, const struct reply *reply)
{
	if (reply->result != CUDA_SUCCESS) {
		record_drop(&session->record);
		return;
	}
	session->can_do_without = true;
	record_add(&session->record, head, reply->body);
	session->can_do_without = false;
}

uint64_t recorded_answer(const struct session *session)
{
	uint64_t answer;

	memcpy(&answer, session->step->answers, sizeof(answer));
	return answer;
}
