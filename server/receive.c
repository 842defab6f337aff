/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What a client sends with its messages. A worker.
 *
 * Invariant: a frame that is not the one a message wants ends the connection.
 */

#include <string.h>

#include "receive.h"
#include "session.h"

/* The frame was sent before its message was placed. */
#define FRAME_WAIT_MS 2000
#define FRAME_ROUND_MS 100

int receive_descriptor(struct session *session, const void *expected, int *ret_fd)
{
	const struct frame_head *head = expected;
	struct frame_reader *reader = &session->images;
	int r = -ETIMEDOUT;

	for (int waited = 0; waited < FRAME_WAIT_MS && r == -ETIMEDOUT; waited += FRAME_ROUND_MS) {
		if (atomic_load(&session->is_ending))
			return -ECONNRESET;
		r = frame_read_wait(reader, session->connection, FRAME_ROUND_MS);
	}
	if (r == 0 && memcmp(reader->bytes, expected, frame_size(head->type)) != 0)
		r = -EBADMSG;
	if (r == 0)
		*ret_fd = frame_take_fd(reader, 0);
	frame_reader_reset(reader);
	return r;
}
