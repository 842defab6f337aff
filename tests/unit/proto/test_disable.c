/* SPDX-License-Identifier: Apache-2.0 */

/*
 * MPS_DISABLE: which words a list contains, and which of them are unknown.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "disable.h"

static int unset(void **state)
{
	(void)state;
	return unsetenv(DISABLE_VARIABLE);
}

static void set(const char *list)
{
	assert_int_equal(setenv(DISABLE_VARIABLE, list, 1), 0);
}

static unsigned count_disabled(void)
{
	unsigned n = 0;

	for (enum disable_word word = 0; word < DISABLE_N_WORDS; word++)
		n += disable_has(word);
	return n;
}

static void check_unknown(const char *const *expected, unsigned n)
{
	const char *at = NULL, *word;
	int length;

	for (unsigned i = 0; i < n; i++) {
		word = disable_next_unknown(&at, &length);
		assert_non_null(word);
		assert_int_equal(length, strlen(expected[i]));
		assert_memory_equal(word, expected[i], (size_t)length);
	}
	assert_null(disable_next_unknown(&at, &length));
	assert_null(disable_next_unknown(&at, &length));
}

static void test_nothing(void **state)
{
	static const char *const lists[] = {"", ",", " ,\t, "};

	(void)state;
	assert_int_equal(count_disabled(), 0);
	check_unknown(NULL, 0);
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		set(lists[i]);
		assert_int_equal(count_disabled(), 0);
		check_unknown(NULL, 0);
	}
}

static void test_words(void **state)
{
	static const char *const lists[] = {
		"hold,spin", "spin hold", ",,hold,,spin,", " hold\t, spin ", "spin,hold,spin,hold"};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		set(lists[i]);
		assert_true(disable_has(DISABLE_HOLD));
		assert_true(disable_has(DISABLE_SPIN));
		assert_int_equal(count_disabled(), 2);
		check_unknown(NULL, 0);
	}
}

static void test_add(void **state)
{
	(void)state;
	assert_int_equal(disable_add(DISABLE_DLOPEN), 0);
	assert_true(disable_has(DISABLE_DLOPEN));
	assert_int_equal(disable_add(DISABLE_SPIN), 0);
	assert_true(disable_has(DISABLE_DLOPEN));
	assert_true(disable_has(DISABLE_SPIN));
	assert_int_equal(count_disabled(), 2);
	check_unknown(NULL, 0);
}

/* The words that the log shows to users. */
static void test_all_words(void **state)
{
	(void)state;
	set(DISABLE_WORDS);
	assert_int_equal(count_disabled(), DISABLE_N_WORDS);
	check_unknown(NULL, 0);
}

static void test_unknown(void **state)
{
	static const char *const unknown[] = {"hol", "holds", "Hold", "spin=0", "hold;spin", "0"};

	(void)state;
	set("hol,holds,Hold,spin=0,hold;spin,0");
	assert_int_equal(count_disabled(), 0);
	check_unknown(unknown, ARRAY_SIZE(unknown));
	set("turns,hol, quiet,holds Hold,spin=0,,hold;spin,0,dlopen");
	assert_int_equal(count_disabled(), 3);
	check_unknown(unknown, ARRAY_SIZE(unknown));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_nothing, unset),
		cmocka_unit_test_setup(test_words, unset),
		cmocka_unit_test_setup(test_add, unset),
		cmocka_unit_test_setup(test_all_words, unset),
		cmocka_unit_test_setup(test_unknown, unset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
