/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PTX_TEXTS_H
#define PTX_TEXTS_H

/*
 * The PTX texts of an image: one text, or several that are linked.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ptx_log;

struct ptx_texts {
	char **texts; /* NUL-terminated */
	size_t n;
	bool is_linked; /* by a linker; else a whole program */
	/* The addresses of the variables in order, 0 for one that is not placed; NULL: all 0. */
	uint64_t *placed;
	size_t n_placed;
	uint32_t max_regs; /* the linker's limit of registers; 0: no limit */
};

/*
 * Adds the texts of an image: a text (NUL within size), the best PTX of a fatbin, the
 * texts of a linked file. On failure the log has the reason.
 * -ENOEXEC: no PTX in it. -EINVAL: malformed. -ENOMEM.
 */
int ptx_texts_add(struct ptx_texts *texts, const void *image, size_t size, struct ptx_log *log);

void ptx_texts_fini(struct ptx_texts *texts);

#endif
