/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Which of two connections is closed first.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

#include "daemon/state/eviction.h"

/* In the order in which they are closed. */
static const struct eviction_candidate order[] = {
	{MERIT_SILENT, 8000, 1},
	{MERIT_SILENT, 8000, 7},
	{MERIT_SILENT, EVICTION_OWN_CONNS + 1, 2},
	{MERIT_PARTLY_READ, 8000, 3},
	{MERIT_PARTLY_READ, 20, 1},
	{MERIT_WAITING, 8000, 1},
	{MERIT_WAITING, 8000, 2},
	{MERIT_ANSWERED, 8000, 1},
	{MERIT_ANSWERED, 17, 1},
	/* Accounts within their own part. */
	{MERIT_SILENT, EVICTION_OWN_CONNS, 9},
	{MERIT_SILENT, 1, 1},
	{MERIT_SILENT, 1, 8},
	{MERIT_PARTLY_READ, 1, 1},
	{MERIT_WAITING, 4, 5},
	{MERIT_WAITING, 1, 4},
	{MERIT_ANSWERED, 4, 1},
	{MERIT_ANSWERED, 1, 1},
};

static void test_order(_unused_ void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(order); i++)
		for (size_t k = 0; k < ARRAY_SIZE(order); k++)
			assert_int_equal(eviction_precedes(&order[i], &order[k]), i < k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
