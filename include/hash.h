/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HASH_H
#define HASH_H

/*
 * FNV-1a, 64 bits: for comparisons in which a confusion of two values does no harm. It is no
 * protection against somebody who looks for two values with the same hash.
 */

#include <stddef.h>
#include <stdint.h>

#define HASH_START UINT64_C(0xcbf29ce484222325)

/* Continues a hash, which begins with HASH_START. */
static inline uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++)
		hash = (hash ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3);
	return hash;
}

#endif
