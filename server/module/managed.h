/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MANAGED_H
#define MANAGED_H

/*
 * Libraries with variables of __managed__, which kernels and the program reach at the same
 * address. They are reloaded from machine code that has the variables in pinned memory of
 * the client (cubin.h). The session's worker only.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct device;
struct library;
struct managed;

/*
 * Whether the library has such variables, so that its client should place them before it
 * requests other variables. Only for small images: a search takes 1 ms per MiB.
 */
bool managed_come_first(struct library *library, const struct device *device);

/* How many bytes of them lie in the client's memory. `managed' may be NULL. */
uint64_t managed_size(const struct managed *managed);

/* The changed code; managed_size() is not 0. */
const uint8_t *managed_code(const struct managed *managed, size_t *ret_size);

/* The library is unloaded. NULL is fine. */
void managed_free(struct managed *managed);

#endif
