/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PTX_HEAP_H
#define PTX_HEAP_H

/*
 * The heap of kernels: malloc and free of device code. There is one in a
 * process, which any running kernel may use; its blocks live until freed.
 */

#include <stdbool.h>
#include <stdint.h>

/* All of it, whatever a program has asked for. */
#define PTX_HEAP_SIZE (64ull << 20)

/* Zeroed memory, aligned to 32 bytes; 0 when the heap is full. */
uint64_t ptx_heap_alloc(uint64_t size);

/* False if that is no block of the heap, 0 apart. */
bool ptx_heap_free(uint64_t address);

/* The part of the heap that was ever given out, if `addr' lies in it. */
bool ptx_heap_lookup(uint64_t addr, uint64_t *ret_start, uint64_t *ret_end);

#endif
