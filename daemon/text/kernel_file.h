/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNEL_FILE_H
#define KERNEL_FILE_H

#include "base.h"

/*
 * Reads a file of the kernel, such as one of /proc, which answers at once. `text' gets at most
 * `size' bytes with their NUL; the rest of the file is left out. 0 or -errno. Any thread.
 */
int kernel_file_read(const char *path, char *text, size_t size);

#endif
