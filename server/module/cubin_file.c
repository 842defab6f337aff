/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads symbols and relocations of cubins, and writes 8 bytes of a constant or of a variable's
 * value, or 4 of an instruction.
 *
 * Invariant: no byte is used before a check that it lies within the file, and no more table
 * entries are read than the file has space for. A write may hit a head or a name: each is
 * checked whenever it is read, and names end with the file at the latest.
 */

#include "cubin_file.h"

#include <string.h>

#define INSTRUCTION_WORD 4u

static int read_head(const uint8_t *bytes, size_t size, Elf64_Ehdr *ret_head)
{
	if (size < sizeof(*ret_head))
		return -EBADMSG;
	memcpy(ret_head, bytes, sizeof(*ret_head));
	if (memcmp(ret_head->e_ident, ELFMAG, SELFMAG) != 0 ||
		ret_head->e_ident[EI_CLASS] != ELFCLASS64 || ret_head->e_machine != EM_CUDA ||
		ret_head->e_type != ET_EXEC || ret_head->e_shentsize != sizeof(Elf64_Shdr) ||
		!range_ok(
			ret_head->e_shoff, (uint64_t)ret_head->e_shnum * sizeof(Elf64_Shdr), size))
		return -EBADMSG;
	return 0;
}

int cubin_file_section(const struct cubin_file *file, uint32_t i, Elf64_Shdr *ret_section)
{
	if (i >= file->head.e_shnum)
		return -EBADMSG;
	memcpy(ret_section, file->bytes + file->head.e_shoff + i * sizeof(*ret_section),
		sizeof(*ret_section));
	if (ret_section->sh_type != SHT_NOBITS &&
		!range_ok(ret_section->sh_offset, ret_section->sh_size, file->size))
		return -EBADMSG;
	return 0;
}

static int find_symbols(struct cubin_file *file)
{
	for (uint32_t i = 0; i < file->head.e_shnum; i++) {
		int r = cubin_file_section(file, i, &file->symbols);

		if (r < 0)
			return r;
		if (file->symbols.sh_type != SHT_SYMTAB)
			continue;
		file->symbols_at = i;
		if (file->symbols.sh_entsize != sizeof(Elf64_Sym))
			return -EBADMSG;
		r = cubin_file_section(file, file->symbols.sh_link, &file->names);
		return r == 0 && file->names.sh_type != SHT_STRTAB ? -EBADMSG : r;
	}
	return -EBADMSG;
}

int cubin_file_begin(uint8_t *bytes, size_t size, struct cubin_file *ret_file)
{
	*ret_file = (struct cubin_file){.bytes = bytes, .size = size};
	return read_head(bytes, size, &ret_file->head);
}

int cubin_file_open(uint8_t *bytes, size_t size, struct cubin_file *ret_file)
{
	int r = cubin_file_begin(bytes, size, ret_file);

	return r < 0 ? r : find_symbols(ret_file);
}

bool cubin_file_is_of_variables(
	const struct cubin_file *file, const Elf64_Shdr *section, const Elf64_Shdr *names)
{
	static const char prefix[] = ".nv.global";

	return (section->sh_flags & SHF_ALLOC) && names->sh_type == SHT_STRTAB &&
	       range_ok(section->sh_name, sizeof(prefix) - 1, names->sh_size) &&
	       memcmp(file->bytes + names->sh_offset + section->sh_name, prefix,
		       sizeof(prefix) - 1) == 0;
}

uint32_t cubin_file_n_symbols(const struct cubin_file *file)
{
	return (uint32_t)MIN(file->symbols.sh_size / sizeof(Elf64_Sym), (uint64_t)UINT32_MAX);
}

void cubin_file_symbol(const struct cubin_file *file, uint32_t i, Elf64_Sym *ret_symbol)
{
	memcpy(ret_symbol, file->bytes + file->symbols.sh_offset + i * sizeof(*ret_symbol),
		sizeof(*ret_symbol));
}

const char *cubin_file_name(const struct cubin_file *file, const Elf64_Sym *symbol)
{
	return symbol->st_name < file->names.sh_size
		       ? (const char *)file->bytes + file->names.sh_offset + symbol->st_name
		       : NULL;
}

