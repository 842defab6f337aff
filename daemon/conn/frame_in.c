/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Frames that a peer sends. Loop thread.
 *
 * Invariant: the buffer has room for every frame, and no byte behind the frame is read.
 */

#include "frame_in.h"

#include "conn.h"

int frame_in_fill(struct conn *conn, size_t wanted)
{
	while (conn->in_size < wanted) {
		ssize_t n = conn_recv(conn, conn->in.bytes + conn->in_size, wanted - conn->in_size);

		if (n == -EAGAIN)
			return 0;
		if (n < 0) {
			conn->was_reset = n == -ECONNRESET;
			return (int)n;
		}
		if (n == 0)
			return -ECONNRESET;
		conn->in_size += (size_t)n;
	}
	return 1;
}

int frame_in_read(struct conn *conn)
{
	size_t size;
	int r = frame_in_fill(conn, sizeof(struct frame_head));

	if (r <= 0)
		return r;
	size = frame_size(conn->in.head.type);
	if (conn->in.head.zero != 0 || size == 0 || conn->in.head.size != size)
		return -EBADMSG;
	return frame_in_fill(conn, size);
}
