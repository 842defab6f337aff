/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ALIAS_H
#define ALIAS_H

/*
 * Aliases: where the GPU reaches shared memory that the program has registered.
 * Any thread.
 */

#include "memory.h"

/*
 * Gives a range of registered memory its alias, if the file behind it can be
 * had, and notes that as memory of the same context and id. Else `range->other'
 * stays 0, and the log says why.
 */
void alias_new(struct memory_range *range);

/* The work that uses it is done. */
CUresult alias_end(uint64_t address);

#endif
