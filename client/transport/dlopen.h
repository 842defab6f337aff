/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DLOPEN_H
#define DLOPEN_H

/*
 * dlopen() for programs that have this library preloaded. Many programs open the
 * driver by another name (libcuda.so, or a path). The loader would then load the
 * machine's driver beside this library; instead these programs get this library.
 * Any thread.
 */

typedef void *dlopen_fn(const char *file, int mode);

/* libc's dlopen(), for all other files. NULL: the program has no dlopen(). */
dlopen_fn *dlopen_next(void);

#endif
