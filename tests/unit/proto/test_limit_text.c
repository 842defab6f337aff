/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Percentages and sizes in the syntax of users: what is accepted, what is refused,
 * and that a size which was written reads back as the same.
 */

#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "frame.h"
#include "limit_text.h"

#define K ((uint64_t)1 << 10)
#define M ((uint64_t)1 << 20)
#define G ((uint64_t)1 << 30)

static void test_percentages(void **state)
{
	static const struct {
		const char *text;
		uint32_t thousandths;
	} good[] = {
		{"100", ACTIVE_THREADS_ALL},
		{"100.000", ACTIVE_THREADS_ALL},
		{"25", 25000},
		{"25.", 25000},
		{"025.0", 25000},
		{"12.5", 12500},
		{"33.3339", 33333},
		{".5", 500},
		{"0.001", 1},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		uint32_t n = 0;

		assert_int_equal(parse_percentage(good[i].text, &n), 0);
		assert_int_equal(n, good[i].thousandths);
	}
}

static void test_nonsense_is_no_percentage(void **state)
{
	static const char *bad[] = {"", "0", "0.0", "0.0009", "100.001", "101", "1000", "-5", "+5",
		" 5", "5 ", "5%", "abc", ".", "1e1", "0x10", "1.2.3", "12,5", "inf", "nan",
		"4294967296", "18446744073709551641", "99999999999999999999999999"};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		uint32_t n = 7;

		assert_int_equal(parse_percentage(bad[i], &n), -EINVAL);
		assert_int_equal(n, 7);
	}
}

/* Rounded down to whole groups, at least one; never more than the GPU has. */
static void test_shares(void **state)
{
	static const struct {
		uint32_t thousandths, n_sms, group, n_groups, share;
	} shares[] = {
		{ACTIVE_THREADS_ALL, 132, 8, 16, 0},
		{99999, 132, 8, 16, 16},
		{99999, 132, 8, 15, 15},
		{50000, 132, 8, 16, 8},
		{25000, 132, 8, 16, 4},
		{24242, 132, 8, 16, 3},
		{12500, 132, 8, 16, 2},
		{1, 132, 8, 16, 1},
		{50000, 1, 1, 1, 1},
		{50000, UINT32_MAX, 1, UINT32_MAX, UINT32_MAX / 2},
		{50000, 132, 0, 0, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(shares); i++)
		assert_int_equal(share_groups(shares[i].thousandths, shares[i].n_sms,
					 shares[i].group, shares[i].n_groups),
			shares[i].share);
}

static void test_sizes(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} good[] = {
		{"1K", K},
		{"1kb", K},
		{"512M", 512 * M},
		{"512 mb", 512 * M},
		{"512\t Mb", 512 * M},
		{"1044M", 1044 * M},
		{"2G", 2 * G},
		{"0002GB", 2 * G},
		{"67108864G", SIZE_LIMIT_MAX},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		uint64_t n = 0;

		assert_int_equal(parse_size(good[i].text, &n), 0);
		assert_int_equal(n, good[i].bytes);
	}
}

static void test_nonsense_is_no_size(void **state)
{
	static const char *bad[] = {"", "G", "0", "0M", "1", "1024", "1T", "1.5G", "-1G", "+1G",
		" 1G", "1G ", "1GG", "1GiB", "1GBs", "1B", "1 B", "1K B", "0x1G", "67108865G",
		"17179869185G", "18446744073709551617M", "99999999999999999999999999K"};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		uint64_t n = 7;

		assert_int_equal(parse_size(bad[i], &n), -EINVAL);
		assert_int_equal(n, 7);
	}
}

static void test_sizes_read_back(void **state)
{
	static const struct {
		uint64_t bytes;
		const char *text;
	} sizes[] = {
		{1044 * M, "1044M"},
		{2 * G, "2G"},
		{3 * K, "3K"},
		{G + K, "1048577K"},
		{G + 1, "1073741825B"},
		{0, "0B"},
		{SIZE_LIMIT_MAX, "67108864G"},
		{UINT64_MAX, "18446744073709551615B"},
	};
	char text[SIZE_TEXT_MAX];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		uint64_t n = 0;

		format_size(sizes[i].bytes, text, sizeof(text));
		assert_string_equal(text, sizes[i].text);
		if (sizes[i].bytes && sizes[i].bytes % K == 0) {
			assert_int_equal(parse_size(text, &n), 0);
			assert_int_equal(n, sizes[i].bytes);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_percentages),
		cmocka_unit_test(test_nonsense_is_no_percentage),
		cmocka_unit_test(test_shares),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_nonsense_is_no_size),
		cmocka_unit_test(test_sizes_read_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
