/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNCACHED_COPY_H
#define UNCACHED_COPY_H

/*
 * As memcpy(), for many bytes that this processor does not read soon. On x86-64 the stores
 * bypass the caches, so the memory need not be read before it is written: with three threads
 * a copy out of the staging memory is 1.3 times as fast (measured on an H100's machine), and
 * the caches keep what other threads use.
 */

#include <stddef.h>

void uncached_copy(void *dst, const void *src, size_t n);

#endif
