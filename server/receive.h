/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RECEIVE_H
#define RECEIVE_H

/*
 * Descriptors that belong to messages. They come on the connection, before the
 * message that wants them is placed. The session's worker only.
 */

struct session;

/*
 * The descriptor of a frame that has to be, byte by byte, `expected'. 0 or
 * -errno: the client broke the order, and the connection is of no more use.
 */
int receive_descriptor(struct session *session, const void *expected, int *ret_fd);

#endif
