/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REGISTERED_H
#define REGISTERED_H

/*
 * Memory of the program's own that it has registered: known, but not reached
 * by the GPU, so memory_find() knows none of it. Any thread.
 */

#include "memory.h"

/* A copy of the range that `address' lies in; false: none. */
bool registered_find(uint64_t address, struct memory_range *ret_range);

/* Forgets what was registered in a context that ends. */
void registered_end_context(const struct context *context);

#endif
