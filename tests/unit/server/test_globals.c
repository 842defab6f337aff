/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Variables in global memory: placed in a cubin that is made here and in nvcc's, and refused if
 * the file is damaged or has something that only the loader can resolve.
 */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "managed_cubin.h"
#include "server/module/globals.h"

#define ADDRESS 0x212345678900ull
#define FUNCTION 3 /* symbol: SECOND, where a test makes it one */

/* Its initial values come first, because their section does. */
enum {
	VALUES_AT = 0,
	ZEROS_AT = GLOBALS_ALIGN,
};

static int read_bytes(const void *data, size_t size, struct globals *ret_globals)
{
	uint8_t *bytes = malloc(size + 1);
	int r;

	assert_non_null(bytes);
	memcpy(bytes, data, size);
	bytes[size] = 0;
	r = globals_read(bytes, size, ret_globals);
	if (r < 0)
		free(bytes);
	return r;
}

/* The result of reading or placing. */
static int try_bytes(const void *data, size_t size)
{
	struct globals globals;
	uint64_t offset, length;
	int r = read_bytes(data, size, &globals);

	if (r < 0)
		return r;
	r = globals_place(&globals, ADDRESS);
	if (r == 0) {
		uint8_t *memory = calloc(1, globals.total + 1);

		assert_non_null(memory);
		globals_initialise(&globals, memory);
		if (globals_find(&globals, "second", &offset, &length) == 0)
			assert_true(range_ok(offset, length, globals.total));
		free(memory);
	}
	globals_fini(&globals);
	return r;
}

static int try_file(const struct cubin_file *file)
{
	return try_bytes(file, sizeof(*file));
}

static void test_found(void **state)
{
	struct cubin_file file = plain_cubin();
	struct globals globals;
	uint64_t offset = 0, size = 0;

	(void)state;
	assert_int_equal(read_bytes(&file, sizeof(file), &globals), 0);
	assert_int_equal(globals.total, ZEROS_AT + (1 << 20));
	assert_int_equal(globals_find(&globals, "first", &offset, &size), 0);
	assert_int_equal(offset, ZEROS_AT + 8);
	assert_int_equal(size, 40);
	assert_int_equal(globals_find(&globals, "second", &offset, &size), 0);
	assert_int_equal(offset, VALUES_AT + 4);
	assert_int_equal(size, 12);
	assert_int_equal(globals_find(&globals, "secon", &offset, &size), -ENOENT);
	globals_fini(&globals);
	/* Of two with one name, that one which is not local. */
	file.symbols[OTHER].st_name = file.symbols[FIRST].st_name;
	assert_int_equal(read_bytes(&file, sizeof(file), &globals), 0);
	assert_int_equal(globals_find(&globals, "first", &offset, &size), 0);
	assert_int_equal(size, 8);
	globals_fini(&globals);
}

static void test_placed(void **state)
{
	const uint64_t second = ADDRESS + VALUES_AT + 4;
	struct cubin_file file = plain_cubin();
	const struct cubin_file *placed;
	struct globals globals;

	(void)state;
	assert_int_equal(read_bytes(&file, sizeof(file), &globals), 0);
	assert_int_equal(globals_place(&globals, ADDRESS), 0);
	placed = (const struct cubin_file *)globals.bytes;
	assert_int_equal(placed->constants[0], second + 4);
	assert_int_equal(placed->constants[1], ADDRESS + ZEROS_AT);
	assert_int_equal(placed->constants[2], ADDRESS + ZEROS_AT + 8);
	assert_int_equal(placed->constants[3], 7);
	assert_int_equal(placed->code[1], (uint32_t)(second - 8));
	assert_int_equal(placed->code[5], (second - 8) >> 32);
	assert_int_equal(placed->sections[OF_CONSTANTS].sh_size, 0);
	assert_int_equal(placed->sections[OF_CODE].sh_size, 0);
	/* The loader's own variables stay. */
	assert_memory_equal(placed->symbols, file.symbols, sizeof(file.symbols));
	assert_false(globals.takes_functions);
	globals_fini(&globals);
}

