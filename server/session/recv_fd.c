/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Descriptors that a client sends with its messages. A worker.
 *
 * Invariant: the server never has a descriptor of unknown kind, because the client can make
 * its use, and its close at the end of the process, block.
 */

#include "recv_fd.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>

#include "async_close.h"
#include "frame.h"
#include "receiver.h"
#include "recorded.h"
#include "session.h"
#include "server/util/image.h"
#include "server/util/log.h"

/* The client sends the frame before it places the message. */
#define FRAME_WAIT_MS 2000
#define FRAME_ROUND_MS 100

/* A frame that comes from a client, perhaps in pieces. */
struct incoming {
	uint8_t bytes[RECEIVED_MAX];
	size_t n;
	int fd;
	enum fd_kind kind;
};

static void incoming_done(struct incoming *incoming)
{
	async_close(incoming->fd);
}

static int read_piece(struct session *session, struct incoming *incoming, size_t size)
{
	enum fd_kind kind;
	int fd, n = receiver_read(session->connection, session->account_uid,
			incoming->bytes + incoming->n, size - incoming->n, &kind, &fd);

	if (n < 0)
		return n;
	incoming->n += (size_t)n;
	if (fd < 0)
		return 0;
	if (incoming->fd >= 0) {
		async_close(fd);
		return -EBADMSG;
	}
	incoming->fd = fd;
	incoming->kind = kind;
	return 0;
}

static int read_frame(struct session *session, struct incoming *incoming, size_t size)
{
	struct pollfd pfd = {.fd = session->connection, .events = POLLIN};
	int r = 0;

	for (int waited = 0; waited < FRAME_WAIT_MS && incoming->n < size && r == 0;) {
		if (atomic_load(&session->is_ending))
			return -ECONNRESET;
		if (poll(&pfd, 1, FRAME_ROUND_MS) > 0)
			r = read_piece(session, incoming, size);
		else
			waited += FRAME_ROUND_MS;
	}
	if (r == 0 && incoming->n < size)
		r = -ETIMEDOUT;
	return r;
}

static void log_reason(const struct session *session, int r)
{
	if (r == -EPERM)
		log_line("Client " SESSION_NAME " sent a file that is not in memory. Its "
			 "connection is closed",
			SESSION_NAME_ARGS(session));
	else if (r == -EDQUOT)
		log_line("Client " SESSION_NAME
			 " sent a file, but files that clients of user %u sent earlier block the "
			 "processes that received them. Its connection is closed",
			SESSION_NAME_ARGS(session), session->uid);
	else if (r != -ECONNRESET && r != -EBADMSG && r != -ETIMEDOUT)
		log_line("Cannot receive a file of client " SESSION_NAME
			 ": %s. Its connection is closed",
			SESSION_NAME_ARGS(session), strerrordesc_np(-r));
}

static int recv_fd_receive(
	struct session *session, const void *expected, bool may_be_device, int *ret_fd)
{
	const struct frame_head *head = expected;
	_cleanup_(incoming_done) struct incoming incoming = {.fd = -EBADF};
	int r = read_frame(session, &incoming, head->size);

	if (r == 0 && (incoming.fd < 0 || memcmp(incoming.bytes, expected, head->size) != 0))
		r = -EBADMSG;
	if (r == 0 && incoming.kind != FD_MEMORY && !may_be_device)
		r = -EPERM;
	if (r == 0) {
		*ret_fd = TAKE_FD(incoming.fd);
		return 0;
	}
	log_reason(session, r);
	session_drop(session);
	return r;
}

int receive_memory(
	struct session *session, uint64_t address, uint64_t size, bool may_be_device, int *ret_fd)
{
	struct frame_memory frame = {.address = address, .size = size};

	frame_init(&frame, FRAME_MEMORY, 1);
	return recv_fd_receive(session, &frame, may_be_device, ret_fd);
}

CUresult receive_image(struct session *session, uint64_t size, struct image **ret_image)
{
	struct frame_image frame = {.size = size};
	_cleanup_close_ int fd = -EBADF;
	int r;

	frame_init(&frame, FRAME_IMAGE, 1);
	if (recorded_is_replay(session))
		fd = fcntl(session->step->image_fd, F_DUPFD_CLOEXEC, 0);
	else if (recv_fd_receive(session, &frame, false, &fd) < 0)
		return CUDA_ERROR_MPS_RPC_FAILURE;
	r = image_get(session->account, fd, size, ret_image);
	if (r < 0)
		return r == -ENOMEM ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_IMAGE;
	return CUDA_SUCCESS;
}
