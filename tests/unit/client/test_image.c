/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Sizes of images of every kind, which are laid out here as nvcc does it.
 */

#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "base.h"
#include "client/module/image.h"

static void assert_image(const void *image, const void *data, size_t size)
{
	const void *found = NULL;
	size_t found_size = 0;

	assert_int_equal(image_find(image, &found, &found_size), 0);
	assert_ptr_equal(found, data);
	assert_int_equal(found_size, size);
}

static void test_text(void **state)
{
	static const char ptx[] = "//\n.version 8.0\n";

	(void)state;
	assert_image(ptx, ptx, sizeof(ptx));
	assert_image(".", ".", 2);
}

static void test_fatbin(void **state)
{
	static uint64_t fatbin[8] = {0x00100001ba55ed50, 48};
	struct {
		uint32_t magic, version;
		const void *data;
		const void *more;
	} wrapper = {0x466243b1, 1, fatbin, NULL};

	(void)state;
	assert_image(fatbin, fatbin, 16 + 48);
	assert_image(&wrapper, fatbin, 16 + 48);
	wrapper.version = 2;
	assert_image(&wrapper, fatbin, 16 + 48);
}

static void test_linked(void **state)
{
	static uint64_t linked[3] = {0x00100001ba55ed50, 5, 11},
			part[4] = {0x00100001ba55ed50, 16, 22};
	static uint64_t text[2] = {0x2e2e2e2e2e2e2e2e};
	const void *parts[] = {part, linked, NULL};
	struct {
		uint32_t magic, version;
		const void *data;
		const void **parts;
	} wrapper = {0x466243b1, 2, linked, parts};
	uint64_t *joined = NULL;
	size_t size = 0;

	(void)state;
	assert_int_equal(image_join(&wrapper, (void **)&joined, &size), 0);
	assert_int_equal(size, 24 + 32 + 21);
	assert_memory_equal(joined, linked, 21);
	assert_memory_equal(joined + 3, part, 32);
	assert_memory_equal(joined + 7, linked, 21);
	free(joined);
	/* An image without parts has no list. */
	parts[0] = NULL;
	assert_int_equal(image_join(&wrapper, (void **)&joined, &size), 0);
	assert_null(joined);
	parts[0] = part;
	wrapper.version = 1;
	assert_int_equal(image_join(&wrapper, (void **)&joined, &size), 0);
	assert_null(joined);
	assert_int_equal(image_join(text, (void **)&joined, &size), 0);
	assert_null(joined);
	wrapper.version = 2;
	parts[1] = text;
	assert_int_equal(image_join(&wrapper, (void **)&joined, &size), -EBADMSG);
	assert_null(joined);
}

static void test_elf(void **state)
{
	struct {
		Elf64_Ehdr head;
		char code[40];
		Elf64_Shdr sections[2];
		Elf64_Phdr segments[3];
		char rest[64];
	} elf = {
		.head = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64},
			.e_shoff = offsetof(__typeof__(elf), sections),
			.e_shentsize = sizeof(Elf64_Shdr),
			.e_shnum = 2},
	};

	(void)state;
	elf.sections[1] = (Elf64_Shdr){.sh_type = SHT_NOBITS, .sh_offset = 64, .sh_size = 1 << 20};
	assert_image(&elf, &elf, offsetof(__typeof__(elf), segments));
	elf.head.e_phoff = offsetof(__typeof__(elf), segments);
	elf.head.e_phentsize = sizeof(Elf64_Phdr);
	elf.head.e_phnum = 3;
	assert_image(&elf, &elf, offsetof(__typeof__(elf), rest));
	elf.sections[0] = (Elf64_Shdr){.sh_type = SHT_PROGBITS, .sh_size = 64};
	elf.sections[0].sh_offset = offsetof(__typeof__(elf), rest);
	assert_image(&elf, &elf, sizeof(elf));
}

static void test_unknown(void **state)
{
	static const char garbage[16] = "garbage";
	static const uint32_t empty_wrapper[8] = {0x466243b1, 1};
	const void *found = NULL;
	size_t size = 0;

	(void)state;
	assert_int_equal(image_find(garbage, &found, &size), -EBADMSG);
	assert_int_equal(image_find(empty_wrapper, &found, &size), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_fatbin),
		cmocka_unit_test(test_linked),
		cmocka_unit_test(test_elf),
		cmocka_unit_test(test_unknown),
	};

	return cmocka_run_group_tests_name("client_image", tests, NULL, NULL);
}
