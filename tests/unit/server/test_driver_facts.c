/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Which figures a server takes for the driver that it finds, and what all figures have to be.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

#include "base.h"
#include "server/driver/driver.h"
#include "server/driver/driver_facts.h"
#include "server/schedule/blocked_streams.h"

static const struct driver_facts rows[] = {
	{.version = 12040}, {.version = 13000}, {.version = 13020}};

static void test_find(_unused_ void **state)
{
	static const struct {
		int version, found;
	} cases[] = {
		{12040, 12040},
		{13000, 13000},
		{13020, 13020},
		/* Between two, newer than all, older than all. */
		{12090, 12040},
		{13010, 13000},
		{14000, 13020},
		{12000, 12040},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(
			driver_facts_find(rows, ARRAY_SIZE(rows), cases[i].version)->version,
			cases[i].found);
	assert_int_equal(driver_facts_find(rows, 1, 13000)->version, 12040);
}

static void test_choose(_unused_ void **state)
{
	size_t n;
	const struct driver_facts *all = driver_facts_all(&n);

	assert_ptr_equal(driver_facts(), &all[n - 1]);
	driver_facts_choose(all[0].version);
	assert_ptr_equal(driver_facts(), &all[0]);
	driver_facts_choose(all[n - 1].version + 1000);
	assert_ptr_equal(driver_facts(), &all[n - 1]);
}

/* The server relies on this, whatever the driver. */
static void test_rows(_unused_ void **state)
{
	size_t n;
	const struct driver_facts *all = driver_facts_all(&n);

	for (size_t i = 0; i < n; i++) {
		assert_true(all[i].version >= DRIVER_VERSION_MIN && all[i].branch > 0);
		assert_true(i == 0 || all[i].version > all[i - 1].version);
		assert_in_range(all[i].n_queues_blocked, 4, DRIVER_QUEUES_MAX);
		assert_true(all[i].n_queue_calls > BLOCKED_BEHIND_MAX);
		assert_true(all[i].n_channels_green > 4);
		assert_true(all[i].n_graph_kernels > 1024 + 64);
		assert_true(all[i].body_node_memory > 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_find),
		cmocka_unit_test(test_choose),
		cmocka_unit_test(test_rows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
