/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RECV_FD_H
#define RECV_FD_H

/*
 * Descriptors that belong to messages. They arrive on the connection, before the message
 * that needs them is placed. The session's worker only.
 */

#include "base.h"
#include "cuda_api.h"

struct image;
struct session;

/* A session's part: the descriptor of the message that is executed, or that a fault has met. */
struct recv_fd {
	int fd; /* owned; negative: none */
};

/*
 * The descriptor of the next frame, which must be a FRAME_MEMORY of that address and size. It is a
 * file in memory, so no operation of the worker on it blocks; if it may be a device, too, the
 * caller passes it to async_close(). The caller owns it. -errno: the client broke the order or sent
 * another kind of file, and the session has been dropped.
 */
int receive_memory(
	struct session *session, uint64_t address, uint64_t size, bool may_be_device, int *ret_fd);

/* The same for a FRAME_IMAGE, whose file becomes an image: a reference. Or the client's error. */
CUresult receive_image(struct session *session, uint64_t size, struct image **ret_image);

/*
 * The message that has received a descriptor was executed. If a fault has met it, the descriptor
 * stays for its next execution, perhaps in another server. Returns the result.
 */
CUresult receive_end(struct session *session, CUresult result);

#endif
