/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PTX_TEXTS_H
#define PTX_TEXTS_H

/*
 * The texts of PTX that an image is made of: one, or several that are linked.
 * What the software GPU's linker makes is an ELF file for NVIDIA's machine
 * with its texts in a section, which any loader takes for a cubin.
 */

#include <stdbool.h>
#include <stddef.h>

struct ptx_log;

struct ptx_texts {
	char **texts; /* NUL-terminated */
	size_t n;
};

/*
 * Adds what is in an image: a text (NUL within size), the best PTX of a fatbin,
 * the texts of a linked file. On failure the log says why.
 * -ENOEXEC: no PTX in it. -EINVAL: malformed. -ENOMEM.
 */
int ptx_texts_add(struct ptx_texts *texts, const void *image, size_t size, struct ptx_log *log);

/* A file of all of them; the caller frees it. 0 or -ENOMEM. */
int ptx_texts_link(const struct ptx_texts *texts, void **ret_image, size_t *ret_size);

void ptx_texts_fini(struct ptx_texts *texts);

#endif
