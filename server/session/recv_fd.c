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
#include "fault.h"
#include "frame.h"
#include "receiver.h"
#include "recorded.h"
#include "session.h"
#include "session_part.h"
#include "server/util/image.h"
#include "server/util/log.h"
#include "server/util/pack.h"

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

/* The frame's descriptor: of this execution of the message, or of an earlier one. */
static int take_incoming(
	struct session *session, const struct frame_head *expected, struct incoming *incoming)
{
	int r;

	if (session->recv_fd->fd >= 0) {
		incoming->fd = TAKE_FD(session->recv_fd->fd);
		incoming->kind = fd_kind(incoming->fd);
		return 0;
	}
	r = read_frame(session, incoming, expected->size);
	if (r == 0 && (incoming->fd < 0 || memcmp(incoming->bytes, expected, expected->size) != 0))
		r = -EBADMSG;
	return r;
}

static int recv_fd_receive(
	struct session *session, const void *expected, bool may_be_device, int *ret_fd)
{
	_cleanup_(incoming_done) struct incoming incoming = {.fd = -EBADF};
	int r = take_incoming(session, expected, &incoming);

	if (r == 0 && incoming.kind != FD_MEMORY && !may_be_device)
		r = -EPERM;
	if (r == 0) {
		session->recv_fd->fd = fcntl(incoming.fd, F_DUPFD_CLOEXEC, 0);
		*ret_fd = TAKE_FD(incoming.fd);
		return 0;
	}
	log_reason(session, r);
	session_drop(session);
	return r;
}

static void forget(struct session *session)
{
	async_close(TAKE_FD(session->recv_fd->fd));
}

CUresult receive_end(struct session *session, CUresult result)
{
	/* A replay comes before that execution. */
	if (!recorded_is_replay(session) && !fault_explains(result))
		forget(session);
	return result;
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

/* ---- the session moves */

static void recv_fd_begin(struct session *session, void *memory)
{
	session->recv_fd = memory;
	session->recv_fd->fd = -EBADF;
}

static void recv_fd_fini(struct session *session, _unused_ bool device_lost)
{
	forget(session);
}

static int recv_fd_pack(struct session *session, struct pack *pack)
{
	const bool has_fd = session->recv_fd->fd >= 0;

	pack_put_number(pack, has_fd);
	if (has_fd)
		pack_put_fd(pack, fcntl(session->recv_fd->fd, F_DUPFD_CLOEXEC, 0));
	return 0;
}

static int recv_fd_unpack(struct session *session, struct pack *pack)
{
	const bool has_fd = pack_get_number(pack, 1);

	if (has_fd)
		session->recv_fd->fd = pack_get_fd(pack);
	return pack->is_bad || (has_fd && session->recv_fd->fd < 0) ? -EBADMSG : 0;
}

static int recv_fd_check(struct session *session, struct pack *pack)
{
	const int r = recv_fd_unpack(session, pack);

	session->recv_fd->fd = -EBADF; /* it is the pack's */
	return r;
}

const struct session_part recv_fd_part = {
	.size = sizeof(struct recv_fd),
	.begin = recv_fd_begin,
	.pack = recv_fd_pack,
	.check = recv_fd_check,
	.unpack = recv_fd_unpack,
	.end = recv_fd_fini,
};
