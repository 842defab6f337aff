/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Writes and reads ELF files with PTX. Runs on the thread that loads or links. A byte
 * of a file is used only after a check that it lies within the file.
 */

#include "file.h"

#include <elf.h>
#include <string.h>

#include "base.h"
#include "tests/softgpu/ptx/ptx.h"

/* The architecture that the software GPU reports; the operating system is that of nvcc's files. */
#define ARCH 90u
#define OS_ABI 0x41

#define MANAGED 0x04 /* st_other */
/* A whole address of 64 bits, in a constant and in a value; a part of one has no type in nvcc's. */
#define RELOCATE_64 0x2
#define RELOCATE_GENERIC_64 0x4
#define RELOCATE_PART 0x77
#define SECTION_ALIGN 256u
#define FILE_ALIGN 8u

enum section {
	NO_SECTION,
	TEXTS,
	ADDRESSES,
	RELOCATIONS,
	INITIAL,
	OF_INITIAL,
	ZEROS,
	REGISTERS,
	SYMBOLS,
	NAMES,
	SECTION_NAMES,
	SECTIONS,
};

static const char *const names[SECTIONS] = {
	[NO_SECTION] = "",
	[TEXTS] = PTX_FILE_TEXTS,
	[ADDRESSES] = PTX_FILE_ADDRESSES,
	[RELOCATIONS] = PTX_FILE_RELOCATIONS,
	[INITIAL] = ".nv.global.init",
	[OF_INITIAL] = ".rela.nv.global.init",
	[ZEROS] = ".nv.global",
	[REGISTERS] = PTX_FILE_REGISTERS,
	[SYMBOLS] = ".symtab",
	[NAMES] = ".strtab",
	[SECTION_NAMES] = ".shstrtab",
};

/* A file that is being written: its bytes so far, and the heads of its sections. */
struct making {
	uint8_t *bytes;
	size_t size;
	bool is_short; /* out of memory */
	Elf64_Shdr heads[SECTIONS];
};

static void append(struct making *making, const void *data, size_t size)
{
	uint8_t *more = making->is_short ? NULL : realloc(making->bytes, making->size + size + 1);

	if (!more) {
		making->is_short = true;
		return;
	}
	making->bytes = more;
	if (size > 0 && data)
		memcpy(more + making->size, data, size);
	else
		memset(more + making->size, 0, size);
	making->size += size;
}

static void section_begin(struct making *making, enum section section, uint32_t type)
{
	append(making, NULL, ALIGN_UP(making->size, (size_t)FILE_ALIGN) - making->size);
	making->heads[section].sh_type = type;
	making->heads[section].sh_offset = making->size;
}

static void section_end(struct making *making, enum section section)
{
	making->heads[section].sh_size = making->size - making->heads[section].sh_offset;
}

static void put_texts(struct making *making, char *const *texts, size_t n)
{
	section_begin(making, TEXTS, SHT_PROGBITS);
	for (size_t i = 0; i < n; i++)
		append(making, texts[i], strlen(texts[i]) + 1);
	section_end(making, TEXTS);
}

static void table_end(struct making *making, enum section section, enum section target)
{
	section_end(making, section);
	making->heads[section].sh_entsize = sizeof(Elf64_Rela);
	making->heads[section].sh_link = SYMBOLS;
	making->heads[section].sh_info = target;
}

static void put_addresses(struct making *making, size_t n)
{
	section_begin(making, ADDRESSES, SHT_PROGBITS);
	append(making, NULL, n * sizeof(uint64_t));
	section_end(making, ADDRESSES);
	making->heads[ADDRESSES].sh_flags = SHF_ALLOC;
	section_begin(making, RELOCATIONS, SHT_RELA);
	for (size_t i = 0; i < n; i++)
		append(making,
			&(Elf64_Rela){
				.r_offset = i * sizeof(uint64_t),
				.r_info = ELF64_R_INFO(i + 1, RELOCATE_64),
			},
			sizeof(Elf64_Rela));
	table_end(making, RELOCATIONS, ADDRESSES);
}

static uint64_t place_next(struct making *making, enum section section, uint64_t *end,
	const struct ptx_file_variable *variable)
{
	uint64_t align = MAX(variable->align, 1u), at = ALIGN_UP(*end, align);

	making->heads[section].sh_flags = SHF_ALLOC | SHF_WRITE;
	making->heads[section].sh_addralign =
		MAX(MAX(align, (uint64_t)SECTION_ALIGN), making->heads[section].sh_addralign);
	*end = at + variable->size;
	return at;
}

static void put_initial(struct making *making, struct ptx_file_variable *variables, size_t n)
{
	uint64_t end = 0, zeros_end = 0, start;

	section_begin(making, INITIAL, SHT_PROGBITS);
	start = making->size;
	for (size_t i = 0; i < n; i++) {
		if (!variables[i].initial) {
			variables[i].at = place_next(making, ZEROS, &zeros_end, &variables[i]);
			continue;
		}
		variables[i].at = place_next(making, INITIAL, &end, &variables[i]);
		append(making, NULL, start + variables[i].at - making->size);
		append(making, variables[i].initial, variables[i].size);
	}
	section_end(making, INITIAL);
	section_begin(making, ZEROS, SHT_NOBITS);
	making->heads[ZEROS].sh_size = zeros_end;
}

/* The symbol of a variable; 0 for a constant. All functions have the last symbol. */
static uint64_t symbol_of(const struct ptx_file_variable *variables, size_t n, uint32_t global)
{
	if (global == UINT32_MAX)
		return n + 1;
	for (size_t i = 0; i < n; i++)
		if (variables[i].global == global)
			return i + 1;
	return 0;
}

