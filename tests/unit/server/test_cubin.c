/* SPDX-License-Identifier: Apache-2.0 */

/*
 * __managed__ variables in cubins that are made here: found, placed, and refused if the
 * file is damaged.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "managed_cubin.h"
#include "server/module/cubin.h"

#define ADDRESS 0x400012345678ull

/* In the server's form: a copy, followed by a NUL. */
static int read_file(const struct cubin_file *file, size_t size, struct cubin *ret_cubin)
{
	uint8_t *bytes = malloc(size + 1);
	int r;

	assert_non_null(bytes);
	memcpy(bytes, file, size);
	bytes[size] = 0;
	r = cubin_read(bytes, size, ret_cubin);
	if (r < 0)
		free(bytes);
	return r;
}

/* The result of reading or placing. */
static int try_file(const struct cubin_file *file, size_t size)
{
	struct cubin cubin = {0};
	int r = read_file(file, size, &cubin);

	if (r == 0)
		r = cubin_place(&cubin, ADDRESS, cubin.total);
	if (r == 0 && cubin.total < 1 << 20) {
		uint8_t *memory = calloc(1, cubin.total + 1);

		assert_non_null(memory);
		cubin_initialise(&cubin, memory);
		(void)cubin_find(&cubin, "third");
		free(memory);
	}
	cubin_fini(&cubin);
	return r;
}

static void test_found(void **state)
{
	uint8_t memory[VARIABLES_SIZE] = {0};
	struct cubin cubin;

	(void)state;
	assert_int_equal(read_file(&whole, sizeof(whole), &cubin), 0);
	assert_int_equal(cubin.n_variables, 2);
	assert_int_equal(cubin.total, sizeof(memory));
	assert_null(cubin_find(&cubin, "other"));
	assert_null(cubin_find(&cubin, "secon"));
	assert_int_equal(cubin_find(&cubin, "first")->offset, FIRST_AT);
	assert_int_equal(cubin_find(&cubin, "first")->size, 40);
	assert_int_equal(cubin_find(&cubin, "second")->offset, SECOND_AT);
	cubin_initialise(&cubin, memory);
	assert_memory_equal(memory + SECOND_AT, whole.initial + 4, 12);
	assert_int_equal(memory[0], 0);
	cubin_fini(&cubin);
}

static void test_placed(void **state)
{
	const uint64_t second = ADDRESS + SECOND_AT;
	const struct cubin_file *file;
	struct cubin cubin;

	(void)state;
	assert_int_equal(read_file(&whole, sizeof(whole), &cubin), 0);
	assert_int_equal(cubin_place(&cubin, ADDRESS, cubin.total), 0);
	file = (const struct cubin_file *)cubin.bytes;
	assert_int_equal(file->constants[0], second + 4);
	assert_int_equal(file->constants[1], 7);
	assert_int_equal(file->constants[2], ADDRESS + FIRST_AT);
	assert_int_equal(file->code[1], (uint32_t)(second - 8));
	assert_int_equal(file->code[5], (second - 8) >> 32);
	assert_int_equal(file->code[0] | file->code[2] | file->code[3] | file->code[4], 0);
	/* Other relocations are left to the loader. */
	assert_int_equal(file->sections[OF_CONSTANTS].sh_size, sizeof(Elf64_Rela));
	assert_memory_equal(&file->of_constants[0], &whole.of_constants[1], sizeof(Elf64_Rela));
	assert_int_equal(file->sections[OF_CODE].sh_size, 0);
	assert_int_equal(file->symbols[FIRST].st_other, 0);
	assert_int_equal(file->symbols[SECOND].st_other, STV_HIDDEN);
	assert_int_equal(cubin_find(&cubin, "second")->offset, SECOND_AT);
	cubin_fini(&cubin);
}

/* Tables for older machines have the addend in the place of the address. */
static void test_without_addends(void **state)
{
	struct cubin_file file = whole;
	const struct cubin_file *placed;
	struct cubin cubin;
	Elf64_Rel relocation = {.r_offset = 8, .r_info = ELF64_R_INFO(FIRST, 2)};

	(void)state;
	memcpy(file.of_constants, &relocation, sizeof(relocation));
	file.sections[OF_CONSTANTS].sh_type = SHT_REL;
	file.sections[OF_CONSTANTS].sh_size = file.sections[OF_CONSTANTS].sh_entsize =
		sizeof(relocation);
	assert_int_equal(read_file(&file, sizeof(file), &cubin), 0);
	assert_int_equal(cubin_place(&cubin, ADDRESS, cubin.total), 0);
	placed = (const struct cubin_file *)cubin.bytes;
	assert_int_equal(placed->constants[1], ADDRESS + FIRST_AT + 7);
	assert_int_equal(placed->sections[OF_CONSTANTS].sh_size, 0);
	cubin_fini(&cubin);

	/* Half of an addend is not enough. */
	relocation = (Elf64_Rel){.r_offset = 4, .r_info = ELF64_R_INFO(FIRST, 0x38)};
	memcpy(file.of_constants, &relocation, sizeof(relocation));
	assert_int_equal(try_file(&file, sizeof(file)), -ENOTSUP);
}

