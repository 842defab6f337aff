/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MANAGED_H
#define MANAGED_H

/*
 * Libraries with variables of __managed__, which kernels and the program reach
 * by one address: they are loaded anew, from machine code that has them in
 * pinned memory of the client's (cubin.h). The session's worker only.
 */

#include <stdbool.h>
#include <stdint.h>

struct device;
struct library;
struct managed;

/*
 * Whether there are some in the library, which its client had better place before it
 * asks for others. Of small images alone: a look takes 1 ms a MiB.
 */
bool managed_come_first(struct library *library, const struct device *device);

/* Bytes of them that lie in the client's memory; NULL: none. */
uint64_t managed_size(const struct managed *managed);

/* Its library is unloaded; NULL is fine. */
void managed_free(struct managed *managed);

#endif
