/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads one message of a client's connection. Any thread.
 *
 * Invariant: no call here uses or closes a descriptor that has arrived, except to ask the
 * kernel for its kind.
 */

#include "received.h"

#include <string.h>
#include <sys/socket.h>

#include "base.h"

static void keep_fds(struct received *received, struct msghdr *message)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
		size_t size = c->cmsg_len - CMSG_LEN(0);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		size = MIN(size, sizeof(received->fds) - received->n_fds * sizeof(int));
		memcpy(received->fds + received->n_fds, CMSG_DATA(c), size);
		received->n_fds += (uint32_t)(size / sizeof(int));
	}
}

static int judge(const struct received *received, int flags)
{
	/* There is space for each descriptor of a message: this process may have no more. */
	if (flags & MSG_CTRUNC)
		return -EMFILE;
	if (received->n_fds > 1)
		return -EBADMSG;
	if (received->n_fds == 1 && received->kind == FD_OTHER)
		return -EPERM;
	return received->n_bytes == 0 ? -ECONNRESET : 0;
}

int received_read(int connection, void *bytes, size_t size, struct received *ret)
{
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(int) * RECEIVED_FDS_MAX)];
	} control;
	struct iovec iov = {.iov_base = bytes, .iov_len = size};
	struct msghdr message = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	ssize_t n;

	*ret = (struct received){.kind = FD_OTHER};
	do
		n = recvmsg(connection, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	keep_fds(ret, &message);
	ret->n_bytes = (uint32_t)n;
	if (ret->n_fds == 1)
		ret->kind = fd_kind(ret->fds[0]);
	return judge(ret, message.msg_flags);
}
