/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Cubins: ELF files for NVIDIA's machine. This file reads symbols and relocations, and
 * writes 8 bytes of a constant or 4 of an instruction.
 *
 * Invariant: no byte is used before a check that it lies within the file, and no more table
 * entries are read than the file has space for. A write may hit a head or a name: each is
 * checked whenever it is read, and names end with the file at the latest.
 */

#include "cubin.h"

#include <elf.h>
#include <string.h>

#define CUBIN_MANAGED 0x04 /* in a symbol's st_other */

/* As the driver places its own memory. */
#define VARIABLE_ALIGN 256u
#define VARIABLES_SIZE_MAX (1ull << 40)
#define VARIABLES_MAX 65536u

/* How an address is written. */
enum cubin_relocation {
	RELOCATE_64 = 0x02,      /* all of it */
	RELOCATE_LOW_32 = 0x38,  /* half of it, the second word of an instruction */
	RELOCATE_HIGH_32 = 0x39, /* the other half */
};

#define INSTRUCTION_WORD 4u

/* The file, as passed between the functions below. */
struct cubin_file {
	uint8_t *bytes;
	size_t size;
	Elf64_Ehdr head;
	Elf64_Shdr symbols, names;
	uint32_t symbols_at; /* its section number */
};

/* ---- the file */

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

/* -EBADMSG: there is no such section, or its bytes lie outside the file. */
static int read_section(const struct cubin_file *file, uint32_t i, Elf64_Shdr *ret_section)
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

/* The first symbol table; later ones are not used. */
static int find_symbols(struct cubin_file *file)
{
	for (uint32_t i = 0; i < file->head.e_shnum; i++) {
		int r = read_section(file, i, &file->symbols);

		if (r < 0)
			return r;
		if (file->symbols.sh_type != SHT_SYMTAB)
			continue;
		file->symbols_at = i;
		if (file->symbols.sh_entsize != sizeof(Elf64_Sym))
			return -EBADMSG;
		r = read_section(file, file->symbols.sh_link, &file->names);
		return r == 0 && file->names.sh_type != SHT_STRTAB ? -EBADMSG : r;
	}
	return -EBADMSG;
}

static int file_open(uint8_t *bytes, size_t size, struct cubin_file *ret_file)
{
	int r;

	*ret_file = (struct cubin_file){.bytes = bytes, .size = size};
	r = read_head(bytes, size, &ret_file->head);
	return r < 0 ? r : find_symbols(ret_file);
}

/* ---- variables */

/* Sections of variables, zeroed or with values. */
static bool is_for_variables(
	const struct cubin_file *file, const Elf64_Shdr *section, const Elf64_Shdr *names)
{
	static const char prefix[] = ".nv.global";

	return (section->sh_flags & SHF_ALLOC) && names->sh_type == SHT_STRTAB &&
	       range_ok(section->sh_name, sizeof(prefix) - 1, names->sh_size) &&
	       memcmp(file->bytes + names->sh_offset + section->sh_name, prefix,
		       sizeof(prefix) - 1) == 0;
}

uint64_t cubin_variables(const uint8_t *bytes, size_t size)
{
	struct cubin_file file = {.bytes = (uint8_t *)(uintptr_t)bytes, .size = size};
	Elf64_Shdr section, names;
	uint64_t total = 0;

	if (read_head(bytes, size, &file.head) < 0 ||
		read_section(&file, file.head.e_shstrndx, &names) < 0)
		return 0;
	for (uint32_t i = 0; i < file.head.e_shnum; i++)
		if (read_section(&file, i, &section) == 0 &&
			is_for_variables(&file, &section, &names) &&
			__builtin_add_overflow(total, section.sh_size, &total))
			return UINT64_MAX;
	return total;
}

static uint32_t symbols_count(const struct cubin_file *file)
{
	return (uint32_t)MIN(file->symbols.sh_size / sizeof(Elf64_Sym), (uint64_t)UINT32_MAX);
}

static void read_symbol(const struct cubin_file *file, uint32_t i, Elf64_Sym *ret_symbol)
{
	memcpy(ret_symbol, file->bytes + file->symbols.sh_offset + i * sizeof(*ret_symbol),
		sizeof(*ret_symbol));
}

