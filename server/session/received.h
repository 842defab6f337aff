/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RECEIVED_H
#define RECEIVED_H

/*
 * What has arrived on a client's connection, with the descriptors that the client sent. The
 * receiver process only (receiver.h).
 */

#include "base.h"
#include "fd_kind.h"

/* The most descriptors of one message on a socket: the kernel's SCM_MAX_FD. */
#define RECEIVED_FDS_MAX 253

struct received {
	uint32_t n_bytes;
	uint32_t n_fds; /* owned */
	int fds[RECEIVED_FDS_MAX];
	enum fd_kind kind; /* of the only one; FD_OTHER: none, or several */
};

/*
 * Reads at most `size' bytes without blocking. 0; -EBADMSG: several descriptors have come;
 * -EPERM: one that is neither memory nor a device; -EAGAIN: nothing has come; -ECONNRESET: the
 * client has closed the connection; -errno. The caller owns the descriptors in each case.
 */
int received_read(int connection, void *bytes, size_t size, struct received *ret);

#endif