/* Pointers in initial values are placed before the values are written. */
static void test_values(void **state)
{
	struct cubin_file file = plain_cubin();
	uint64_t pointer = ADDRESS + ZEROS_AT + 8 + 16;
	struct globals globals;
	uint8_t *memory;

	(void)state;
	file.sections[OF_CONSTANTS].sh_info = INITIAL;
	file.of_constants[0] =
		(Elf64_Rela){.r_offset = 8, .r_info = ELF64_R_INFO(FIRST, 4), .r_addend = 16};
	file.sections[OF_CONSTANTS].sh_size = sizeof(Elf64_Rela);
	assert_int_equal(read_bytes(&file, sizeof(file), &globals), 0);
	assert_int_equal(globals_place(&globals, ADDRESS), 0);
	memory = calloc(1, globals.total);
	assert_non_null(memory);
	globals_initialise(&globals, memory);
	assert_memory_equal(memory + VALUES_AT, file.initial, 8);
	assert_memory_equal(memory + VALUES_AT + 8, &pointer, sizeof(pointer));
	assert_int_equal(memory[ZEROS_AT], 0);
	free(memory);
	globals_fini(&globals);
}

/* A loader that knows all names, or none. */
struct loader {
	const char *name; /* the last that it was asked for */
	uint64_t offset, size;
	unsigned n;
	int result;
};

static int find_copy(void *arg, const char *name, uint64_t offset, uint64_t size)
{
	struct loader *loader = arg;

	*loader = (struct loader){name, offset, size, loader->n + 1, loader->result};
	return loader->result;
}

/* Searches for the loader's copies in the file's bytes. */
static int find_loaded(const struct cubin_file *file, struct loader *loader)
{
	struct globals globals;
	uint8_t *marks;
	int r;

	assert_int_equal(read_bytes(file, sizeof(*file), &globals), 0);
	assert_int_equal(globals_place(&globals, ADDRESS), 0);
	assert_true(globals.has_loaded);
	/* The loader finds what is left to it. */
	assert_memory_equal(((const struct cubin_file *)globals.bytes)->of_constants,
		file->of_constants, sizeof(file->of_constants[0]));
	marks = calloc(1, globals.total);
	assert_non_null(marks);
	r = globals_find_loaded(&globals, marks, find_copy, loader);
	if (r == 0)
		assert_null(memchr(marks, 1, globals.total));
	free(marks);
	globals_fini(&globals);
	return r;
}

static void test_functions(void **state)
{
	struct cubin_file file = plain_cubin();
	struct globals globals;

	(void)state;
	file.symbols[FUNCTION].st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
	file.symbols[FUNCTION].st_shndx = CODE;
	/* An address within a function, to return to. */
	assert_int_equal(read_bytes(&file, sizeof(file), &globals), 0);
	assert_int_equal(globals_place(&globals, ADDRESS), 0);
	assert_false(globals.takes_functions);
	globals_fini(&globals);
	file.of_code[0].r_addend = file.of_code[1].r_addend = 0;
	assert_int_equal(read_bytes(&file, sizeof(file), &globals), 0);
	assert_int_equal(globals_place(&globals, ADDRESS), 0);
	assert_true(globals.takes_functions);
	globals_fini(&globals);
}

/* What only the loader knows, in the value of a variable. */
static void test_loaded(void **state)
{
	struct cubin_file file = plain_cubin();
	struct loader loader = {0};

	(void)state;
	file.sections[OF_CONSTANTS].sh_info = INITIAL;
	file.sections[OF_CONSTANTS].sh_size = sizeof(Elf64_Rela);
	file.of_constants[0] = (Elf64_Rela){.r_offset = 8, .r_info = ELF64_R_INFO(OTHER, 2)};
	for (unsigned i = 0; i < 2; i++) {
		/* A function, and a constant. */
		file.symbols[OTHER].st_info =
			ELF64_ST_INFO(STB_GLOBAL, i == 0 ? STT_FUNC : STT_OBJECT);
		file.symbols[OTHER].st_shndx = i == 0 ? CODE : CONSTANTS;
		assert_int_equal(find_loaded(&file, &loader), 0);
		assert_int_equal(loader.n, 1 + i);
		assert_int_equal(loader.offset, VALUES_AT + 4);
		assert_int_equal(loader.size, 12);
	}
	loader.result = -ENOENT;
	assert_int_equal(find_loaded(&file, &loader), -ENOENT);
	loader.result = -ENOMEM;
	assert_int_equal(find_loaded(&file, &loader), -ENOMEM);
	/* In no variable. */
	loader = (struct loader){0};
	file.of_constants[0].r_offset = 0;
	assert_int_equal(find_loaded(&file, &loader), -ENOENT);
	assert_int_equal(loader.n, 0);
	file.of_constants[0].r_offset = sizeof(file.initial);
	assert_int_equal(find_loaded(&file, &loader), -EBADMSG);
	/* Of two variables with one name. */
	file.of_constants[0].r_offset = 8;
	file.symbols[FIRST].st_name = file.symbols[SECOND].st_name;
	assert_int_equal(find_loaded(&file, &loader), -ENOENT);
	assert_int_equal(loader.n, 0);
}