static bool cubin_is_managed(const Elf64_Sym *symbol)
{
	return ELF64_ST_TYPE(symbol->st_info) == STT_OBJECT && (symbol->st_other & CUBIN_MANAGED);
}

/* NULL: the name lies outside the table. */
static const char *name_of(const struct cubin_file *file, const Elf64_Sym *symbol)
{
	return symbol->st_name < file->names.sh_size
		       ? (const char *)file->bytes + file->names.sh_offset + symbol->st_name
		       : NULL;
}

static int find_initial(
	const struct cubin_file *file, const Elf64_Sym *symbol, const uint8_t **ret_initial)
{
	Elf64_Shdr section;
	uint64_t offset;
	int r = read_section(file, symbol->st_shndx, &section);

	if (r < 0)
		return r;
	*ret_initial = NULL;
	if (section.sh_type == SHT_NOBITS)
		return 0;
	offset = symbol->st_value - section.sh_addr;
	if (section.sh_type != SHT_PROGBITS || !range_ok(offset, symbol->st_size, section.sh_size))
		return -ENOTSUP;
	*ret_initial = file->bytes + section.sh_offset + offset;
	return 0;
}

static int add_variable(struct cubin *cubin, const struct cubin_file *file, uint32_t i)
{
	struct cubin_variable *variable = &cubin->variables[cubin->n_variables];
	Elf64_Sym symbol;
	int r;

	read_symbol(file, i, &symbol);
	if (symbol.st_size == 0 || symbol.st_size > VARIABLES_SIZE_MAX)
		return -ENOTSUP;
	*variable = (struct cubin_variable){
		.name = name_of(file, &symbol),
		.size = symbol.st_size,
		.offset = ALIGN_UP(cubin->total, (uint64_t)VARIABLE_ALIGN),
		.symbol = i,
	};
	if (!variable->name)
		return -EBADMSG;
	r = find_initial(file, &symbol, &variable->initial);
	if (r < 0)
		return r;
	cubin->total = variable->offset + variable->size;
	if (cubin->total > VARIABLES_SIZE_MAX)
		return -ENOTSUP;
	cubin->n_variables++;
	return 0;
}

static int find_variables(struct cubin *cubin, const struct cubin_file *file)
{
	uint32_t n = symbols_count(file), n_managed = 0;
	Elf64_Sym symbol;
	int r = 0;

	for (uint32_t i = 0; i < n; i++) {
		read_symbol(file, i, &symbol);
		n_managed += cubin_is_managed(&symbol);
	}
	if (n_managed > VARIABLES_MAX)
		return -ENOTSUP;
	cubin->variables = calloc(MAX(n_managed, 1u), sizeof(*cubin->variables));
	if (!cubin->variables)
		return -ENOMEM;
	for (uint32_t i = 0; i < n && r == 0; i++) {
		read_symbol(file, i, &symbol);
		if (cubin_is_managed(&symbol))
			r = add_variable(cubin, file, i);
	}
	return r;
}

int cubin_read(uint8_t *bytes, size_t size, struct cubin *ret_cubin)
{
	_cleanup_(cubin_fini) struct cubin cubin = {.size = size};
	struct cubin_file file;
	int r = file_open(bytes, size, &file);

	if (r == 0)
		r = find_variables(&cubin, &file);
	if (r < 0)
		return r;
	cubin.bytes = bytes;
	*ret_cubin = cubin;
	cubin = (struct cubin){0};
	return 0;
}

const struct cubin_variable *cubin_find(const struct cubin *cubin, const char *name)
{
	for (uint32_t i = 0; i < cubin->n_variables; i++)
		if (strcmp(cubin->variables[i].name, name) == 0)
			return &cubin->variables[i];
	return NULL;
}

void cubin_initialise(const struct cubin *cubin, uint8_t *memory)
{
	for (uint32_t i = 0; i < cubin->n_variables; i++) {
		const struct cubin_variable *variable = &cubin->variables[i];

		if (variable->initial)
			memcpy(memory + variable->offset, variable->initial, variable->size);
	}
}

void cubin_fini(struct cubin *cubin)
{
	free(cubin->bytes);
	free(cubin->variables);
	*cubin = (struct cubin){0};
}

/* ---- placing them */

