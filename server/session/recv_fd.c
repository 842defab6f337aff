/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Descriptors that a client sends with its messages. A worker.
 *
 * Invariant: the worker neither uses nor closes a descriptor of unknown kind, because the
 * client can make either block.
 */

#include <string.h>

#include "async_close.h"
#include "fd_kind.h"
#include "server/util/log.h"
#include "recv_fd.h"
#include "session.h"

/* The client sends the frame before it places the message. */
#define FRAME_WAIT_MS 2000
#define FRAME_ROUND_MS 100

static int read_frame(struct session *session, const void *expected)
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
	return r;
}

static int recv_fd_receive(
	struct session *session, const void *expected, bool may_be_device, int *ret_fd)
{
	struct frame_reader *reader = &session->images;
	int fd = -EBADF, r = read_frame(session, expected);
	enum fd_kind kind;

	if (r == 0)
		fd = frame_take_fd(reader, 0);
	frame_reader_reset(reader);
	kind = fd < 0 ? FD_OTHER : fd_kind(fd);
	if (kind == FD_MEMORY || (kind == FD_DEVICE && may_be_device)) {
		*ret_fd = fd;
		return 0;
	}
	if (r == 0)
		log_line("Client " SESSION_NAME " sent a file that is not in memory. Its "
			 "connection is closed",
			SESSION_NAME_ARGS(session));
	async_close(fd);
	session_drop(session);
	return r < 0 ? r : -EBADMSG;
}

int receive_memory(struct session *session, const void *expected, int *ret_fd)
{
	return recv_fd_receive(session, expected, false, ret_fd);
}

int receive_exported(struct session *session, const void *expected, int *ret_fd)
{
	return recv_fd_receive(session, expected, true, ret_fd);
}
