/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RECEIVER_H
#define RECEIVER_H

/*
 * The receiver: a child process of the server that takes descriptors from the connections of
 * clients, and passes on files in memory, and devices. Closing any other file may block for
 * ever (a FUSE file), and the kernel closes each descriptor of a process that ends. So the
 * server, which must be able to end, never has such a descriptor. The receiver ends after it
 * has received one, and the next call starts another receiver.
 *
 * Any thread, except where noted.
 */

#include <sys/types.h>

#include "fd_kind.h"

/* The server's option that makes a process the receiver; its standard input is the socket. */
#define RECEIVER_OPTION "--receive-descriptors"

/*
 * At most so many receivers that cannot end exist at a time. A user causes at most as many as
 * it leaves to others.
 */
#define RECEIVERS_ENDING_MAX 64

/* Starts the receiver from this program (not copied). 0 or -errno. Before other threads exist. */
int receiver_start(const char *program);

/* Ends the receiver, and waits for it for a short time. */
void receiver_stop(void);

/*
 * Reads at most `size' bytes (at most RECEIVED_MAX) from a connection, and the descriptor that
 * came with them, without waiting for the client. Returns the number of bytes, more than 0. The
 * caller owns *ret_fd, which is -EBADF if no descriptor came.
 *   -EAGAIN      nothing has come
 *   -ECONNRESET  the client has closed the connection
 *   -EBADMSG     several descriptors came
 *   -EPERM       the descriptor refers to a file that is neither in memory nor a device
 *   -EDQUOT      earlier files of this user keep too many receivers from ending
 *   -errno       the receiver cannot be started or reached
 */
int receiver_read(int connection, uid_t account, void *bytes, size_t size, enum fd_kind *ret_kind,
	int *ret_fd);

/* The process itself: serves the socket until the server closes it. Returns the exit status. */
int receiver_run(int sock);

#endif