struct placing {
	struct cubin *cubin;
	struct cubin_file file;
	uint64_t address;
	uint64_t n_left; /* entries that the file has space for */
};

/* A table of relocations, and the section that its entries change. */
struct relocations {
	Elf64_Shdr section, target;
	bool has_addends;
};

static int compare_symbol(const void *symbol, const void *variable)
{
	uint64_t a = *(const uint64_t *)symbol,
		 b = ((const struct cubin_variable *)variable)->symbol;

	return (a > b) - (a < b);
}

/* The variable of a symbol. Variables are in the order of their symbols. */
static const struct cubin_variable *variable_of(const struct cubin *cubin, uint64_t symbol)
{
	return bsearch(&symbol, cubin->variables, cubin->n_variables, sizeof(*cubin->variables),
		compare_symbol);
}

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
static int cubin_resolve(const struct placing *placing, const struct relocations *table,
	const Elf64_Rela *relocation, uint64_t address)
{
	uint32_t type = (uint32_t)ELF64_R_TYPE(relocation->r_info);
	uint64_t value;
	uint8_t *at;

	if (table->target.sh_type == SHT_NOBITS ||
		!range_ok(relocation->r_offset, sizeof(value), table->target.sh_size))
		return -EBADMSG;
	at = placing->file.bytes + table->target.sh_offset + relocation->r_offset;
	switch (type) {
	case RELOCATE_64:
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

/* Resolves the entries of variables and removes them from the table. */
static int resolve_table(struct placing *placing, uint32_t section_at, struct relocations *table)
{
	size_t size = table->has_addends ? sizeof(Elf64_Rela) : sizeof(Elf64_Rel);
	uint8_t *entries = placing->file.bytes + table->section.sh_offset;
	uint64_t n = table->section.sh_size / size, n_kept = 0;

	if (table->section.sh_entsize != size || n > placing->n_left)
		return -EBADMSG;
	placing->n_left -= n;
	for (uint64_t i = 0; i < n; i++) {
		const struct cubin_variable *variable;
		Elf64_Rela relocation = {0};
		int r;

		memcpy(&relocation, entries + i * size, size);
		variable = variable_of(placing->cubin, ELF64_R_SYM(relocation.r_info));
		if (!variable) {
			memmove(entries + n_kept++ * size, entries + i * size, size);
			continue;
		}
		r = cubin_resolve(placing, table, &relocation, placing->address + variable->offset);
		if (r < 0)
			return r;
	}
	table->section.sh_size = n_kept * size;
	memcpy(placing->file.bytes + placing->file.head.e_shoff + section_at * sizeof(Elf64_Shdr),
		&table->section, sizeof(Elf64_Shdr));
	return 0;
}

static int resolve_all(struct placing *placing)
{
	int r = 0;

	for (uint32_t i = 0; i < placing->file.head.e_shnum && r == 0; i++) {
		struct relocations table;

		r = read_section(&placing->file, i, &table.section);
		if (r < 0 ||
			(table.section.sh_type != SHT_RELA && table.section.sh_type != SHT_REL) ||
			table.section.sh_link != placing->file.symbols_at)
			continue;
		table.has_addends = table.section.sh_type == SHT_RELA;
		r = read_section(&placing->file, table.section.sh_info, &table.target);
		if (r == 0)
			r = resolve_table(placing, i, &table);
	}
	return r;
}

/* For the driver they become ordinary variables that are not used. */
static void make_plain(const struct placing *placing)
{
	for (uint32_t i = 0; i < placing->cubin->n_variables; i++) {
		uint8_t *at = placing->file.bytes + placing->file.symbols.sh_offset +
			      placing->cubin->variables[i].symbol * sizeof(Elf64_Sym);

		at[offsetof(Elf64_Sym, st_other)] &= (uint8_t)~CUBIN_MANAGED;
	}
}

int cubin_place(struct cubin *cubin, uint64_t address, uint64_t size)
{
	struct placing placing = {
		.cubin = cubin,
		.address = address,
		.n_left = cubin->size / sizeof(Elf64_Rel),
	};
	int r = cubin->total > size ? -ENOSPC : file_open(cubin->bytes, cubin->size, &placing.file);

	if (r == 0)
		r = resolve_all(&placing);
	if (r == 0)
		make_plain(&placing);
	return r;
}
