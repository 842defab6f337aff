/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REGISTERED_H
#define REGISTERED_H

/*
 * Memory of the program's own that it has registered. Where the GPU reaches it
 * it has another address, an alias, which memory_find() knows. Any thread.
 */

#include "memory.h"

/* A copy of the range that `address' lies in; false: none. */
bool registered_find(uint64_t address, struct memory_range *ret_range);

/* The alias of these bytes where they have one; else their address as it is. */
uint64_t registered_translate(uint64_t address, uint64_t size);

/* The other way: where the program has a byte that may be named by its alias. */
uint64_t registered_own(uint64_t address);

/* Forgets what was registered in a context that ends. */
void registered_end_context(const struct context *context);

#endif
