/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ASYNC_CLOSE_H
#define ASYNC_CLOSE_H

/*
 * Closes descriptors that another process has chosen, or whose receive queue
 * may hold such descriptors. The last close of a file can take as long as that
 * process likes: a TCP socket waits for its peer (SO_LINGER), a FUSE file for
 * the process that serves it. Therefore threads of their own do it, and nobody
 * waits for them.
 */

/*
 * Starts the first of the threads, after the process's last fork: from then on a
 * close works also where no more threads can be had. 0 or -errno.
 */
int async_close_start(void);

/* Takes `fd'; a negative one is ignored. Never blocks and keeps errno. Any thread. */
void async_close(int fd);

/* The same for _cleanup_(). */
void async_closep(int *fd);

/* Descriptors that are not closed yet: for tests. */
unsigned async_close_pending(void);

#endif
