/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MEMORY_FILE_H
#define MEMORY_FILE_H

/*
 * Files of memory with bytes for another server, which reads them by system calls only: a file
 * that is shorter than it was said to be is an error, and no signal. Any thread.
 */

#include "base.h"

/* A descriptor, or -errno. */
int memory_file_new(const char *name);

/* Whether the descriptor of another process is such a file, of so many bytes. */
bool memory_file_ok(int fd, uint64_t size);

/* All of the bytes. 0 or -errno. */
int memory_file_write(int fd, const void *bytes, uint64_t size, uint64_t at);
int memory_file_read(int fd, void *bytes, uint64_t size, uint64_t at);

#endif
