/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Frames over stream sockets. Any thread; one reader per socket.
 *
 * Invariant: the reader reads no byte past the end of a frame, so the next owner
 * of the socket finds the next frame complete, with its descriptors.
 */

#include "frame.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "clock.h"

/* The most descriptors of one message on a socket: the kernel's SCM_MAX_FD. */
#define KERNEL_FDS_MAX 253

_Static_assert(sizeof(struct frame_head) == 8, "wire");
_Static_assert(sizeof(struct frame_client) <= FRAME_MAX, "FRAME_MAX");
_Static_assert(sizeof(struct frame_hello) % 8 == 0, "no padding in a frame");

/* Size and descriptors of each type: the only such table. */
static const struct {
	uint32_t size;
	uint8_t fds_min, fds_max;
} shapes[FRAME_TYPE_MAX + 1] = {
	[FRAME_HELLO] = {sizeof(struct frame_hello), 0, 0},
	[FRAME_REFUSED] = {sizeof(struct frame_refused), 0, 0},
	[FRAME_WELCOME] = {sizeof(struct frame_welcome), FRAME_WELCOME_FDS, FRAME_WELCOME_FDS},
	[FRAME_IMAGE] = {sizeof(struct frame_image), 1, 1},
	[FRAME_SERVER] = {sizeof(struct frame_server), 0, 0},
	[FRAME_SERVER_STATE] = {sizeof(struct frame_server_state), 0, 0},
	[FRAME_CLIENT] = {sizeof(struct frame_client), 1, 1},
	[FRAME_CLIENT_HERE] = {sizeof(struct frame_client_note), 0, 0},
	[FRAME_CLIENT_GONE] = {sizeof(struct frame_client_note), 0, 0},
	[FRAME_SHUTDOWN] = {sizeof(struct frame_shutdown), 0, 0},
	[FRAME_MEMORY] = {sizeof(struct frame_memory), 1, 1},
	[FRAME_OUTPUT] = {sizeof(struct frame_output), 1, 1},
	[FRAME_DEVICE] = {sizeof(struct frame_device), 0, 0},
	[FRAME_CONTEXT] = {sizeof(struct frame_context), 0, 0},
	[FRAME_TERMINATE] = {sizeof(struct frame_terminate), 0, 0},
	[FRAME_TERMINATED] = {sizeof(struct frame_terminate), 0, 0},
	[FRAME_FAULT] = {sizeof(struct frame_fault), 0, 0},
	[FRAME_FAULT_CLIENT] = {sizeof(struct frame_fault_client), 0, 0},
	[FRAME_FAULT_ADDRESS] = {sizeof(struct frame_fault_address), 0, 0},
	[FRAME_COUNTERS] = {sizeof(struct frame_counters), 0, 0},
	[FRAME_TRACE] = {sizeof(struct frame_trace), 1, 1},
	[FRAME_TRACE_END] = {sizeof(struct frame_trace_end), 0, 0},
	[FRAME_RECEIVE] = {sizeof(struct frame_receive), 1, 1},
	[FRAME_RECEIVED] = {sizeof(struct frame_received), 0, 1},
	[FRAME_GROUP] = {sizeof(struct frame_group), 0, 0},
	[FRAME_GROUP_HERE] = {sizeof(struct frame_group_here), 0, 0},
	[FRAME_LEASE] = {sizeof(struct frame_lease), 0, 0},
	[FRAME_LEASE_WANT] = {sizeof(struct frame_lease), 0, 0},
	[FRAME_LEASE_RETURN] = {sizeof(struct frame_lease), 0, 0},
	[FRAME_SUSPEND] = {sizeof(struct frame_suspend), 0, 0},
	[FRAME_SUSPENDED] = {sizeof(struct frame_suspend), 0, 0},
	[FRAME_PENDING] = {sizeof(struct frame_pending), 0, 0},
	[FRAME_RESTART] = {sizeof(struct frame_restart), 1, 1},
	[FRAME_RESTARTED] = {sizeof(struct frame_restarted), 0, 0},
	[FRAME_MOVE_BEGIN] = {sizeof(struct frame_move_begin), 1, 1},
	[FRAME_MOVE_CLIENT] = {sizeof(struct frame_move_client), FRAME_MOVE_CLIENT_FDS,
		FRAME_MOVE_CLIENT_FDS},
	[FRAME_MOVE_FDS] = {sizeof(struct frame_move_fds), 1, FRAME_FDS_MAX},
	[FRAME_MOVE_STEP] = {sizeof(struct frame_move_step), 0, 0},
	[FRAME_PAGE] = {sizeof(struct frame_page), 1, 1},
};

size_t frame_size(unsigned type)
{
	return type < ARRAY_SIZE(shapes) ? shapes[type].size : 0;
}

struct frame_head frame_head(enum frame_type type, unsigned n_fds)
{
	return (struct frame_head){
		.type = (uint8_t)type,
		.n_fds = (uint16_t)n_fds,
		.size = (uint32_t)frame_size(type),
	};
}

bool frame_text_ok(const char *text, size_t size)
{
	size_t i = strnlen(text, size);

	if (i == size)
		return false;
	for (; i < size; i++)
		if (text[i])
			return false;
	return true;
}

