/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FIND_CUDA_H
#define FIND_CUDA_H

/*
 * Finds the machine's real libcuda: one rule for the server and for a program
 * without it. A file with the note of the client library is never chosen.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Owner name and type of the ELF note by which the client library recognises itself. */
#define FIND_CUDA_NOTE_NAME "mps-client"
#define FIND_CUDA_NOTE_TYPE 1

/* The contents of the note: what the client library says to a daemon about its version. */
struct find_cuda_note {
	uint32_t version; /* FRAME_VERSION */
	uint32_t reserved;
	uint64_t spec_hash;
};

/* Room for a text with every path that was tried. */
#define FIND_CUDA_WHY_MAX 2048

/*
 * Writes the real path of libcuda.so.1 and returns 0. -ENOENT: there is none, and
 * `why' says which paths were tried. Keeps no file open.
 */
int find_cuda(char *ret_path, size_t path_size, char *why, size_t why_size);

/*
 * Whether the loader of this machine finds the client library before the real libcuda, in
 * programs that were not told to use it (docs/everywhere.md).
 */
bool find_cuda_is_replaced(void);

/* What to do if there is none: a sentence without its full stop, short enough for a frame. */
const char *find_cuda_advice(void);

#endif
