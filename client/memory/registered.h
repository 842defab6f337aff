/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REGISTERED_H
#define REGISTERED_H

/*
 * The program's own memory that it has registered. If the GPU can access it, it
 * does so at another address, an alias, which memory_find() knows. Any thread.
 */

#include "memory.h"

/* A copy of the range that contains `address'; false: none. */
bool registered_find(uint64_t address, struct memory_range *ret_range);

/* The alias of these bytes if they have one; otherwise their address. */
uint64_t registered_translate(uint64_t address, uint64_t size);

/*
 * Gives the registered range that contains `address' an alias if it has none, which may
 * exchange its pages. CUDA_ERROR_NOT_SUPPORTED: that is not possible, and the log says why.
 */
CUresult registered_reach(uint64_t address);

/* The reverse: the program's address of a byte that may be named by its alias. */
uint64_t registered_own(uint64_t address);

/* Forgets memory that was registered in a context that ends. */
void registered_end_context(const struct context *context);

#endif
