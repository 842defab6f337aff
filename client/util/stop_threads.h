/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STOP_THREADS_H
#define STOP_THREADS_H

/*
 * Runs a function while all other threads of this process are stopped. Any thread.
 *
 * A child that shares this process's memory traces the threads with ptrace(), as
 * LeakSanitizer does. To a thread it looks like SIGSTOP and SIGCONT: the kernel
 * restarts its system call, except those that signal(7) lists (epoll_wait() and a
 * few more return EINTR). A thread is stopped between instructions of the program,
 * never in the middle of a system call. A process with a single thread needs no child.
 */

/*
 * Returns what `work' returns, or without calling it: -EPERM if a debugger or a
 * security policy prevents it, -EBUSY if a thread does not stop, -EMFILE if there are
 * too many threads, -ENOSYS with glibc before 2.25, or another -errno.
 *
 * `work' may run in the child, with the caller's thread-local variables and with all
 * signals blocked. It calls nothing that takes a lock: of libc only syscall().
 */
int stop_threads_for(int (*work)(void *arg), void *arg);

#endif
