/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COREDUMP_H
#define COREDUMP_H

/* A program's settings for core dumps of a context. Any thread. */

struct context;

/* Frees the settings of a context that ends. */
void coredump_end_context(struct context *context);

#endif
