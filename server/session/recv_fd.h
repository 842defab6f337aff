/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RECV_FD_H
#define RECV_FD_H

/*
 * Descriptors that belong to messages. They arrive on the connection, before the message
 * that needs them is placed. The session's worker only.
 */

struct session;

/*
 * The descriptor of the next frame, which must equal `expected' byte by byte. It is a file
 * in memory, so no operation of the worker on it blocks. The caller owns it. -errno: the
 * client broke the order or sent another kind of file, and the session has been dropped.
 */
int receive_memory(struct session *session, const void *expected, int *ret_fd);

/* The same, but the file may be a device, too. The caller passes that to async_close(). */
int receive_exported(struct session *session, const void *expected, int *ret_fd);

#endif
