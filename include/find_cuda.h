/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FIND_CUDA_H
#define FIND_CUDA_H

/*
 * Which libcuda is the machine's own: one rule for the server and for a
 * program that runs without it. A file that carries our note is never it.
 */

#include <stddef.h>

/* The owner name and type of the ELF note in the client library, by which it knows itself. */
#define FIND_CUDA_NOTE_NAME "mps-client"
#define FIND_CUDA_NOTE_TYPE 1

/* Room for a text that names every path tried. */
#define FIND_CUDA_WHY_MAX 2048

/*
 * Writes the real path of libcuda.so.1 and returns 0. -ENOENT: there is none,
 * and `why' says what was tried where and what to do. Opens nothing for good.
 */
int find_cuda(char *ret_path, size_t path_size, char *why, size_t why_size);

#endif
