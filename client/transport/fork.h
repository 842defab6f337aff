/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FORK_H
#define FORK_H

/*
 * After fork() the child has our memory and none of our threads, and its
 * parent's connection. It must use neither.
 */

/* From now on a forked child learns what it is. Once a process. */
void fork_watch(void);

#endif
