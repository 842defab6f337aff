/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fatbins that are made here, with entries of every kind and packing, whole and broken.
 * The reader of the software GPU must agree with the server's about all of them.
 */

#include <lz4.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <zstd.h>
#include <cmocka.h>

#include "base.h"
#include "server/module/fatbin.h"
#include "tests/softgpu/ptx/parse/fatbin.h"

#define FATBIN_SIZE 8192u

struct fatbin {
	uint8_t bytes[FATBIN_SIZE];
	size_t size;
};

enum packing {
	PACK_NONE,
	PACK_LZ4,
	PACK_ZSTD,
};

static void put(struct fatbin *fatbin, size_t at, uint64_t value, unsigned n)
{
	for (; n; n--, value >>= 8)
		fatbin->bytes[at++] = (uint8_t)value;
}

static void fatbin_begin(struct fatbin *fatbin)
{
	memset(fatbin, 0, sizeof(*fatbin));
	put(fatbin, 0, 0xba55ed50, 4);
	put(fatbin, 4, 1, 2);
	put(fatbin, 6, 16, 2);
	fatbin->size = 16;
}

static size_t pack(uint8_t *out, size_t room, const char *text, size_t len, enum packing packing)
{
	if (packing == PACK_LZ4)
		return (size_t)LZ4_compress_default(text, (char *)out, (int)len, (int)room);
	if (packing == PACK_ZSTD)
		return ZSTD_compress(out, room, text, len, 3);
	memcpy(out, text, len);
	return len;
}

static void fatbin_add(
	struct fatbin *fatbin, unsigned kind, unsigned arch, const char *text, enum packing packing)
{
	static const uint64_t flags[] = {0x11, 0x2011, 0x8011};
	size_t at = fatbin->size, len = strlen(text), header = 80, size, padded;

	size = pack(fatbin->bytes + at + header, FATBIN_SIZE - at - header, text, len, packing);
	padded = ALIGN_UP(size, (size_t)8);
	put(fatbin, at, kind, 2);
	put(fatbin, at + 2, 0x101, 2);
	put(fatbin, at + 4, header, 4);
	put(fatbin, at + 8, padded, 8);
	put(fatbin, at + 16, packing ? size : 0, 4);
	put(fatbin, at + 28, arch, 4);
	put(fatbin, at + 40, flags[packing], 8);
	put(fatbin, at + 56, packing ? len : 0, 8);
	fatbin->size = at + header + padded;
	put(fatbin, 8, fatbin->size - 16, 8);
}

static const char old[] =
	".version 6.4 .target sm_75 // and some more text that packs well well well";
static const char newer[] =
	".version 8.0 .target sm_90 // other text text text text text text text";

/* The PTX that both readers find; the caller frees it on success. */
static int find_ptx(const uint8_t *bytes, size_t size, char **ret_text, size_t *ret_len)
{
	int r = fatbin_find_ptx(bytes, size, 90, ret_text, ret_len);
	_cleanup_free_ char *other = NULL;

	assert_int_equal(fatbin_is(bytes, size), ptx_fatbin_is(bytes, size));
	assert_int_equal(ptx_fatbin_text(bytes, size, 90, &other), r);
	if (r == 0)
		assert_string_equal(other, *ret_text);
	return r;
}

static void expect(const struct fatbin *fatbin, const char *want)
{
	char *text = NULL;
	size_t len = 0;

	assert_int_equal(find_ptx(fatbin->bytes, fatbin->size, &text, &len), 0);
	assert_string_equal(text, want);
	assert_int_equal(len, strlen(want));
	free(text);
}

static void test_packings(_unused_ void **state)
{
	static const enum packing packings[] = {PACK_NONE, PACK_LZ4, PACK_ZSTD};

	for (unsigned i = 0; i < ARRAY_SIZE(packings); i++) {
		struct fatbin fatbin;

		fatbin_begin(&fatbin);
		fatbin_add(&fatbin, 2, 90, "\177ELF and no more", PACK_NONE);
		fatbin_add(&fatbin, 1, 75, old, packings[i]);
		expect(&fatbin, old);
	}
}

