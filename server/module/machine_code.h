/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MACHINE_CODE_H
#define MACHINE_CODE_H

/*
 * The machine code of an image, in memory of the server: a cubin in the image, or one that
 * the driver makes from its PTX. A worker, in the context of the GPU.
 */

#include <stdbool.h>
#include <stdint.h>

#include "server/driver/driver.h"

struct device;
struct image;
struct jit;

/*
 * The cubin in the image that the driver would choose for this GPU. The caller frees it; a
 * NUL follows it. -ENOEXEC: there is none. -EFBIG: it has more than 64 MiB. -EBADMSG,
 * -ENOMEM.
 */
int machine_code_find(const struct image *image, const struct device *device, uint8_t **ret_bytes,
	size_t *ret_size);

/*
 * The same for the result of the driver's linker from the PTX; or the linker's error. The linker
 * gets the client's options of `jit' (NULL: none).
 * CUDA_ERROR_NO_BINARY_FOR_GPU: there is no PTX.
 */
CUresult machine_code_make(const struct image *image, const struct device *device,
	const struct jit *jit, uint8_t **ret_bytes, size_t *ret_size);

/*
 * The most host memory that these two take: an image of a few KiB may unpack to 64 MiB. If the
 * code is made from PTX, a linker is needed, too.
 */
uint64_t machine_code_most(const struct image *image, bool is_made);

/* How much of a fatbin the driver or the server may unpack at a time; 0 for other images. */
uint64_t machine_code_unpacked(const struct image *image);

/* What a driver that has loaded the image keeps for its code (kept.h). */
uint64_t machine_code_kept(const struct image *image);

/*
 * Bytes of the GPU's memory for the variables of the image, according to its code for that
 * GPU or its PTX. 0 if there is no memory to look. Unpacks like machine_code_find().
 */
uint64_t machine_code_variables(const struct image *image, const struct device *device);

/*
 * Whether the image, used as it is, keeps something that has another address in another process.
 * 0: nothing; -ENOTSUP: variables; -EXDEV: linked code has addresses of functions. If the image
 * cannot be read, it may have variables.
 */
int machine_code_stays(const struct image *image, const struct device *device);

/* Whether the PTX of an image contains that word. Does not compile it. */
bool machine_code_would_mention(const struct image *image, const char *word);

/*
 * Whether the image's code calls malloc(), as far as its names tell; true if it cannot be read.
 * Searches once, the code that the driver would choose: 0.3 ms for each MiB, and what unpacking
 * takes. False if it was not searched and `may_look' is false.
 */
bool image_allocates(struct image *image, void *payer, bool may_look);

/* What code of an image can do. */
#define IMAGE_PRINTS 2u   /* it calls vprintf */
#define IMAGE_LAUNCHES 4u /* its kernels launch kernels */

/*
 * The abilities of the image's code, by the names in it. Searches once, in small images. The
 * memory is charged to the session's block `payer'.
 */
unsigned image_abilities(struct image *image, void *payer);

#endif
