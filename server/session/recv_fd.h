/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RECV_FD_H
#define RECV_FD_H

/*
 * Descriptors that belong to messages. They come on the connection, before the
 * message that wants them is placed. The session's worker only.
 */

struct session;

/*
 * The descriptor of a frame that has to be, byte by byte, `expected'. It is a
 * file in memory: nothing that the worker does with it can block. The caller
 * owns it. -errno: the client broke the order or sent another kind of file,
 * and the session has been dropped.
 */
int receive_memory(struct session *session, const void *expected, int *ret_fd);

/*
 * The same, and the file may also be a device, which the caller gives to
 * async_close().
 */
int receive_exported(struct session *session, const void *expected, int *ret_fd);

#endif
