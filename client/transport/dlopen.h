/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DLOPEN_H
#define DLOPEN_H

/*
 * dlopen() of a program that has this library preloaded. Many look for the driver by
 * another name than its own (libcuda.so, or a path), under which the loader would give
 * them the machine's beside us: they get this library. Any thread.
 */

typedef void *dlopen_fn(const char *file, int mode);

/* libc's, for who means another file than this one. NULL: the program has none. */
dlopen_fn *dlopen_next(void);

#endif