/* ---- relocations */

static int write_word(
	uint8_t *at, bool has_addend, uint64_t address, const Elf64_Rela *relocation, bool is_high)
{
	uint32_t word;

	memcpy(&word, at + INSTRUCTION_WORD, sizeof(word));
	/* Half of an addend does not give the addend. */
	if (!has_addend && word != 0)
		return -ENOTSUP;
	address += (uint64_t)relocation->r_addend;
	word = (uint32_t)(is_high ? address >> 32 : address);
	memcpy(at + INSTRUCTION_WORD, &word, sizeof(word));
	return 0;
}

/* Writes what the loader would write. */
static int write_address(const struct cubin_file *file, const struct cubin_table *table,
	const Elf64_Rela *relocation, uint64_t address)
{
	uint32_t type = (uint32_t)ELF64_R_TYPE(relocation->r_info);
	uint64_t value;
	uint8_t *at;

	if (table->target.sh_type == SHT_NOBITS ||
		!range_ok(relocation->r_offset, sizeof(value), table->target.sh_size))
		return -EBADMSG;
	at = file->bytes + table->target.sh_offset + relocation->r_offset;
	switch (type) {
	case RELOCATE_64:
	case RELOCATE_GENERIC_64:
		memcpy(&value, at, sizeof(value));
		value = address + (table->has_addends ? (uint64_t)relocation->r_addend : value);
		memcpy(at, &value, sizeof(value));
		return 0;
	case RELOCATE_LOW_32:
	case RELOCATE_HIGH_32:
		return write_word(
			at, table->has_addends, address, relocation, type == RELOCATE_HIGH_32);
	default:
		return -ENOTSUP;
	}
}

/* The state of cubin_file_resolve(). */
struct resolving {
	struct cubin_file *file;
	uint64_t n_left; /* entries that the file has space for */
	int (*find)(void *arg, const struct cubin_file *file, const struct cubin_table *table,
		const Elf64_Rela *relocation, uint64_t *ret_address);
	void *arg;
};

static int resolve_table(
	struct resolving *resolving, uint32_t section_at, struct cubin_table *table)
{
	struct cubin_file *file = resolving->file;
	size_t size = table->has_addends ? sizeof(Elf64_Rela) : sizeof(Elf64_Rel);
	uint8_t *entries = file->bytes + table->section.sh_offset;
	uint64_t n = table->section.sh_size / size, n_kept = 0, address;

	if (table->section.sh_entsize != size || n > resolving->n_left)
		return -EBADMSG;
	resolving->n_left -= n;
	for (uint64_t i = 0; i < n; i++) {
		Elf64_Rela relocation = {0};
		int r;

		memcpy(&relocation, entries + i * size, size);
		r = resolving->find(resolving->arg, file, table, &relocation, &address);
		if (r == 0)
			memmove(entries + n_kept++ * size, entries + i * size, size);
		else if (r > 0)
			r = write_address(file, table, &relocation, address);
		if (r < 0)
			return r;
	}
	table->section.sh_size = n_kept * size;
	memcpy(file->bytes + file->head.e_shoff + section_at * sizeof(Elf64_Shdr), &table->section,
		sizeof(Elf64_Shdr));
	return 0;
}

int cubin_file_resolve(struct cubin_file *file,
	int (*find)(void *arg, const struct cubin_file *file, const struct cubin_table *table,
		const Elf64_Rela *relocation, uint64_t *ret_address),
	void *arg)
{
	struct resolving resolving = {file, file->size / sizeof(Elf64_Rel), find, arg};
	int r = 0;

	for (uint32_t i = 0; i < file->head.e_shnum && r == 0; i++) {
		struct cubin_table table;

		r = cubin_file_section(file, i, &table.section);
		if (r < 0 ||
			(table.section.sh_type != SHT_RELA && table.section.sh_type != SHT_REL))
			continue;
		if (table.section.sh_link != file->symbols_at)
			return -ENOTSUP;
		table.has_addends = table.section.sh_type == SHT_RELA;
		r = cubin_file_section(file, table.section.sh_info, &table.target);
		if (r == 0)
			r = resolve_table(&resolving, i, &table);
	}
	return r;
}
