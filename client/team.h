/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEAM_H
#define TEAM_H

/*
 * Threads of ours that help a call with a large copy: at most TEAM_MAX, with
 * every signal blocked, made when they are first of use and gone when idle.
 */

#define TEAM_MAX 7u

/*
 * Runs `work(arg)' in this thread and in up to `n_helpers' of ours at once, and
 * returns when all have returned. One alone has to be able to do all of it: the
 * team may be busy for another thread, or impossible to make. Any thread.
 */
void team_run(void (*work)(void *arg), void *arg, unsigned n_helpers);

#endif
