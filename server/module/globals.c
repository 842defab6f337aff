/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The variables of cubins in global memory.
 *
 * Invariant: cubin_file.h checks what is read. An address that is written lies in the section of
 * its symbol, or just behind it, before the addend.
 */

#include "globals.h"

#include <string.h>

#include "cubin_file.h"

/* ---- sections */

static int add_section(struct globals *globals, const Elf64_Shdr *section, uint32_t number)
{
	uint64_t offset = ALIGN_UP(globals->total, (uint64_t)GLOBALS_ALIGN);

	if (section->sh_size == 0)
		return 0;
	if (globals->n_sections == GLOBALS_SECTIONS || section->sh_addralign > GLOBALS_ALIGN ||
		(section->sh_type != SHT_PROGBITS && section->sh_type != SHT_NOBITS))
		return -ENOTSUP;
	if (section->sh_size > GLOBALS_SIZE_MAX || offset + section->sh_size > GLOBALS_SIZE_MAX)
		return -EFBIG;
	globals->sections[globals->n_sections++] = (struct globals_section){
		.number = number,
		.first = section->sh_addr,
		.offset = offset,
		.size = section->sh_size,
	};
	globals->total = offset + section->sh_size;
	return 0;
}

static int find_sections(struct globals *globals, const struct cubin_file *file)
{
	Elf64_Shdr section, names;
	int r = cubin_file_section(file, file->head.e_shstrndx, &names);

	for (uint32_t i = 0; i < file->head.e_shnum && r == 0; i++) {
		r = cubin_file_section(file, i, &section);
		if (r == 0 && cubin_file_is_of_variables(file, &section, &names))
			r = add_section(globals, &section, i);
	}
	return r;
}

static bool has_managed(const struct cubin_file *file)
{
	uint32_t n = cubin_file_n_symbols(file);

	for (uint32_t i = 0; i < n; i++) {
		Elf64_Sym symbol;

		cubin_file_symbol(file, i, &symbol);
		if (ELF64_ST_TYPE(symbol.st_info) == STT_OBJECT &&
			(symbol.st_other & CUBIN_MANAGED))
			return true;
	}
	return false;
}

int globals_read(uint8_t *bytes, size_t size, struct globals *ret_globals)
{
	struct globals globals = {.size = size};
	struct cubin_file file;
	int r = cubin_file_open(bytes, size, &file);

	if (r == 0)
		r = find_sections(&globals, &file);
	if (r == 0 && globals.total > 0 && has_managed(&file))
		r = -EPERM;
	if (r < 0)
		return r;
	globals.bytes = bytes;
	*ret_globals = globals;
	return 0;
}

void globals_fini(struct globals *globals)
{
	free(globals->bytes);
	*globals = (struct globals){0};
}

static const struct globals_section *section_of(const struct globals *globals, uint32_t number)
{
	for (uint32_t i = 0; i < globals->n_sections; i++)
		if (globals->sections[i].number == number)
			return &globals->sections[i];
	return NULL;
}

/* ---- placing them */

struct placing {
	struct globals *globals;
	uint64_t address;
};

/* Code has the address of a function that is no kernel, and not one within it, to return to. */
static bool takes_function(
	const struct cubin_table *table, const Elf64_Rela *relocation, const Elf64_Sym *symbol)
{
	uint32_t type = (uint32_t)ELF64_R_TYPE(relocation->r_info);

	return ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && symbol->st_shndx != SHN_UNDEF &&
	       !(symbol->st_other & CUBIN_ENTRY) && (table->target.sh_flags & SHF_EXECINSTR) &&
	       (type == RELOCATE_LOW_32 || type == RELOCATE_HIGH_32) && relocation->r_addend == 0;
}

static int find_function(void *arg, const struct cubin_file *file, const struct cubin_table *table,
	const Elf64_Rela *relocation, _unused_ uint64_t *ret_address)
{
	uint64_t number = ELF64_R_SYM(relocation->r_info);
	bool *takes = arg;
	Elf64_Sym symbol;

	if (number >= cubin_file_n_symbols(file))
		return -EBADMSG;
	cubin_file_symbol(file, (uint32_t)number, &symbol);
	*takes |= takes_function(table, relocation, &symbol);
	return 0;
}

bool globals_takes_functions(uint8_t *bytes, size_t size)
{
	struct cubin_file file;
	bool takes = false;

	return cubin_file_open(bytes, size, &file) < 0 ||
	       cubin_file_resolve(&file, find_function, &takes) < 0 || takes;
}

static int find_address(void *arg, const struct cubin_file *file, const struct cubin_table *table,
	const Elf64_Rela *relocation, uint64_t *ret_address)
{
	const struct placing *placing = arg;
	uint64_t number = ELF64_R_SYM(relocation->r_info), offset;
	const struct globals_section *section;
	Elf64_Sym symbol;

	/* Debuggers see the loader's copy. */
	if (!(table->target.sh_flags & SHF_ALLOC))
		return 0;
	if (number >= cubin_file_n_symbols(file))
		return -EBADMSG;
	cubin_file_symbol(file, (uint32_t)number, &symbol);
	section = section_of(placing->globals, symbol.st_shndx);
	/* The loader writes the address, in its own copy if a variable holds it. */
	if (!section) {
		placing->globals->takes_functions |= takes_function(table, relocation, &symbol);
		placing->globals->has_loaded |=
			section_of(placing->globals, table->section.sh_info) != NULL;
		return 0;
	}
	offset = symbol.st_value - section->first;
	if (offset > section->size)
		return -EBADMSG;
	*ret_address = placing->address + section->offset + offset;
	return 1;
}

