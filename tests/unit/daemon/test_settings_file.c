/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Limits of the configuration file among limits of commands: which one counts
 * after a reload, for the defaults, for a user, and in a running server.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include "settings.h"

#include <cmocka.h>

#define GIB ((uint64_t)1 << 30)

static const struct devices none;
static struct settings settings, file, base;

static int set_up(_unused_ void **state)
{
	settings = base = (struct settings){.active_threads = 100000};
	settings_init(&file);
	return 0;
}

static void set_file(uint32_t active_threads, int32_t priority, uint64_t bytes)
{
	settings_init(&file);
	file.active_threads = active_threads;
	file.priority = priority;
	if (bytes > 0)
		settings_set_memory(&file, &none, "0", bytes, ORIGIN_DEFAULT);
}

static void set_by_command(
	struct settings *to, uint32_t active_threads, int32_t priority, uint64_t bytes)
{
	to->active_threads = active_threads;
	to->priority = priority;
	to->active_threads_origin = to->priority_origin = ORIGIN_COMMAND;
	settings_set_memory(to, &none, "0", bytes, ORIGIN_COMMAND);
}

static void check(
	const struct settings *is, uint32_t active_threads, int32_t priority, uint64_t bytes)
{
	assert_int_equal(is->active_threads, active_threads);
	assert_int_equal(is->priority, priority);
	assert_true(settings_get_memory(is, &none, "0") == bytes);
}

static void apply(void)
{
	settings_apply_file(&settings, &file, &base, &none);
}

static void test_file(_unused_ void **state)
{
	apply();
	check(&settings, 100000, 0, MEMORY_ALL);
	set_file(50000, 1, GIB);
	apply();
	check(&settings, 50000, 1, GIB);
	set_file(25000, -1, 2 * GIB);
	apply();
	check(&settings, 25000, 0, 2 * GIB);
	set_file(0, -1, 0);
	apply();
	check(&settings, 100000, 0, MEMORY_ALL);
}

static void test_commands(_unused_ void **state)
{
	set_by_command(&settings, 30000, 2, 3 * GIB);
	settings_set_memory(&settings, &none, "1", GIB, ORIGIN_COMMAND);
	/* The file does not mention these limits, so they stay. */
	apply();
	check(&settings, 30000, 2, 3 * GIB);
	set_file(0, 1, 0);
	apply();
	check(&settings, 30000, 1, 3 * GIB);
	/* The file mentions them. */
	set_file(50000, 1, GIB);
	apply();
	check(&settings, 50000, 1, GIB);
	assert_true(settings_get_memory(&settings, &none, "1") == GIB);
	/* A command after that counts, and the file then no longer mentions the limit. */
	set_by_command(&settings, 30000, 2, 3 * GIB);
	set_file(0, -1, 0);
	apply();
	check(&settings, 30000, 2, 3 * GIB);
}

static void test_user(_unused_ void **state)
{
	struct settings server;

	set_file(50000, 1, GIB);
	server = settings_of_server(&settings);
	settings_apply_user(&server, &file, &none);
	check(&server, 50000, 1, GIB);
	/* A command about the default does not count for a user with a section. */
	set_by_command(&settings, 30000, 2, 3 * GIB);
	server = settings_of_server(&settings);
	settings_apply_user(&server, &file, &none);
	check(&server, 50000, 1, GIB);
	/* A command about the server does. */
	set_by_command(&server, 20000, 0, 4 * GIB);
	settings_apply_user(&server, &file, &none);
	check(&server, 20000, 0, 4 * GIB);
}

static void test_running_server(_unused_ void **state)
{
	struct settings server, initial;

	/* A command about the defaults changes no running server, nor does a reload then. */
	server = settings_of_server(&settings);
	set_by_command(&settings, 30000, 2, 3 * GIB);
	initial = settings_of_server(&settings);
	settings_renew(&server, &initial, &none);
	check(&server, 100000, -1, MEMORY_ALL);
	/* The file does. */
	set_file(50000, 1, GIB);
	apply();
	initial = settings_of_server(&settings);
	settings_renew(&server, &initial, &none);
	check(&server, 50000, -1, GIB);
	/* What the file no longer says ends. */
	set_file(0, -1, 0);
	apply();
	initial = settings_of_server(&settings);
	settings_renew(&server, &initial, &none);
	check(&server, 100000, -1, MEMORY_ALL);
	/* A command about the server counts until the server ends. */
	set_by_command(&server, 20000, 0, 4 * GIB);
	set_file(50000, 1, GIB);
	apply();
	initial = settings_of_server(&settings);
	settings_renew(&server, &initial, &none);
	check(&server, 20000, 0, 4 * GIB);
}

/* When a user's limit ends, the default is in force again, whatever set that. */
static void test_end_of_user(_unused_ void **state)
{
	struct settings server, initial;

	set_by_command(&settings, 30000, 0, 3 * GIB);
	set_file(50000, 1, GIB);
	server = settings_of_server(&settings);
	settings_apply_user(&server, &file, &none);
	initial = settings_of_server(&settings);
	settings_renew(&server, &initial, &none);
	check(&server, 30000, -1, 3 * GIB);
}

static void check_text(enum setting setting, const char *want)
{
	char text[SETTING_TEXT_MAX];

	setting_format(&settings, setting, text);
	assert_string_equal(text, want);
}

static void test_texts(_unused_ void **state)
{
	struct settings other;

	settings_init(&settings);
	for (enum setting setting = 0; setting < SETTINGS; setting++) {
		check_text(setting, "none");
		assert_false(setting_is_by_command(&settings, setting));
	}
	other = settings;
	set_by_command(&settings, 12500, 2, GIB);
	settings_set_memory(&settings, &none, "1", 3 * GIB / 2, ORIGIN_FILE);
	check_text(SETTING_ACTIVE_THREADS, "12.5");
	check_text(SETTING_PRIORITY, "2");
	check_text(SETTING_MEMORY, "0=1G,1=1536M");
	for (enum setting setting = 0; setting < SETTINGS; setting++) {
		assert_true(setting_is_by_command(&settings, setting));
		assert_false(setting_is_equal(&settings, &other, setting, &none));
		assert_true(setting_is_equal(&settings, &settings, setting, &none));
		settings_unset(&settings, setting);
		check_text(setting, "none");
	}
	/* The order of the limits is of no importance. */
	settings_init(&settings);
	settings_set_memory(&settings, &none, "1", GIB, ORIGIN_FILE);
	settings_set_memory(&settings, &none, "0", 2 * GIB, ORIGIN_FILE);
	settings_set_memory(&other, &none, "0", 2 * GIB, ORIGIN_FILE);
	assert_false(setting_is_equal(&settings, &other, SETTING_MEMORY, &none));
	settings_set_memory(&other, &none, "1", GIB, ORIGIN_FILE);
	assert_true(setting_is_equal(&settings, &other, SETTING_MEMORY, &none));
	settings_set_memory(&other, &none, "1", 2 * GIB, ORIGIN_FILE);
	assert_false(setting_is_equal(&settings, &other, SETTING_MEMORY, &none));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_file, set_up),
		cmocka_unit_test_setup(test_commands, set_up),
		cmocka_unit_test_setup(test_user, set_up),
		cmocka_unit_test_setup(test_running_server, set_up),
		cmocka_unit_test_setup(test_end_of_user, set_up),
		cmocka_unit_test_setup(test_texts, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
