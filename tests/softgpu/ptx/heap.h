/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PTX_HEAP_H
#define PTX_HEAP_H

/*
 * The heap of kernels: malloc and free of device code. A process has one heap for
 * all running kernels; a block lives until it is freed.
 */

#include <stdbool.h>
#include <stdint.h>

/* The size of the whole heap, independent of the program's limit. */
#define PTX_HEAP_SIZE (64ull << 20)

/* Zeroed memory, aligned to 32 bytes; 0 when the heap is full. */
uint64_t ptx_heap_alloc(uint64_t size);

/* False if `addr' is neither a block of the heap nor 0. */
bool ptx_heap_free(uint64_t address);

/* The part of the heap that has ever been used, if `addr' lies in it. */
bool ptx_heap_lookup(uint64_t addr, uint64_t *ret_start, uint64_t *ret_end);

#endif
