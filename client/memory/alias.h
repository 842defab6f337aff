/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ALIAS_H
#define ALIAS_H

/*
 * Aliases: the addresses at which the GPU accesses shared memory that the program
 * has registered. Any thread.
 */

#include "memory.h"
#include "client/util/mapping.h"

/*
 * Gives a registered range its alias, if the server can get the file behind it, and
 * adds the alias to the map with the same context and ID. Otherwise `range->other'
 * stays 0, and the log says why.
 */
void alias_new(struct memory_range *range);

/* The same for a range whose file is known; false: the range has no alias. */
bool alias_new_of(struct memory_range *range, const struct mapping *mapping);

/* Called after all work that uses it is done. */
CUresult alias_end(uint64_t address);

#endif
