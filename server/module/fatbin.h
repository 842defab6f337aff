/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FATBIN_H
#define FATBIN_H

/*
 * Reads a fatbin: the container that nvcc makes, with an entry for each form
 * and architecture of the same code. Entries may be packed with LZ4 or zstd.
 */

#include <stddef.h>
#include <stdint.h>

/* Whether the image starts like a fatbin. */
int fatbin_is(const void *image, size_t size);

/*
 * Finds the PTX of the highest architecture that is at most `max_arch' (90 is sm_90) and
 * unpacks it. If only machine code is that low, as in a build for all architectures, takes
 * the lowest PTX above instead. On success *ret_text is NUL-terminated; the caller frees it.
 * -ENOEXEC: no such PTX. -EBADMSG: malformed. -ENOMEM.
 */
int fatbin_find_ptx(
	const void *image, size_t size, uint32_t max_arch, char **ret_text, size_t *ret_len);

/*
 * The same for the best machine code that a GPU of `arch' runs. The caller frees it; a NUL
 * follows it. -ENOEXEC: there is none, or it is larger than 64 MiB.
 */
int fatbin_find_cubin(
	const void *image, size_t size, uint32_t arch, char **ret_bytes, size_t *ret_size);

/*
 * The unpacked size of the largest entry of machine code, and of the largest PTX: a driver
 * may unpack that much for one GPU. A malformed image counts as far as it can be read.
 */
void fatbin_largest(const void *image, size_t size, uint64_t *ret_code, uint64_t *ret_text);

/*
 * Whether an entry, unpacked, contains the word; any other image is searched in place. 1, 0,
 * or -errno as above.
 */
int fatbin_mentions(const void *image, size_t size, const char *word);

#endif