/* Waits until `sock' is ready for `events' or the deadline has passed. */
static int wait_ready(int sock, short events, uint64_t deadline_ms)
{
	struct pollfd pfd = {.fd = sock, .events = events};

	for (;;) {
		int64_t left = (int64_t)(deadline_ms - now_ms());
		int r = poll(&pfd, 1, left > 0 ? (int)MIN(left, 60000) : 0);

		if (r > 0)
			return 0;
		if (r < 0 && errno != EINTR)
			return -errno;
		if (r == 0 && left <= 0)
			return -ETIMEDOUT;
	}
}

static ssize_t send_part(
	int sock, const uint8_t *bytes, size_t size, const int *fds, unsigned n_fds)
{
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(int) * FRAME_FDS_MAX)];
	} control = {0};
	struct iovec iov = {.iov_base = (void *)bytes, .iov_len = size};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t n;

	if (n_fds > 0) {
		msg.msg_control = &control;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		control.head.cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
		memcpy(CMSG_DATA(&control.head), fds, sizeof(int) * n_fds);
	}
	n = sendmsg(sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
	return n < 0 ? -errno : n;
}

int frame_send(int sock, const void *frame, const int *fds, int timeout_ms)
{
	const struct frame_head *head = frame;
	uint64_t deadline_ms = now_ms() + (uint64_t)timeout_ms;
	size_t sent = 0;
	int r;

	while (sent < head->size) {
		/* The descriptors go with the first byte, once. */
		ssize_t n = send_part(sock, (const uint8_t *)frame + sent, head->size - sent, fds,
			sent == 0 ? head->n_fds : 0);

		if (n >= 0) {
			sent += (size_t)n;
			continue;
		}
		if (n == -EINTR)
			continue;
		if (n != -EAGAIN)
			return (int)n;
		r = wait_ready(sock, POLLOUT, deadline_ms);
		if (r < 0)
			return r;
	}
	return 0;
}

void frame_close_fd(int fd)
{
	close(fd);
}

void frame_reader_init(struct frame_reader *reader, void (*drop)(int fd))
{
	memset(reader, 0, sizeof(*reader));
	reader->drop = drop;
	for (size_t i = 0; i < FRAME_FDS_MAX; i++)
		reader->fds[i] = -EBADF;
}

void frame_reader_fini(struct frame_reader *reader)
{
	for (size_t i = 0; i < FRAME_FDS_MAX; i++) {
		if (reader->fds[i] >= 0)
			reader->drop(reader->fds[i]);
		reader->fds[i] = -EBADF;
	}
	reader->n_fds = 0;
}

void frame_reader_reset(struct frame_reader *reader)
{
	frame_reader_fini(reader);
	frame_reader_init(reader, reader->drop);
}

int frame_take_fd(struct frame_reader *reader, unsigned i)
{
	if (i >= reader->n_fds)
		return -EBADF;
	return TAKE_FD(reader->fds[i]);
}

/* Keeps as many as fit and drops the rest, so that a peer cannot fill this process's table. */
static int reader_keep_fds(struct frame_reader *reader, struct msghdr *msg)
{
	bool too_many = false;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t n_fds = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < n_fds; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			if (reader->n_fds < FRAME_FDS_MAX)
				reader->fds[reader->n_fds++] = fd;
			else {
				reader->drop(fd);
				too_many = true;
			}
		}
	}
	/* There is room for all that a message can have: the process may have no more descriptors.
	 */
	if (msg->msg_flags & MSG_CTRUNC)
		return -EMFILE;
	return too_many ? -EBADMSG : 0;
}

/*
 * Up to `size' bytes and all descriptors that came with them: the kernel would
 * close those without room on this thread.
 */
static int reader_fill(struct frame_reader *reader, int sock, size_t size)
{
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(int) * KERNEL_FDS_MAX)];
	} control;
	struct iovec iov = {.iov_base = reader->bytes + reader->n_read, .iov_len = size};
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	ssize_t n;
	int r;

	do
		n = recvmsg(sock, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN ? 0 : -errno;
	r = reader_keep_fds(reader, &msg);
	if (r < 0)
		return r;
	if (n == 0)
		return -ECONNRESET;
	reader->n_read += (size_t)n;
	return (int)n;
}

static bool head_ok(const struct frame_head *head)
{
	size_t size = frame_size(head->type);

	return head->zero == 0 && size != 0 && head->size == size &&
	       head->n_fds >= shapes[head->type].fds_min &&
	       head->n_fds <= shapes[head->type].fds_max;
}

int frame_read(struct frame_reader *reader, int sock)
{
	for (;;) {
		size_t wanted = sizeof(struct frame_head);
		int r;

		if (reader->n_read >= wanted) {
			if (!head_ok(&reader->head))
				return -EBADMSG;
			wanted = reader->head.size;
			if (reader->n_read == wanted)
				return reader->n_fds == reader->head.n_fds ? 1 : -EBADMSG;
		}
		r = reader_fill(reader, sock, wanted - reader->n_read);
		if (r <= 0)
			return r;
	}
}

int frame_read_wait(struct frame_reader *reader, int sock, int timeout_ms)
{
	uint64_t deadline_ms = now_ms() + (uint64_t)timeout_ms;

	for (;;) {
		int r = frame_read(reader, sock);

		if (r != 0)
			return r < 0 ? r : 0;
		r = wait_ready(sock, POLLIN, deadline_ms);
		if (r < 0)
			return r;
	}
}
