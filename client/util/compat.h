/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COMPAT_H
#define COMPAT_H

/*
 * Old versions of libc's symbols. A preloaded library that needs a missing version
 * stops every program. So this library needs nothing newer than GLIBC_2.17, also
 * when it is built where these functions have moved. Files that call them include
 * this header.
 *
 * Before glibc 2.34 these functions were in libdl and libpthread, which a program
 * need not load: they are weak symbols, and callers test them.
 */

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

#if defined(__x86_64__)
#define COMPAT_VERSION "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define COMPAT_VERSION "GLIBC_2.17"
#endif

/* Sanitizers replace these functions with their own. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COMPAT_OLD(symbol)
#else
#define COMPAT_OLD(symbol) __asm__(".symver " #symbol "," #symbol "@" COMPAT_VERSION);
#endif

#define COMPAT_WEAK(symbol)                                                                        \
	COMPAT_OLD(symbol)                                                                         \
	extern __typeof__(symbol) symbol __attribute__((weak)); /* NOLINT: a declaration */

COMPAT_WEAK(dladdr)
COMPAT_WEAK(dlsym)
COMPAT_WEAK(dlerror)
COMPAT_WEAK(pthread_create)
COMPAT_WEAK(pthread_attr_getstacksize)
COMPAT_WEAK(pthread_attr_setstacksize)
COMPAT_WEAK(pthread_key_create)
COMPAT_WEAK(pthread_mutex_trylock)
COMPAT_WEAK(pthread_setspecific)

/* reallocarray(), which glibc 2.17 lacks. NULL: out of memory, and `array' is unchanged. */
static inline void *array_resize(void *array, size_t n, size_t size)
{
	size_t bytes;

	return __builtin_mul_overflow(n, size, &bytes) ? NULL : realloc(array, bytes);
}

#endif