static void put_relocations(struct making *making, const struct ptx_module *module,
	const struct ptx_file_variable *variables, size_t n)
{
	struct ptx_value_address address;

	section_begin(making, OF_INITIAL, SHT_RELA);
	for (size_t i = 0; i < n; i++)
		for (uint32_t k = 0;
			ptx_module_value_address(module, variables[i].global, k, &address); k++) {
			Elf64_Rela relocation = {
				.r_offset = variables[i].at + address.offset,
				.r_info = ELF64_R_INFO(symbol_of(variables, n, address.global),
					address.is_part ? RELOCATE_PART : RELOCATE_GENERIC_64),
				.r_addend = (int64_t)address.value,
			};

			append(making, &relocation, sizeof(relocation));
		}
	table_end(making, OF_INITIAL, INITIAL);
}

static void put_registers(struct making *making, uint32_t max_regs)
{
	section_begin(making, REGISTERS, SHT_PROGBITS);
	append(making, &max_regs, sizeof(max_regs));
	section_end(making, REGISTERS);
}

static void put_symbols(struct making *making, const struct ptx_file_variable *variables, size_t n)
{
	Elf64_Sym symbol = {0};
	uint32_t name = 1;

	section_begin(making, SYMBOLS, SHT_SYMTAB);
	append(making, &symbol, sizeof(symbol));
	for (size_t i = 0; i < n; i++) {
		symbol.st_name = name;
		symbol.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT);
		symbol.st_other = variables[i].is_managed ? MANAGED : 0;
		symbol.st_shndx = variables[i].initial ? INITIAL : ZEROS;
		symbol.st_value = variables[i].at;
		symbol.st_size = variables[i].size;
		append(making, &symbol, sizeof(symbol));
		name += (uint32_t)strlen(variables[i].name) + 1;
	}
	symbol = (Elf64_Sym){.st_info = ELF64_ST_INFO(STB_LOCAL, STT_FUNC), .st_shndx = TEXTS};
	append(making, &symbol, sizeof(symbol));
	section_end(making, SYMBOLS);
	making->heads[SYMBOLS].sh_entsize = sizeof(symbol);
	making->heads[SYMBOLS].sh_link = NAMES;
	section_begin(making, NAMES, SHT_STRTAB);
	append(making, "", 1);
	for (size_t i = 0; i < n; i++)
		append(making, variables[i].name, strlen(variables[i].name) + 1);
	section_end(making, NAMES);
}

static void put_heads(struct making *making)
{
	Elf64_Ehdr head = {
		.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT,
			OS_ABI},
		.e_type = ET_EXEC,
		.e_machine = EM_CUDA,
		.e_version = EV_CURRENT,
		.e_flags = ARCH << 8,
		.e_ehsize = sizeof(Elf64_Ehdr),
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = SECTIONS,
		.e_shstrndx = SECTION_NAMES,
	};

	section_begin(making, SECTION_NAMES, SHT_STRTAB);
	for (enum section i = NO_SECTION; i < SECTIONS; i++) {
		making->heads[i].sh_name =
			(uint32_t)(making->size - making->heads[SECTION_NAMES].sh_offset);
		append(making, names[i], strlen(names[i]) + 1);
	}
	section_end(making, SECTION_NAMES);
	append(making, NULL, ALIGN_UP(making->size, (size_t)FILE_ALIGN) - making->size);
	head.e_shoff = making->size;
	append(making, making->heads, sizeof(making->heads));
	if (!making->is_short)
		memcpy(making->bytes, &head, sizeof(head));
}

int ptx_file_make(char *const *texts, size_t n_texts, const struct ptx_module *module,
	struct ptx_file_variable *variables, size_t n_variables, uint32_t max_regs,
	void **ret_image, size_t *ret_size)
{
	struct making making = {0};

	append(&making, NULL, sizeof(Elf64_Ehdr));
	put_texts(&making, texts, n_texts);
	put_addresses(&making, n_variables);
	put_initial(&making, variables, n_variables);
	put_relocations(&making, module, variables, n_variables);
	put_registers(&making, max_regs);
	put_symbols(&making, variables, n_variables);
	put_heads(&making);
	if (making.is_short) {
		free(making.bytes);
		return -ENOMEM;
	}
	*ret_image = making.bytes;
	*ret_size = making.size;
	return 0;
}

bool ptx_file_section(
	const void *image, size_t size, const char *name, const uint8_t **ret_at, size_t *ret_size)
{
	size_t name_size = strlen(name) + 1;
	const uint8_t *bytes = image;
	Elf64_Shdr section, strings;
	Elf64_Ehdr head;

	if (size < sizeof(head))
		return false;
	memcpy(&head, bytes, sizeof(head));
	if (head.e_machine != EM_CUDA || head.e_shentsize != sizeof(section) ||
		!range_ok(head.e_shoff, (uint64_t)head.e_shnum * sizeof(section), size) ||
		head.e_shstrndx >= head.e_shnum)
		return false;
	memcpy(&strings, bytes + head.e_shoff + head.e_shstrndx * sizeof(section), sizeof(strings));
	if (!range_ok(strings.sh_offset, strings.sh_size, size))
		return false;
	for (unsigned i = 0; i < head.e_shnum; i++) {
		memcpy(&section, bytes + head.e_shoff + i * sizeof(section), sizeof(section));
		if (!range_ok(section.sh_name, name_size, strings.sh_size) ||
			memcmp(bytes + strings.sh_offset + section.sh_name, name, name_size) != 0)
			continue;
		*ret_at = bytes + section.sh_offset;
		*ret_size = section.sh_size;
		return range_ok(section.sh_offset, section.sh_size, size);
	}
	return false;
}
