/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MACHINE_CODE_H
#define MACHINE_CODE_H

/*
 * The machine code of an image, as bytes of our own: a cubin of the image, or
 * one that the driver makes of its PTX. A worker, in the context of the GPU.
 */

#include <stdbool.h>
#include <stdint.h>

#include "server/driver/driver.h"

struct device;
struct image;

/*
 * The cubin in the image that the driver would take for this GPU. The caller
 * frees; a NUL lies behind. -ENOEXEC: there is none. -EFBIG: it has more than
 * 64 MiB. -EBADMSG, -ENOMEM.
 */
int machine_code_find(const struct image *image, const struct device *device, uint8_t **ret_bytes,
	size_t *ret_size);

/*
 * The same of what the driver's linker makes of the PTX in it; what it says if that fails.
 * CUDA_ERROR_NO_BINARY_FOR_GPU: there is none.
 */
CUresult machine_code_make(const struct image *image, const struct device *device,
	uint8_t **ret_bytes, size_t *ret_size);

/* What of a fatbin may be unpacked at a time, by the driver or by us; of other images nothing. */
uint64_t machine_code_unpacked(const struct image *image);

/* What a driver that has loaded the image keeps for its code (kept.h). */
uint64_t machine_code_kept(const struct image *image);

/*
 * Bytes of the GPU's memory that the variables of the image take there, as far as its code for
 * that GPU or its PTX tells. 0 where we have no memory to look. Unpacks as machine_code_find().
 */
uint64_t machine_code_variables(const struct image *image, const struct device *device);

/* Whether the PTX of an image, which is not compiled for this, has that word in it. */
bool machine_code_would_mention(const struct image *image, const char *word);

/*
 * Whether code of the image can print: it calls vprintf. Looked for once, in small images, at the
 * cost of a block of the session's.
 */
bool image_prints(struct image *image, void *payer);

#endif