/* Changes one number of the file. */
#define CHANGED(field, value, want)                                                                \
	do {                                                                                       \
		struct cubin_file file = plain_cubin();                                            \
		file.field = (value);                                                              \
		assert_int_equal(try_file(&file), want);                                           \
	} while (0)

static void test_refused(void **state)
{
	(void)state;
	CHANGED(head.e_machine, EM_X86_64, -EBADMSG);
	CHANGED(head.e_shstrndx, SECTIONS, -EBADMSG);
	CHANGED(symbols[OTHER].st_other, MANAGED, -EPERM);
	CHANGED(sections[ZEROS].sh_size, GLOBALS_SIZE_MAX, -EFBIG);
	CHANGED(sections[ZEROS].sh_size, UINT64_MAX, -EFBIG);
	CHANGED(sections[ZEROS].sh_size, GLOBALS_SIZE_MAX - ZEROS_AT, 0);
	CHANGED(sections[ZEROS].sh_addralign, 512, -ENOTSUP);
	CHANGED(sections[ZEROS].sh_type, SHT_NOTE, -EBADMSG);
	CHANGED(sections[INITIAL].sh_type, SHT_NOTE, -ENOTSUP);
	CHANGED(symbols[FIRST].st_value, (1 << 20) + 1, -EBADMSG);
	CHANGED(symbols[FIRST].st_value, 1 << 20, 0); /* the end */
	CHANGED(of_constants[0].r_info, ELF64_R_INFO(FIRST, 0x3a), -ENOTSUP);
	CHANGED(of_constants[0].r_info, ELF64_R_INFO(77, 2), -EBADMSG);
	CHANGED(of_constants[0].r_offset, 25, -EBADMSG);
	CHANGED(sections[OF_CODE].sh_link, NAMES, -ENOTSUP);
	/* Debuggers' addresses stay as they are. */
	CHANGED(sections[CONSTANTS].sh_flags, 0, 0);
	CHANGED(symbols[FIRST].st_name, 64, 0);
}

/* A cut file or a changed byte gives a result, and nothing else. */
static void test_every_byte(void **state)
{
	static const uint8_t values[] = {0, 1, 8, 0x7f, 0x80, 0xff};
	struct cubin_file file = plain_cubin();

	(void)state;
	file.sections[ZEROS].sh_size = 64;
	for (size_t size = 0; size < sizeof(file); size++)
		(void)try_bytes(&file, size);
	for (size_t at = 0; at < sizeof(file); at++)
		for (size_t i = 0; i < sizeof(values); i++) {
			struct cubin_file changed = file;

			((uint8_t *)&changed)[at] = values[i];
			(void)try_file(&changed);
		}
}

/* ---- nvcc's */

/* A file of nvcc's, and what is expected of it, written without the code that is tested. */
struct expected {
	uint8_t *bytes;
	const Elf64_Shdr *sections;
	const Elf64_Sym *symbols;
	uint64_t at[GLOBALS_SECTIONS]; /* of each section of variables */
	uint32_t number[GLOBALS_SECTIONS], n;
};

static bool find_place(const struct expected *expected, uint32_t section, uint64_t *ret_at)
{
	for (uint32_t i = 0; i < expected->n; i++)
		if (expected->number[i] == section) {
			*ret_at = expected->at[i];
			return true;
		}
	return false;
}

static void expect_sections(struct expected *expected)
{
	const Elf64_Ehdr *head = (const Elf64_Ehdr *)expected->bytes;
	const char *names;
	uint64_t end = ADDRESS;

	expected->sections = (const Elf64_Shdr *)(expected->bytes + head->e_shoff);
	names = (const char *)expected->bytes + expected->sections[head->e_shstrndx].sh_offset;
	for (uint32_t i = 0; i < head->e_shnum; i++) {
		const Elf64_Shdr *section = &expected->sections[i];

		if (section->sh_type == SHT_SYMTAB)
			expected->symbols =
				(const Elf64_Sym *)(expected->bytes + section->sh_offset);
		if (strncmp(names + section->sh_name, ".nv.global", 10) != 0)
			continue;
		expected->number[expected->n] = i;
		expected->at[expected->n++] = (end + 255) / 256 * 256;
		end = (end + 255) / 256 * 256 + section->sh_size;
	}
}

