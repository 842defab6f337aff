/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ASYNC_CLOSE_H
#define ASYNC_CLOSE_H

/*
 * Closes descriptors that another process has chosen, or whose receive queue
 * may hold such descriptors. That process can delay the last close of a file for
 * as long as it likes: a TCP socket waits for its peer (SO_LINGER), a FUSE file
 * for the process that serves it. Therefore separate threads close, and no thread
 * waits for them.
 */

/*
 * Starts the first of the threads, after the process's last fork. From then on a
 * close works even if no more threads can be started. 0 or -errno.
 */
int async_close_start(void);

/* Takes `fd'; ignores a negative one. Never blocks and keeps errno. Any thread. */
void async_close(int fd);

/* The same for _cleanup_(). */
void async_closep(int *fd);

/* The number of descriptors that are not closed yet, for tests. */
unsigned async_close_pending(void);

#endif
