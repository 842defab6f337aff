/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HANDSHAKE_H
#define HANDSHAKE_H

struct conn;

/* A new connection begins with a frame: reads the rest, and makes a client or a server of it. */
void handshake_read(struct conn *conn);

/*
 * Collects one frame in the connection's buffer. 1: the frame is complete and
 * has the size of its type. 0: more is needed. -EBADMSG, -ECONNRESET, -errno.
 */
int handshake_read_frame(struct conn *conn);

#endif
