/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COREDUMP_H
#define COREDUMP_H

/* A program's settings for core dumps of a context. Any thread. */

#include "client/util/api.h"

struct context;

/* `context' NULL: the settings of the process. `*size' is that of the value. */
CUresult coredump_get(
	const struct context *context, CUcoredumpSettings attribute, void *value, size_t *size);
CUresult coredump_set(
	struct context *context, CUcoredumpSettings attribute, const void *value, size_t *size);

/* Frees the settings of a context that ends. */
void coredump_end_context(struct context *context);

#endif
