/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The daemon's state as text: it reads what it wrote, and of hostile lines nothing.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "daemon/state/daemon.h"
#include "daemon/state/partitions.h"
#include "daemon/server/state_text.h"

static struct daemon daemon_of_test;

static void begin(void)
{
	daemon_of_test = (struct daemon){0};
	list_init(&daemon_of_test.servers);
	list_init(&daemon_of_test.spares);
	list_init(&daemon_of_test.tenants);
	list_init(&daemon_of_test.partitions);
	groups_init(&daemon_of_test.groups);
	settings_init(&daemon_of_test.default_commands);
}

static void end(void)
{
	groups_fini(&daemon_of_test.groups);
	partitions_free(&daemon_of_test.partitions);
}

/* Reads the text into a new daemon, whose own text has to be `wanted'. */
static void check(const char *text, const char *wanted)
{
	_cleanup_free_ char *copy = strdup(text), *written = NULL;

	begin();
	state_text_parse(&daemon_of_test, copy);
	written = state_text_format(&daemon_of_test);
	assert_string_equal(written, wanted);
	end();
}

#define UUID "00112233445566778899aabbccddeeff"

static const char everything[] = "default 25000 1 0 1073741824 GPU-0123 18446744073709551615\n"
				 "feature memacct\nfeature default_socket\n"
				 "group g - 0 -1\n"
				 "group /a/b 4294967294 50000 2 0 64\n"
				 "partition " UUID " 3\n"
				 "partition " UUID " 8000000000000000\n"
				 "partition ffffffffffffffffffffffffffffffff 3\n";

static void test_round_trip(_unused_ void **state)
{
	check("", "");
	check(everything, everything);
}

static void test_partitions_are_disjoint(_unused_ void **state)
{
	check("partition " UUID " 3\npartition " UUID " 2\n", "partition " UUID " 3\n");
}

static void test_groups_have_one_name(_unused_ void **state)
{
	check("group g - 0 -1\ngroup g 5 0 1\n", "group g - 0 -1\n");
}

static void test_hostile_lines(_unused_ void **state)
{
	static const char *const lines[] = {
		"\n\n \n",
		"default",
		"default 1",
		"default 100001 0",
		"default 1 3",
		"default 1 -2",
		"default 1 0 0",
		"default 1 0 no/device 5",
		"default 1 0 0 18446744073709551616",
		"server 1 1 0",
		"server -1 1 0",
		"server 99999999999 1 0",
		"group",
		"group g",
		"group a!b - 0 -1",
		"group  - 0 -1",
		"group g 4294967295 0 -1",
		"group g x 0 -1",
		("partition " UUID),
		("partition " UUID " 0"),
		("partition " UUID " 10000000000000000"),
		("partition " UUID " -1"),
		("partition 0" UUID " 1"),
		"partition gg112233445566778899aabbccddeeff 1",
		"sm-partition pool",
		("sm-partition pool x " UUID " 3 large 0 0"),
		("sm-partition pool 4294967295 " UUID " 3 large 0 0"),
		"named training",
		"named training x -",
		"named training 4294967295 -",
		"namespace training",
		"namespace training x small 0 -1",
		"unknown 1 2 3",
	};

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		check(lines[i], "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_partitions_are_disjoint),
		cmocka_unit_test(test_groups_have_one_name),
		cmocka_unit_test(test_hostile_lines),
	};

	return cmocka_run_group_tests_name("state_text", tests, NULL, NULL);
}
