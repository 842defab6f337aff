/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Rates between two samples, and which client is which.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "daemon/top/top_table.h"

#define S 1000000000ull

static struct top_client client(int64_t pid, uint64_t launches)
{
	return (struct top_client){.server = 5,
		.id = 1000 - pid,
		.pid = pid,
		.uid = 4294967294u,
		.command = "x",
		.launches = launches,
		.copies = 3 * launches,
		.bytes_in = 5 * launches,
		.bytes_out = 7 * launches,
		.busy_ns = launches * S / 100};
}

static void update(
	struct top_table *table, uint64_t time_ns, const struct top_client *clients, size_t n)
{
	struct top_sample sample = {.time_ns = time_ns, .n_clients = n};

	sample.clients = calloc(n + 1, sizeof(*clients));
	assert_non_null(sample.clients);
	for (size_t i = 0; i < n; i++)
		sample.clients[i] = clients[i];
	assert_int_equal(top_table_update(table, &sample), 0);
	assert_null(sample.clients);
	assert_int_equal(table->n_rows, n);
}

static const struct top_row *row_of(const struct top_table *table, int64_t pid)
{
	for (size_t i = 0; i < table->n_rows; i++)
		if (table->rows[i].client.pid == pid)
			return &table->rows[i];
	fail();
	return NULL;
}

static void check_number(double got, double want)
{
	assert_true(got > want - 1e-6 && got < want + 1e-6);
}

static void test_rates(_unused_ void **state)
{
	_cleanup_(top_table_fini) struct top_table table = {0};
	const struct top_client first[] = {client(1, 10), client(2, 1000)};
	/* 2 has ended, 3 has come. */
	const struct top_client second[] = {client(3, 50), client(1, 40)};

	update(&table, 100 * S, first, 2);
	assert_false(row_of(&table, 1)->has_rates);
	assert_int_equal(table.interval_ns, 0);
	update(&table, 102 * S, second, 2);
	assert_int_equal(table.interval_ns, 2 * S);
	assert_true(row_of(&table, 1)->has_rates);
	check_number(row_of(&table, 1)->launches, 15);
	check_number(row_of(&table, 1)->copies, 45);
	check_number(row_of(&table, 1)->bytes_in, 75);
	check_number(row_of(&table, 1)->bytes_out, 105);
	check_number(row_of(&table, 1)->busy, 0.15);
	check_number(row_of(&table, 3)->launches, 25);
	assert_string_equal(row_of(&table, 3)->user, "4294967294");
	assert_int_equal(top_history_level(&row_of(&table, 1)->history, 101 * S, 59, 60), 1);
}

/* Counters that fall, a share above 1, and times that do not rise. */
static void test_odd(_unused_ void **state)
{
	_cleanup_(top_table_fini) struct top_table table = {0};
	const struct top_client high[] = {client(1, 1000)}, low[] = {client(1, 10)};

	update(&table, 100 * S, low, 1);
	update(&table, 101 * S, high, 1);
	check_number(row_of(&table, 1)->busy, 1);
	update(&table, 102 * S, low, 1);
	check_number(row_of(&table, 1)->launches, 0);
	update(&table, 102 * S, high, 1);
	assert_false(row_of(&table, 1)->has_rates);
	update(&table, 50 * S, high, 1);
	assert_false(row_of(&table, 1)->has_rates);
	update(&table, 51 * S, high, 0);
}

/* The same PID as a client of another server, or as another client, is another client. */
static void test_names(_unused_ void **state)
{
	_cleanup_(top_table_fini) struct top_table table = {0};
	struct top_client one = client(1, 1000), other = client(1, 1000), third = client(1, 1000);

	update(&table, 100 * S, &one, 1);
	one.launches += 10;
	other.server = 6;
	other.launches = 20;
	third.id = 7;
	third.launches = 30;
	update(&table, 101 * S, (struct top_client[]){other, one, third}, 3);
	check_number(table.rows[0].launches, 30);
	check_number(table.rows[1].launches, 10);
	check_number(table.rows[2].launches, 20);
}

static void test_many(_unused_ void **state)
{
	_cleanup_(top_table_fini) struct top_table table = {0};
	struct top_client clients[300];

	for (unsigned turn = 0; turn < 3; turn++) {
		for (unsigned i = 0; i < ARRAY_SIZE(clients); i++)
			clients[i] = client((i * 7 + turn) % 300 + 1, turn * (i * 7 + turn) % 300);
		update(&table, (100 + turn) * S, clients, ARRAY_SIZE(clients));
	}
	for (size_t i = 1; i < table.n_rows; i++)
		assert_true(table.rows[i - 1].client.id < table.rows[i].client.id);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rates),
		cmocka_unit_test(test_odd),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
