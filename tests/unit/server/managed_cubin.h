/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MANAGED_CUBIN_H
#define MANAGED_CUBIN_H

/* A small cubin in nvcc's format, with __managed__ variables or others, field by field. */

#include <elf.h>
#include <stddef.h>
#include <stdint.h>

#define MANAGED 0x04

enum section {
	NONE,
	SYMBOLS,
	NAMES,
	INITIAL,
	ZEROS,
	CONSTANTS,
	CODE,
	OF_CONSTANTS,
	OF_CODE,
	SECTIONS,
};

enum {
	FIRST = 2, /* symbol */
	SECOND = 3,
	OTHER = 1,
	FIRST_AT = 0, /* relative to the variables' address */
	SECOND_AT = 256,
	VARIABLES_SIZE = SECOND_AT + 12,
};

/* A cubin like nvcc's: two __managed__ variables and a variable that is not. */
struct cubin_file {
	Elf64_Ehdr head;
	Elf64_Shdr sections[SECTIONS];
	Elf64_Sym symbols[4];
	char names[64];
	uint8_t initial[16];
	uint64_t constants[4];
	uint32_t code[8];
	Elf64_Rela of_constants[3];
	Elf64_Rela of_code[2];
};

static const struct cubin_file whole =
	{
		.head = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
				 EV_CURRENT},
			.e_type = ET_EXEC,
			.e_machine = EM_CUDA,
			.e_shoff = offsetof(struct cubin_file, sections),
			.e_shentsize = sizeof(Elf64_Shdr),
			.e_shnum = SECTIONS,
			.e_shstrndx = NAMES},
		.sections =
			{
				[SYMBOLS] = {.sh_type = SHT_SYMTAB,
					.sh_link = NAMES,
					.sh_offset = offsetof(struct cubin_file, symbols),
					.sh_size = 4 * sizeof(Elf64_Sym),
					.sh_entsize = sizeof(Elf64_Sym)},
				[NAMES] = {.sh_type = SHT_STRTAB,
					.sh_offset = offsetof(struct cubin_file, names),
					.sh_size = 64},
				[INITIAL] = {.sh_type = SHT_PROGBITS,
					.sh_name = 20,
					.sh_flags = SHF_ALLOC,
					.sh_offset = offsetof(struct cubin_file, initial),
					.sh_size = 16},
				[ZEROS] = {.sh_type = SHT_NOBITS,
					.sh_name = 36,
					.sh_flags = SHF_ALLOC,
					.sh_offset = ~0ull,
					.sh_size = 1 << 20},
				[CONSTANTS] = {.sh_type = SHT_PROGBITS,
					.sh_offset = offsetof(struct cubin_file, constants),
					.sh_size = 32},
				[CODE] = {.sh_type = SHT_PROGBITS,
					.sh_offset = offsetof(struct cubin_file, code),
					.sh_size = 32},
				[OF_CONSTANTS] = {.sh_type = SHT_RELA,
					.sh_link = SYMBOLS,
					.sh_info = CONSTANTS,
					.sh_offset = offsetof(struct cubin_file, of_constants),
					.sh_size = 3 * sizeof(Elf64_Rela),
					.sh_entsize = sizeof(Elf64_Rela)},
				[OF_CODE] = {.sh_type = SHT_RELA,
					.sh_link = SYMBOLS,
					.sh_info = CODE,
					.sh_offset = offsetof(struct cubin_file, of_code),
					.sh_size = 2 * sizeof(Elf64_Rela),
					.sh_entsize = sizeof(Elf64_Rela)},
			},
		.symbols =
			{
				[OTHER] = {.st_name = 1,
					.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT),
					.st_shndx = ZEROS,
					.st_size = 8},
				[FIRST] = {.st_name = 7,
					.st_info = ELF64_ST_INFO(STB_LOCAL, STT_OBJECT),
					.st_other = MANAGED,
					.st_shndx = ZEROS,
					.st_size = 40},
				[SECOND] = {.st_name = 13,
					.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT),
					.st_other = MANAGED | STV_HIDDEN,
					.st_shndx = INITIAL,
					.st_value = 4,
					.st_size = 12},
			},
		.names = "\0other\0first\0second\0.nv.global.init\0.nv.global",
		.initial = {0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12},
		.constants = {7, 7, 7, 7},
		.of_constants =
			{
				{.r_offset = 0, .r_info = ELF64_R_INFO(SECOND, 2), .r_addend = 4},
				{.r_offset = 8, .r_info = ELF64_R_INFO(OTHER, 2)},
				{.r_offset = 16, .r_info = ELF64_R_INFO(FIRST, 2)},
			},
		.of_code =
			{
				{.r_offset = 0,
					.r_info = ELF64_R_INFO(SECOND, 0x38),
					.r_addend = -8},
				{.r_offset = 16,
					.r_info = ELF64_R_INFO(SECOND, 0x39),
					.r_addend = -8},
			},
};

/* The cubin without __managed__ variables, and its sections as they are in nvcc's. */
static inline struct cubin_file plain_cubin(void)
{
	struct cubin_file file = whole;

	file.symbols[FIRST].st_other = 0;
	file.symbols[FIRST].st_value = 8;
	file.symbols[SECOND].st_other = STV_HIDDEN;
	file.sections[CONSTANTS].sh_flags = SHF_ALLOC;
	file.sections[CODE].sh_flags = SHF_ALLOC | SHF_EXECINSTR;
	return file;
}

#endif
