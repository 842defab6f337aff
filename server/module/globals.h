/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GLOBALS_H
#define GLOBALS_H

/*
 * The variables of a cubin in global memory (PTX: `.global'), with string literals and virtual
 * tables. The loader would place them at addresses of its choice. Here they are placed in memory
 * of the session: what the loader would write into code, constants and values is written in
 * advance. The loader makes the variables, too, but nothing uses its copy.
 *
 * Sections keep their form, so that all distances within a section stay as they are.
 *
 * Any thread. The bytes come from a client and are not trusted.
 */

#include "base.h"

/* nvcc makes two: zeros, and initial values. */
#define GLOBALS_SECTIONS 4u

/* The loader's copy takes memory, too. */
#define GLOBALS_SIZE_MAX ((uint64_t)16 << 20)

/* The most that globals_find_loaded() does: names that it compares, or bytes that it looks at. */
#define GLOBALS_STEPS ((uint64_t)1 << 28)

/* Of each section, and so what the common address has to be a multiple of. */
#define GLOBALS_ALIGN 256u

struct globals_section {
	uint32_t number;
	uint64_t first;  /* the address of its first byte, as symbols count */
	uint64_t offset; /* from the common address */
	uint64_t size;
};

struct globals {
	uint8_t *bytes; /* owned */
	size_t size;
	struct globals_section sections[GLOBALS_SECTIONS];
	uint32_t n_sections;
	uint64_t total; /* bytes of all sections; 0: there are no variables */
	/* Known after globals_place(): */
	bool takes_functions; /* code stores addresses of functions */
	bool has_loaded;      /* values hold what only the loader knows */
};

/*
 * Finds the variables in `bytes', which it takes only on success; a NUL follows them. -EBADMSG:
 * not a cubin that could run, or a broken one. -EFBIG: more than GLOBALS_SIZE_MAX. -EPERM: some
 * are __managed__. -ENOTSUP: sections of a form that nvcc does not make.
 */
int globals_read(uint8_t *bytes, size_t size, struct globals *ret_globals);

/*
 * Places the variables at `address', a multiple of GLOBALS_ALIGN. Only once. After a failure the
 * bytes cannot be used. -ENOTSUP: something refers to a variable in an unknown way. -EBADMSG.
 *
 * In linked code, values such as virtual tables hold addresses of functions. Only the loader knows
 * these, and those of constants: it writes them into its copy of the section.
 */
int globals_place(struct globals *globals, uint64_t address);

/*
 * Whether linked code stores addresses of functions, which differ by process, in memory or in
 * registers. Also if the bytes are not understood. Changes nothing in them.
 */
bool globals_takes_functions(uint8_t *bytes, size_t size);

/* Writes the initial values into `memory', which has the total size and holds zeros. */
void globals_initialise(const struct globals *globals, uint8_t *memory);

/* -ENOENT: no variable has that name. */
int globals_find(
	const struct globals *globals, const char *name, uint64_t *ret_offset, uint64_t *ret_size);

/*
 * Calls `find' for variables whose values hold what only the loader knows: 0, the loader's copy of
 * that variable is known; -ENOENT, the loader does not know the name; or another error. `marks' has
 * the total size and holds zeros, also afterwards if the result is 0. -ENOENT: a value is in no
 * variable that `find' knows, or in one whose name is not unique. -EFBIG: names or variables are so
 * many that the search would take long.
 */
int globals_find_loaded(const struct globals *globals, uint8_t *marks,
	int (*find)(void *arg, const char *name, uint64_t offset, uint64_t size), void *arg);

void globals_fini(struct globals *globals);

#endif
