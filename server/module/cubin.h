/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUBIN_H
#define CUBIN_H

/*
 * The variables of __managed__ in a cubin. The driver would place them at addresses of its
 * choice, in this process alone. Here they are placed where the client has memory for them:
 * what the loader would write into code and constants is written in advance, and the driver
 * has no managed variable to make.
 *
 * Any thread. The bytes come from a client and are not trusted.
 */

#include "base.h"

struct cubin_variable {
	const char *name; /* in the bytes, NUL-terminated */
	uint64_t size;
	uint64_t offset;        /* from the common start address */
	const uint8_t *initial; /* in the bytes; NULL: zeros */
	uint32_t symbol;        /* its number */
};

struct cubin {
	uint8_t *bytes; /* owned */
	size_t size;
	struct cubin_variable *variables; /* owned */
	uint32_t n_variables;
	uint64_t total; /* bytes of all variables; 0: there are none */
};

/*
 * Finds the variables in `bytes', which it takes only on success; a NUL follows them.
 * -EBADMSG: not a cubin that could run, or a broken one. -ENOTSUP: variables of a form that
 * nvcc does not make. -ENOMEM.
 */
int cubin_read(uint8_t *bytes, size_t size, struct cubin *ret_cubin);

/*
 * Places the variables at `address', where `size' bytes are reserved for them. Only once.
 * After a failure the bytes cannot be used. -ENOTSUP: something refers to a variable in an
 * unknown way. -ENOSPC: `size' is too small. -EBADMSG.
 */
int cubin_place(struct cubin *cubin, uint64_t address, uint64_t size);

/* Writes the initial values into `memory', which has the total size and holds zeros. */
void cubin_initialise(const struct cubin *cubin, uint8_t *memory);

/* NULL: there is no variable with that name. */
const struct cubin_variable *cubin_find(const struct cubin *cubin, const char *name);

/*
 * Bytes of a GPU's memory for all variables of a cubin, of either kind. 0 if the bytes are
 * not a cubin.
 */
uint64_t cubin_variables(const uint8_t *bytes, size_t size);

void cubin_fini(struct cubin *cubin);

#endif