static void test_no_room(void **state)
{
	struct cubin cubin;

	(void)state;
	assert_int_equal(read_file(&whole, sizeof(whole), &cubin), 0);
	assert_int_equal(cubin_place(&cubin, ADDRESS, cubin.total - 1), -ENOSPC);
	cubin_fini(&cubin);
}

static void test_none(void **state)
{
	struct cubin_file file = whole;
	struct cubin cubin;

	(void)state;
	file.symbols[FIRST].st_other = file.symbols[SECOND].st_other = 0;
	assert_int_equal(read_file(&file, sizeof(file), &cubin), 0);
	assert_int_equal(cubin.n_variables, 0);
	assert_int_equal(cubin.total, 0);
	cubin_fini(&cubin);
}

/* Changes one number of the whole file. */
#define BROKEN(field, value, want)                                                                 \
	do {                                                                                       \
		struct cubin_file file = whole;                                                    \
		file.field = (value);                                                              \
		assert_int_equal(try_file(&file, sizeof(file)), want);                             \
	} while (0)

static void test_broken_heads(void **state)
{
	(void)state;
	BROKEN(head.e_ident[0], 0, -EBADMSG);
	BROKEN(head.e_ident[EI_CLASS], ELFCLASS32, -EBADMSG);
	BROKEN(head.e_machine, EM_X86_64, -EBADMSG);
	BROKEN(head.e_type, ET_REL, -EBADMSG);
	BROKEN(head.e_shentsize, 40, -EBADMSG);
	BROKEN(head.e_shoff, sizeof(struct cubin_file) - 64, -EBADMSG);
	BROKEN(head.e_shoff, ~0ull, -EBADMSG);
	BROKEN(head.e_shnum, 0, -EBADMSG);
	BROKEN(head.e_shnum, 65535, -EBADMSG);
	BROKEN(sections[SYMBOLS].sh_type, SHT_PROGBITS, -EBADMSG);
	BROKEN(sections[SYMBOLS].sh_entsize, 16, -EBADMSG);
	BROKEN(sections[SYMBOLS].sh_size, sizeof(struct cubin_file), -EBADMSG);
	BROKEN(sections[SYMBOLS].sh_offset, ~0ull - 8, -EBADMSG);
	BROKEN(sections[SYMBOLS].sh_link, SECTIONS, -EBADMSG);
	BROKEN(sections[SYMBOLS].sh_link, CODE, -EBADMSG);
	BROKEN(sections[NAMES].sh_size, ~0ull, -EBADMSG);
	BROKEN(sections[NAMES].sh_size, 8, -EBADMSG);
}

static void test_broken_symbols(void **state)
{
	(void)state;
	BROKEN(symbols[FIRST].st_name, 64, -EBADMSG);
	BROKEN(symbols[FIRST].st_size, 0, -ENOTSUP);
	BROKEN(symbols[FIRST].st_size, ~0ull, -ENOTSUP);
	BROKEN(symbols[FIRST].st_size, 1ull << 40, -ENOTSUP);
	BROKEN(symbols[FIRST].st_shndx, SHN_COMMON, -EBADMSG);
	BROKEN(symbols[SECOND].st_size, 13, -ENOTSUP);
	BROKEN(symbols[SECOND].st_value, ~0ull - 2, -ENOTSUP);
	BROKEN(symbols[SECOND].st_shndx, OF_CODE, -ENOTSUP);
	/* Its last name ends with the file at the latest. */
	BROKEN(sections[NAMES].sh_offset, sizeof(struct cubin_file) - 64, 0);
}

static void test_broken_relocations(void **state)
{
	(void)state;
	BROKEN(of_constants[0].r_info, ELF64_R_INFO(SECOND, 0x3a), -ENOTSUP);
	BROKEN(of_constants[0].r_info, ELF64_R_INFO(77, 0x3a), 0);
	BROKEN(of_constants[0].r_offset, 25, -EBADMSG);
	BROKEN(of_constants[0].r_offset, ~0ull, -EBADMSG);
	BROKEN(of_code[0].r_offset, 28, -EBADMSG);
	BROKEN(sections[OF_CODE].sh_info, SECTIONS, -EBADMSG);
	BROKEN(sections[OF_CODE].sh_info, ZEROS, -EBADMSG);
	BROKEN(sections[OF_CODE].sh_entsize, 16, -EBADMSG);
	BROKEN(sections[OF_CODE].sh_size, sizeof(struct cubin_file), -EBADMSG);
	BROKEN(sections[OF_CODE].sh_link, NAMES, -ENOTSUP); /* of other symbols */
}

