/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUBIN_FILE_H
#define CUBIN_FILE_H

/*
 * A cubin as a file: sections, symbols and relocations, for the files that place variables. Any
 * thread. The bytes come from a client and are not trusted.
 */

#include <elf.h>

#include "base.h"

/* In a symbol's st_other. */
#define CUBIN_MANAGED 0x04
#define CUBIN_ENTRY 0x10 /* a kernel */

/* How an address is written. */
enum cubin_relocation {
	RELOCATE_64 = 0x02,         /* all of it */
	RELOCATE_GENERIC_64 = 0x04, /* all of it, in the value of a variable */
	RELOCATE_LOW_32 = 0x38,     /* half of it, the second word of an instruction */
	RELOCATE_HIGH_32 = 0x39,    /* the other half */
};

/* The first symbol table; later ones are not used. */
struct cubin_file {
	uint8_t *bytes; /* not owned */
	size_t size;
	Elf64_Ehdr head;
	Elf64_Shdr symbols, names;
	uint32_t symbols_at; /* its section number */
};

/* A table of relocations, and the section that its entries change. */
struct cubin_table {
	Elf64_Shdr section, target;
	bool has_addends;
};

/* -EBADMSG: not a cubin that could run, or a broken one. */
int cubin_file_open(uint8_t *bytes, size_t size, struct cubin_file *ret_file);

/* The same without the symbols, of which nothing is read. */
int cubin_file_begin(uint8_t *bytes, size_t size, struct cubin_file *ret_file);

/* -EBADMSG: there is no such section, or its bytes lie outside the file. */
int cubin_file_section(const struct cubin_file *file, uint32_t i, Elf64_Shdr *ret_section);

/* Whether it holds variables in global memory, zeroed or with values. `names': its table of names.
 */
bool cubin_file_is_of_variables(
	const struct cubin_file *file, const Elf64_Shdr *section, const Elf64_Shdr *names);

uint32_t cubin_file_n_symbols(const struct cubin_file *file);

/* `i' is below their number. */
void cubin_file_symbol(const struct cubin_file *file, uint32_t i, Elf64_Sym *ret_symbol);

/* NULL: the name lies outside the table. */
const char *cubin_file_name(const struct cubin_file *file, const Elf64_Sym *symbol);

/*
 * Resolves relocations as the loader would, and removes them from their tables. `find' says for
 * each entry: 1, *ret_address is the address of its symbol; 0, the entry stays; or -errno.
 * -ENOTSUP: an address would have to be written in an unknown way, or a table is for other symbols.
 * -EBADMSG.
 */
int cubin_file_resolve(struct cubin_file *file,
	int (*find)(void *arg, const struct cubin_file *file, const struct cubin_table *table,
		const Elf64_Rela *relocation, uint64_t *ret_address),
	void *arg);

#endif
