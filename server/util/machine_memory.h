/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MACHINE_MEMORY_H
#define MACHINE_MEMORY_H

#include <stdint.h>

/*
 * How many bytes of memory this process may use: those of the machine or of its cgroups,
 * whichever is less. `root' is prefixed to the paths of the files; it is "" except in tests.
 * 0: the files cannot be read. Any thread.
 */
uint64_t machine_memory(const char *root);

/*
 * How many of them nobody uses now, except for files that the system can drop. What the cgroups
 * use is not counted: most of that is such files.
 */
uint64_t machine_memory_free(const char *root);

#endif
