/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PTX_TEXTS_H
#define PTX_TEXTS_H

/*
 * The texts of PTX that an image is made of: one, or several that are linked.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ptx_log;

struct ptx_texts {
	char **texts; /* NUL-terminated */
	size_t n;
	/* Where the variables of __managed__ are, in their order; NULL: nobody has placed them. */
	uint64_t *placed;
	size_t n_placed;
};

/*
 * Adds what is in an image: a text (NUL within size), the best PTX of a fatbin,
 * the texts of a linked file. On failure the log says why.
 * -ENOEXEC: no PTX in it. -EINVAL: malformed. -ENOMEM.
 */
int ptx_texts_add(struct ptx_texts *texts, const void *image, size_t size, struct ptx_log *log);

void ptx_texts_fini(struct ptx_texts *texts);

#endif
