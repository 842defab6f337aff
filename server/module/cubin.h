/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUBIN_H
#define CUBIN_H

/*
 * The variables of __managed__ in a cubin. The driver would make them at
 * addresses of its choice, in this process alone; here they are put where the
 * client has memory for them: what the loader would have written into code and
 * constants is written before, and no variable is left to make.
 *
 * Any thread. The bytes are a client's: nothing of them is believed.
 */

#include "base.h"

struct cubin_variable {
	const char *name; /* in the bytes, NUL-terminated */
	uint64_t size;
	uint64_t offset;        /* from where they all begin */
	const uint8_t *initial; /* in the bytes; NULL: zeros */
	uint32_t symbol;        /* its number */
};

struct cubin {
	uint8_t *bytes; /* owned */
	size_t size;
	struct cubin_variable *variables; /* owned */
	uint32_t n_variables;
	uint64_t total; /* what they take, 0 if there are none */
};

/*
 * Finds the variables in `bytes', which it takes on success alone; a NUL lies
 * behind them. -EBADMSG: no cubin that could be run, or a broken one. -ENOTSUP:
 * variables as nvcc makes none. -ENOMEM.
 */
int cubin_read(uint8_t *bytes, size_t size, struct cubin *ret_cubin);

/*
 * Makes them lie at `address' and behind, where `size' bytes are theirs; once.
 * On failure the bytes are of no more use. -ENOTSUP: something refers to one in
 * an unknown way. -ENOSPC: they take more. -EBADMSG.
 */
int cubin_place(struct cubin *cubin, uint64_t address, uint64_t size);

/* Writes their first values into `memory', which has the total and holds zeros. */
void cubin_initialise(const struct cubin *cubin, uint8_t *memory);

/* NULL: there is none of that name. */
const struct cubin_variable *cubin_find(const struct cubin *cubin, const char *name);

/* Bytes of a GPU's memory that all variables of a cubin take, of either kind; 0 of other bytes. */
uint64_t cubin_variables(const uint8_t *bytes, size_t size);

void cubin_fini(struct cubin *cubin);

#endif
