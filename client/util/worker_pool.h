/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WORKER_POOL_H
#define WORKER_POOL_H

/*
 * Helper threads for large copies: at most WORKER_POOL_MAX, with all signals
 * blocked. The pool creates them when it first needs them; idle helpers end.
 */

/*
 * With seven helpers a copy of 256 MiB is 1.7 times as fast, but the p99 latency of
 * neighbours' launches is 2.4 times that on a quiet machine; with two helpers it is
 * 1.6 times (measured: all clients share the bus and the driver's locks).
 */
#define WORKER_POOL_MAX 2u

/*
 * Runs `work(arg)' in this thread and in up to `n_helpers' helpers at once, and
 * returns when all have returned. `work' in one thread must be able to do
 * everything: the pool may be busy for another thread, or its threads cannot be
 * created. Any thread.
 */
void worker_pool_run(void (*work)(void *arg), void *arg, unsigned n_helpers);

#endif
