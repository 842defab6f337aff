/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WORKER_POOL_H
#define WORKER_POOL_H

/*
 * Threads of ours that help a call with a large copy: at most WORKER_POOL_MAX, with
 * every signal blocked, made when they are first of use and gone when idle.
 */

/*
 * With seven a copy of 256 MiB is 1.7 times as fast, and neighbours' launches late: their p99
 * is 2.4 times that of quiet, with two 1.6 times (measured; the bus and the driver's locks are
 * everybody's).
 */
#define WORKER_POOL_MAX 2u

/*
 * Runs `work(arg)' in this thread and in up to `n_helpers' of ours at once, and
 * returns when all have returned. One alone has to be able to do all of it: the
 * team may be busy for another thread, or impossible to make. Any thread.
 */
void worker_pool_run(void (*work)(void *arg), void *arg, unsigned n_helpers);

#endif