/* Resolves one entry. False: it stays. */
static bool expect_entry(const struct expected *expected, const Elf64_Shdr *target,
	const Elf64_Rela *entry, bool is_rela)
{
	const Elf64_Sym *symbol = &expected->symbols[ELF64_R_SYM(entry->r_info)];
	uint8_t *at = expected->bytes + target->sh_offset + entry->r_offset;
	uint64_t value, place;
	uint32_t half;

	if (!(target->sh_flags & SHF_ALLOC) || !find_place(expected, symbol->st_shndx, &place))
		return false;
	place += symbol->st_value;
	if (ELF64_R_TYPE(entry->r_info) <= 4) {
		memcpy(&value, at, sizeof(value));
		value = is_rela ? place + (uint64_t)entry->r_addend : place + value;
		memcpy(at, &value, sizeof(value));
		return true;
	}
	value = place + (is_rela ? (uint64_t)entry->r_addend : 0);
	half = (uint32_t)(ELF64_R_TYPE(entry->r_info) == 0x39 ? value >> 32 : value);
	memcpy(at + 4, &half, sizeof(half));
	return true;
}

static unsigned expect_all(struct expected *expected)
{
	const Elf64_Ehdr *head = (const Elf64_Ehdr *)expected->bytes;
	unsigned n_resolved = 0;

	for (uint32_t i = 0; i < head->e_shnum; i++) {
		Elf64_Shdr *table = (Elf64_Shdr *)(uintptr_t)&expected->sections[i];
		size_t size = table->sh_type == SHT_RELA ? sizeof(Elf64_Rela) : sizeof(Elf64_Rel);
		uint64_t n = table->sh_size / size, n_kept = 0;

		if (table->sh_type != SHT_RELA && table->sh_type != SHT_REL)
			continue;
		for (uint64_t k = 0; k < n; k++) {
			uint8_t *entries = expected->bytes + table->sh_offset;
			Elf64_Rela entry = {0};

			memcpy(&entry, entries + k * size, size);
			if (expect_entry(expected, &expected->sections[table->sh_info], &entry,
				    table->sh_type == SHT_RELA))
				n_resolved++;
			else
				memmove(entries + n_kept++ * size, entries + k * size, size);
		}
		table->sh_size = n_kept * size;
	}
	return n_resolved;
}

/* The Makefile makes them, in the folder `cubins' beside this test. */
static const struct real {
	const char *name;
	const char *variable;
	uint64_t size;
	bool has_loaded; /* virtual tables of linked code, and for debuggers, have addresses of
			  * functions
			  */
} real[] = {
	{"sm_75", "inside", 8, false},
	{"sm_90", "_ZTV6square", 32, false},
	{"linked_symbols", NULL, 0, false},
	{"linked", "_ZTV6square", 32, true},
	{"debug", "_ZTV6square", 32, true},
};

static void try_real(const struct real *wanted, const uint8_t *bytes, size_t size)
{
	struct expected expected = {.bytes = malloc(size)};
	struct globals globals;
	uint64_t offset = 0, length = 0;

	assert_non_null(expected.bytes);
	memcpy(expected.bytes, bytes, size);
	assert_int_equal(read_bytes(bytes, size, &globals), 0);
	assert_int_equal(globals_place(&globals, ADDRESS), 0);
	assert_int_equal(globals.has_loaded, wanted->has_loaded);
	expect_sections(&expected);
	assert_in_range(expect_all(&expected), 4, 100);
	assert_memory_equal(globals.bytes, expected.bytes, size);
	if (wanted->variable) {
		assert_int_equal(globals_find(&globals, wanted->variable, &offset, &length), 0);
		assert_int_equal(length, wanted->size);
	}
	globals_fini(&globals);
	free(expected.bytes);
}

static void test_real(void **state)
{
	/* Of the program's path: valgrind ends in a readlink() of /proc/self/exe. */
	int length = (int)(strrchr(program_invocation_name, '/') + 1 - program_invocation_name);
	char path[4400];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(real); i++) {
		static uint8_t bytes[1 << 20];
		FILE *file;
		size_t size;

		snprintf(path, sizeof(path), "%.*scubins/%s.cubin", length, program_invocation_name,
			real[i].name);
		file = fopen(path, "re");
		assert_non_null(file);
		size = fread(bytes, 1, sizeof(bytes), file);
		fclose(file);
		assert_in_range(size, 1000, sizeof(bytes) - 1);
		try_real(&real[i], bytes, size);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_found),
		cmocka_unit_test(test_placed),
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_functions),
		cmocka_unit_test(test_loaded),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_every_byte),
		cmocka_unit_test(test_real),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
