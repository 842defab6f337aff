/* SPDX-License-Identifier: Apache-2.0 */

/* Stream priorities of clients below normal rank after those of normal clients. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "server/device/priority.h"

#define LEAST_TRIED (-8)

static struct device device_with(int32_t greatest)
{
	return (struct device){.priority_least = 0, .priority_greatest = greatest};
}

/* The driver's priority for each request, within the client's range. */
static void test_parts_keep_their_order(void **state)
{
	(void)state;
	for (int32_t greatest = LEAST_TRIED; greatest <= 0; greatest++) {
		const struct device device = device_with(greatest);

		for (int32_t client = PRIORITY_NORMAL; client < PRIORITY_BACKGROUND; client++) {
			struct priority_range above = priority_range(&device, client);
			struct priority_range below = priority_range(&device, client + 1);

			assert_in_range(-above.least, 0, -greatest);
			assert_in_range(-above.greatest, -above.least, -greatest);
			/* With two priorities, background has the same as below normal. */
			if (greatest <= -2 || (greatest == -1 && client == PRIORITY_NORMAL))
				assert_true(above.least < below.greatest);
			for (int32_t a = -9; a <= 9; a++)
				for (int32_t b = -9; b <= 9; b++)
					assert_true(priority_real(&device, above, a) <=
						    priority_real(&device, below, b));
		}
	}
}

/* The range of an H200. */
static void test_parts_of_six(void **state)
{
	const struct device device = device_with(-5);
	static const struct priority_range wanted[] = {{-3, -5}, {-1, -2}, {0, 0}};

	(void)state;
	for (int32_t client = 0; client < 3; client++) {
		struct priority_range range = priority_range(&device, client);

		assert_int_equal(range.least, wanted[client].least);
		assert_int_equal(range.greatest, wanted[client].greatest);
		assert_int_equal(priority_real(&device, range, 0), range.least);
		assert_int_equal(priority_real(&device, range, 5), range.least);
		assert_int_equal(priority_real(&device, range, INT32_MAX), range.least);
		assert_int_equal(
			priority_real(&device, range, -1), MAX(range.least - 1, range.greatest));
		assert_int_equal(priority_real(&device, range, -9), range.greatest);
		assert_int_equal(priority_real(&device, range, INT32_MIN), range.greatest);
	}
	assert_int_equal(priority_normal(&device), -3);
}

static void test_own_and_operators(void **state)
{
	static const struct {
		const char *own;
		int32_t of_operator, chosen;
		bool is_accepted;
	} cases[] = {
		{NULL, 0, 0, true},
		{NULL, 1, 1, true},
		{NULL, 2, 2, true},
		{"", 1, 1, true},
		{"0", 0, 0, true},
		{"1", 0, 1, true},
		{"2", 0, 2, true},
		{"0", 1, 0, true},
		{"1", 1, 1, true},
		{"2", 1, 2, true},
		{"0", 2, 2, true},
		{"1", 2, 2, true},
		{"3", 1, 1, false},
		{"-1", 0, 0, false},
		{"01", 1, 1, false},
		{"1 ", 0, 0, false},
		{"low", 0, 0, false},
		{"\xb1", 0, 0, false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct frame_variable own = {.is_set = cases[i].own != NULL};
		int32_t chosen = 77;

		snprintf(own.value, sizeof(own.value), "%s", cases[i].own ? cases[i].own : "");
		assert_int_equal(
			priority_choose(&own, cases[i].of_operator, &chosen), cases[i].is_accepted);
		assert_int_equal(chosen, cases[i].chosen);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parts_keep_their_order),
		cmocka_unit_test(test_parts_of_six),
		cmocka_unit_test(test_own_and_operators),
	};

	return cmocka_run_group_tests_name("server priority", tests, NULL, NULL);
}