/* The same table repeatedly exceeds the room that the file can have. */
static void test_tables_without_end(void **state)
{
	static struct {
		struct cubin_file file;
		Elf64_Shdr sections[4096];
		uint8_t zeros[65536];
	} many;

	(void)state;
	many.file = whole;
	memcpy(many.sections, whole.sections, sizeof(whole.sections));
	for (unsigned i = SECTIONS; i < 4096; i++) {
		many.sections[i] = whole.sections[OF_CONSTANTS];
		many.sections[i].sh_size = sizeof(many.zeros);
		many.sections[i].sh_offset = offsetof(typeof(many), zeros);
	}
	many.file.head.e_shoff = sizeof(many.file);
	many.file.head.e_shnum = 4096;
	assert_int_equal(try_file(&many.file, sizeof(many)), -EBADMSG);
}

/* A cut file or a changed byte gives a result, and nothing else. */
static void test_every_byte(void **state)
{
	(void)state;
	for (size_t size = 0; size < sizeof(whole); size++)
		(void)try_file(&whole, size);
	for (size_t at = 0; at < sizeof(whole); at++) {
		static const uint8_t values[] = {0, 1, 8, 0x7f, 0x80, 0xff};

		for (size_t i = 0; i < sizeof(values); i++) {
			struct cubin_file file = whole;

			((uint8_t *)&file)[at] = values[i];
			(void)try_file(&file, sizeof(file));
		}
	}
}

/* A relocation may overwrite heads, names and tables: they are read and checked again. */
static void test_written_over(void **state)
{
	static const uint64_t targets[] = {0, offsetof(struct cubin_file, sections),
		offsetof(struct cubin_file, symbols), offsetof(struct cubin_file, names),
		offsetof(struct cubin_file, of_constants)};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(targets); i++)
		for (uint64_t offset = 0; offset < 600; offset++) {
			struct cubin_file file = whole;

			file.sections[CONSTANTS].sh_offset = targets[i];
			file.sections[CONSTANTS].sh_size = sizeof(file) - targets[i];
			file.of_constants[0].r_offset = offset;
			file.of_constants[0].r_addend = (int64_t)(offset * 0x0101010101010101ull);
			(void)try_file(&file, sizeof(file));
		}
}

/* How the driver uses the GPU's memory when it loads the code. */
static void test_size_of_variables(void **state)
{
	struct cubin_file file = whole;

	(void)state;
	assert_int_equal(cubin_variables((const uint8_t *)&file, sizeof(file)), (1 << 20) + 16);
	file.sections[INITIAL].sh_flags = 0;
	assert_int_equal(cubin_variables((const uint8_t *)&file, sizeof(file)), 1 << 20);
	file.sections[ZEROS].sh_name = 55;
	assert_int_equal(cubin_variables((const uint8_t *)&file, sizeof(file)), 0);
	file.sections[ZEROS].sh_name = UINT32_MAX;
	assert_int_equal(cubin_variables((const uint8_t *)&file, sizeof(file)), 0);
	file = whole;
	file.sections[ZEROS].sh_size = UINT64_MAX;
	assert_int_equal(cubin_variables((const uint8_t *)&file, sizeof(file)), UINT64_MAX);
	file.head.e_shstrndx = SECTIONS;
	assert_int_equal(cubin_variables((const uint8_t *)&file, sizeof(file)), 0);
	for (size_t size = 0; size < sizeof(whole); size += 7) {
		uint8_t *bytes = malloc(size + 1);

		assert_non_null(bytes);
		memcpy(bytes, &whole, size);
		(void)cubin_variables(bytes, size);
		free(bytes);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_found),
		cmocka_unit_test(test_placed),
		cmocka_unit_test(test_without_addends),
		cmocka_unit_test(test_no_room),
		cmocka_unit_test(test_none),
		cmocka_unit_test(test_broken_heads),
		cmocka_unit_test(test_broken_symbols),
		cmocka_unit_test(test_broken_relocations),
		cmocka_unit_test(test_tables_without_end),
		cmocka_unit_test(test_every_byte),
		cmocka_unit_test(test_written_over),
		cmocka_unit_test(test_size_of_variables),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
