/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ELF_FILE_H
#define ELF_FILE_H

/*
 * Reads an ELF file of 64 bits for this machine. The file may be damaged: a part
 * that lies outside the file, or that another part contradicts, counts as absent.
 */

#include <elf.h>

#include "base.h"

struct elf_file {
	const uint8_t *bytes; /* mapped read-only */
	size_t size;
	Elf64_Ehdr head;
};

/* What elf_file_init() can say besides 0. */
enum {
	ELF_FILE_NONE = 1, /* not an ELF file */
	ELF_FILE_32,       /* of 32 bits */
	ELF_FILE_MACHINE,  /* for another kind of machine */
	ELF_FILE_DAMAGED,
};

/* Borrows `bytes'. */
int elf_file_init(struct elf_file *file, const uint8_t *bytes, size_t size);

/* Maps the file, also if its contents are unusable. One of the above, or -errno. */
int elf_file_open(struct elf_file *file, const char *path);
void elf_file_close(struct elf_file *file);

/* The path of the program's loader; NULL: the file has none. */
const char *elf_file_interpreter(const struct elf_file *file);

/* Whether a function is defined in the file, for others or not. */
bool elf_file_defines(const struct elf_file *file, const char *function);

/* Whether the file asks other files for a function. */
bool elf_file_imports(const struct elf_file *file, const char *function);

/* Whether these bytes are in the file. */
bool elf_file_contains(const struct elf_file *file, const char *text);

/* Finds a note by its owner and type: its contents, if they have `size' bytes, else NULL. */
const void *elf_file_note(
	const struct elf_file *file, const char *owner, uint32_t type, size_t size);

/* The address of the pointer that the loader sets to an imported function; 0: there is none. */
uint64_t elf_file_import_slot(const struct elf_file *file, const char *function);

/* The next segment of code; `*i' counts from 0. False: no segment is left. */
bool elf_file_code(const struct elf_file *file, unsigned *i, const uint8_t **ret_bytes,
	size_t *ret_size, uint64_t *ret_address);

#endif
