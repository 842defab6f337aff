/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COMPAT_H
#define COMPAT_H

/*
 * Old versions of libc's symbols. An unmet version in a preloaded library stops
 * every program, so nothing newer than GLIBC_2.17 may be asked for, also when
 * built where these functions have moved. Included by who calls them.
 *
 * Before glibc 2.34 they were in libdl and libpthread, which a program need
 * not have loaded: they are weak, and callers test them.
 */

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

#if defined(__x86_64__)
#define COMPAT_VERSION "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define COMPAT_VERSION "GLIBC_2.17"
#endif

/* Sanitizers put their own functions in place of these. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COMPAT_OLD(symbol)
#else
#define COMPAT_OLD(symbol) __asm__(".symver " #symbol "," #symbol "@" COMPAT_VERSION);
#endif

#define COMPAT_WEAK(symbol)                                                                        \
	COMPAT_OLD(symbol)                                                                         \
	extern __typeof__(symbol) symbol __attribute__((weak)); /* NOLINT: a declaration */

COMPAT_WEAK(dlsym)
COMPAT_WEAK(dlerror)
COMPAT_WEAK(pthread_create)
COMPAT_WEAK(pthread_detach)
COMPAT_WEAK(pthread_key_create)
COMPAT_WEAK(pthread_setspecific)

/* reallocarray(), which glibc 2.17 has not. NULL: no memory, and `array' is as it was. */
static inline void *array_resize(void *array, size_t n, size_t size)
{
	size_t bytes;

	return __builtin_mul_overflow(n, size, &bytes) ? NULL : realloc(array, bytes);
}

#endif
