/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COREDUMP_H
#define COREDUMP_H

/*
 * What a program has set of core dumps of a context. Any thread.
 */

struct context;

/* Forgets what was set of a context that goes. */
void coredump_end_context(struct context *context);

#endif
