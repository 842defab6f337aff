/* SPDX-License-Identifier: Apache-2.0 */
#ifndef THREAD_H
#define THREAD_H

/* The threads of this library in the program. Any thread. */

/*
 * Starts a thread that is not joined. It never runs the program's handlers of signals that come
 * from outside; it runs those of its own errors, because it calls the program's functions and
 * touches the program's memory. 0 or -errno.
 */
int thread_start(void *(*thread_main)(void *arg), void *arg);

/* The thread's name for tools, at most 15 characters. */
void thread_set_name(const char *name);

#endif