int globals_place(struct globals *globals, uint64_t address)
{
	struct placing placing = {globals, address};
	struct cubin_file file;
	int r = cubin_file_open(globals->bytes, globals->size, &file);

	return r < 0 ? r : cubin_file_resolve(&file, find_address, &placing);
}

void globals_initialise(const struct globals *globals, uint8_t *memory)
{
	struct cubin_file file;

	if (cubin_file_begin(globals->bytes, globals->size, &file) < 0)
		return;
	for (uint32_t i = 0; i < globals->n_sections; i++) {
		const struct globals_section *own = &globals->sections[i];
		Elf64_Shdr section;

		if (cubin_file_section(&file, own->number, &section) == 0 &&
			section.sh_type == SHT_PROGBITS)
			memcpy(memory + own->offset, file.bytes + section.sh_offset,
				MIN(section.sh_size, own->size));
	}
}

/* ---- names */

static bool is_named(const struct cubin_file *file, const Elf64_Sym *symbol, const char *name)
{
	const char *own = cubin_file_name(file, symbol);

	return ELF64_ST_TYPE(symbol->st_info) == STT_OBJECT && own && strcmp(own, name) == 0;
}

/* Linked code may have a local variable of that name in each of its parts. */
int globals_find(
	const struct globals *globals, const char *name, uint64_t *ret_offset, uint64_t *ret_size)
{
	struct cubin_file file;
	uint32_t n;
	int r = cubin_file_open(globals->bytes, globals->size, &file);

	if (r < 0)
		return r;
	n = cubin_file_n_symbols(&file);
	r = -ENOENT;
	for (uint32_t i = 0; i < n; i++) {
		const struct globals_section *section;
		Elf64_Sym symbol;

		cubin_file_symbol(&file, i, &symbol);
		section = section_of(globals, symbol.st_shndx);
		if (!section || !is_named(&file, &symbol, name) ||
			!range_ok(symbol.st_value - section->first, symbol.st_size, section->size))
			continue;
		if (r < 0 || ELF64_ST_BIND(symbol.st_info) != STB_LOCAL) {
			*ret_offset = section->offset + (symbol.st_value - section->first);
			*ret_size = symbol.st_size;
		}
		r = 0;
	}
	return r;
}

/* ---- what only the loader knows */

/* The state of globals_find_loaded(). */
struct finding {
	const struct globals *globals;
	struct cubin_file file;
	uint8_t *marks;   /* one where such a value begins */
	uint64_t n_steps; /* that are left */
};

/* What globals_place() has left in the tables. */
static int mark(void *arg, _unused_ const struct cubin_file *file, const struct cubin_table *table,
	const Elf64_Rela *relocation, _unused_ uint64_t *ret_address)
{
	const struct finding *finding = arg;
	const struct globals_section *holder = section_of(finding->globals, table->section.sh_info);

	if (holder && relocation->r_offset >= holder->size)
		return -EBADMSG;
	if (holder)
		finding->marks[holder->offset + relocation->r_offset] = 1;
	return 0;
}

static bool take_steps(struct finding *finding, uint64_t n)
{
	if (n > finding->n_steps)
		return false;
	finding->n_steps -= n;
	return true;
}

static bool is_unique(const struct finding *finding, const char *name)
{
	uint32_t n = cubin_file_n_symbols(&finding->file);
	unsigned n_equal = 0;

	for (uint32_t i = 0; i < n; i++) {
		Elf64_Sym symbol;

		cubin_file_symbol(&finding->file, i, &symbol);
		n_equal += is_named(&finding->file, &symbol, name);
	}
	return n_equal == 1;
}

static int try_variable(struct finding *finding, const Elf64_Sym *symbol,
	int (*find)(void *arg, const char *name, uint64_t offset, uint64_t size), void *arg)
{
	const struct globals_section *section = section_of(finding->globals, symbol->st_shndx);
	const char *name = cubin_file_name(&finding->file, symbol);
	uint64_t offset;
	int r;

	if (!section || !name || ELF64_ST_TYPE(symbol->st_info) != STT_OBJECT ||
		!range_ok(symbol->st_value - section->first, symbol->st_size, section->size))
		return 0;
	offset = section->offset + (symbol->st_value - section->first);
	if (!take_steps(finding, symbol->st_size))
		return -EFBIG;
	if (!memchr(finding->marks + offset, 1, symbol->st_size))
		return 0;
	if (!take_steps(finding, cubin_file_n_symbols(&finding->file)))
		return -EFBIG;
	r = is_unique(finding, name) ? find(arg, name, offset, symbol->st_size) : -ENOENT;
	if (r == 0)
		memset(finding->marks + offset, 0, symbol->st_size);
	return r == -ENOENT ? 0 : r;
}

int globals_find_loaded(const struct globals *globals, uint8_t *marks,
	int (*find)(void *arg, const char *name, uint64_t offset, uint64_t size), void *arg)
{
	struct finding finding = {.globals = globals, .marks = marks, .n_steps = GLOBALS_STEPS};
	int r = cubin_file_open(globals->bytes, globals->size, &finding.file);
	uint32_t n;

	if (r == 0)
		r = cubin_file_resolve(&finding.file, mark, &finding);
	n = r == 0 ? cubin_file_n_symbols(&finding.file) : 0;
	for (uint32_t i = 0; i < n && r == 0; i++) {
		Elf64_Sym symbol;

		cubin_file_symbol(&finding.file, i, &symbol);
		r = try_variable(&finding, &symbol, find, arg);
	}
	return r == 0 && memchr(marks, 1, globals->total) ? -ENOENT : r;
}
