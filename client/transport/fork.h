/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FORK_H
#define FORK_H

/*
 * After fork() the child has the parent's memory and connection, but none of its
 * threads. It must use neither the connection nor the shared memories. route.c registers
 * the handlers here, and they call route.c.
 */

/* Registers the fork handlers, once per process. */
void fork_watch(void);

#endif
