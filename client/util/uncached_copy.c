/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A copy that leaves the caches to other data. Any thread.
 */

#include "uncached_copy.h"

#include <stdint.h>
#include <string.h>

#include "base.h"

#if defined(__SSE2__)

#include <emmintrin.h>

#define VECTOR sizeof(__m128i)
#define LINE (4 * VECTOR)

static void copy_line(__m128i *dst, const __m128i *src)
{
	__m128i a = _mm_loadu_si128(src), b = _mm_loadu_si128(src + 1);
	__m128i c = _mm_loadu_si128(src + 2), d = _mm_loadu_si128(src + 3);

	_mm_stream_si128(dst, a);
	_mm_stream_si128(dst + 1, b);
	_mm_stream_si128(dst + 2, c);
	_mm_stream_si128(dst + 3, d);
}

void uncached_copy(void *dst, const void *src, size_t n)
{
	size_t head = MIN(-(uintptr_t)dst % VECTOR, n), lines = (n - head) / LINE;
	uint8_t *to = (uint8_t *)dst + head;
	const uint8_t *from = (const uint8_t *)src + head;

	memcpy(dst, src, head);
	for (size_t i = 0; i < lines; i++)
		copy_line((__m128i *)(to + i * LINE), (const __m128i *)(from + i * LINE));
	/* Another thread that learns of the copy finds the bytes. */
	_mm_sfence();
	memcpy(to + lines * LINE, from + lines * LINE, n - head - lines * LINE);
}

#else

void uncached_copy(void *dst, const void *src, size_t n)
{
	memcpy(dst, src, n);
}

#endif