static void test_highest(_unused_ void **state)
{
	struct fatbin fatbin;

	fatbin_begin(&fatbin);
	fatbin_add(&fatbin, 1, 75, old, PACK_ZSTD);
	fatbin_add(&fatbin, 1, 90, newer, PACK_LZ4);
	fatbin_add(&fatbin, 1, 80, old, PACK_NONE);
	fatbin_add(&fatbin, 1, 100, "of a GPU that is not this one", PACK_NONE);
	expect(&fatbin, newer);
}

/* Built for all architectures: machine code for this one, PTX for the newest. */
static void test_above(_unused_ void **state)
{
	struct fatbin fatbin;

	fatbin_begin(&fatbin);
	fatbin_add(&fatbin, 2, 90, "\177ELF", PACK_NONE);
	fatbin_add(&fatbin, 1, 121, old, PACK_NONE);
	fatbin_add(&fatbin, 1, 120, newer, PACK_ZSTD);
	expect(&fatbin, newer);
}

static void test_none(_unused_ void **state)
{
	struct fatbin fatbin;
	char *text;
	size_t len;

	fatbin_begin(&fatbin);
	fatbin_add(&fatbin, 2, 100, "\177ELF", PACK_NONE);
	fatbin_add(&fatbin, 1, 100, newer, PACK_NONE);
	assert_int_equal(find_ptx(fatbin.bytes, fatbin.size, &text, &len), -ENOEXEC);
	fatbin.bytes[0]++;
	assert_int_equal(find_ptx(fatbin.bytes, fatbin.size, &text, &len), -EBADMSG);
	assert_false(fatbin_is(fatbin.bytes, fatbin.size));
	assert_false(fatbin_is(fatbin.bytes, 3));
}

/* A cut anywhere, or any byte changed: both return, and read nothing outside. */
static void test_broken(_unused_ void **state)
{
	struct fatbin fatbin;

	fatbin_begin(&fatbin);
	fatbin_add(&fatbin, 1, 75, old, PACK_LZ4);
	fatbin_add(&fatbin, 1, 80, newer, PACK_ZSTD);
	for (size_t i = 0; i < fatbin.size; i++) {
		for (unsigned bit = 0; bit < 9; bit++) {
			size_t size = bit == 8 ? i : fatbin.size, len;
			_cleanup_free_ uint8_t *copy = malloc(MAX(size, (size_t)1));
			_cleanup_free_ char *text = NULL;

			assert_non_null(copy);
			memcpy(copy, fatbin.bytes, size);
			if (bit < 8)
				copy[i] ^= (uint8_t)(1u << bit);
			(void)find_ptx(copy, size, &text, &len);
			(void)fatbin_mentions(copy, size, "no such word");
		}
	}
}

static void test_mentions(_unused_ void **state)
{
	static const enum packing packings[] = {PACK_NONE, PACK_LZ4, PACK_ZSTD};

	for (unsigned i = 0; i < ARRAY_SIZE(packings); i++) {
		struct fatbin fatbin;

		fatbin_begin(&fatbin);
		fatbin_add(&fatbin, 1, 75, old, packings[i]);
		fatbin_add(&fatbin, 2, 90, "\177ELF whatever, and vprintf at its end", packings[i]);
		assert_int_equal(fatbin_mentions(fatbin.bytes, fatbin.size, "vprintf"), 1);
		assert_int_equal(fatbin_mentions(fatbin.bytes, fatbin.size, "sm_75"), 1);
		assert_int_equal(fatbin_mentions(fatbin.bytes, fatbin.size, "sm_90"), 0);
		assert_int_equal(fatbin_mentions(fatbin.bytes, 20, "sm_90"), -EBADMSG);
	}
	assert_int_equal(fatbin_mentions(old, sizeof(old), "sm_75"), 1);
	assert_int_equal(fatbin_mentions(old, sizeof(old), "sm_90"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_packings),
		cmocka_unit_test(test_highest),
		cmocka_unit_test(test_above),
		cmocka_unit_test(test_none),
		cmocka_unit_test(test_broken),
		cmocka_unit_test(test_mentions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
