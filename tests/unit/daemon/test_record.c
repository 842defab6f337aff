/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The daemon's record of servers: it loads what it stored, and nothing that another
 * process could have put there.
 */

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "daemon/state/record.h"

static char folder[] = "/tmp/mps-record-XXXXXX";
static int directory;

static int make_folder(_unused_ void **state)
{
	if (!mkdtemp(folder))
		return -1;
	directory = open(folder, O_RDONLY | O_DIRECTORY);
	return directory < 0 ? -1 : 0;
}

static int remove_folder(_unused_ void **state)
{
	record_store(directory, NULL, 0, "");
	record_release(directory);
	close(directory);
	return rmdir(folder);
}

static const struct record some[] = {
	{.pid = 1, .start_time = 77},
	{4194304, 4294967294u, UINT64_MAX, true, UINT32_MAX, 4294967293u, ""},
	{.pid = 5, .uid = 1000, .name = "training"},
};

/* What record_load() returns, without the state. */
static int load(struct record *records, size_t n_max)
{
	_cleanup_free_ char *state = NULL;

	return record_load(directory, records, n_max, &state);
}

static void test_round_trip(_unused_ void **state)
{
	struct record got[4] = {0};
	struct stat st;

	assert_int_equal(load(got, 4), 0);
	for (size_t n = ARRAY_SIZE(some); n > 0; n--) {
		assert_int_equal(record_store(directory, some, n, ""), 0);
		assert_int_equal(load(got, 4), n);
		for (size_t i = 0; i < n; i++) {
			assert_int_equal(got[i].pid, some[i].pid);
			assert_int_equal(got[i].uid, some[i].uid);
			assert_int_equal(got[i].start_time, some[i].start_time);
			assert_int_equal(got[i].is_isolated, some[i].is_isolated);
			assert_int_equal(got[i].program, some[i].program);
			assert_int_equal(got[i].client_uid, some[i].client_uid);
			assert_string_equal(got[i].name, some[i].name);
		}
	}
	assert_int_equal(fstatat(directory, "control_servers", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(record_store(directory, NULL, 0, ""), 0);
	assert_int_equal(record_store(directory, NULL, 0, ""), 0);
	assert_int_equal(load(got, 4), 0);
}

static void test_no_more_than_fit(_unused_ void **state)
{
	struct record got[2];

	assert_int_equal(record_store(directory, some, 3, ""), 0);
	assert_int_equal(load(got, 2), 2);
}

/* Replaces the file by one with this text and mode. */
static void put(const char *text, mode_t mode)
{
	int fd;

	unlinkat(directory, "control_servers", 0);
	fd = openat(directory, "control_servers", O_WRONLY | O_CREAT | O_EXCL, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static void test_other_files(_unused_ void **state)
{
	struct record got[4];
	char text[256];
	FILE *boot = fopen("/proc/sys/kernel/random/boot_id", "r");
	char id[64] = "";

	assert_non_null(boot);
	assert_non_null(fgets(id, sizeof(id), boot));
	fclose(boot);
	snprintf(text, sizeof(text), "mps-control 1 %s12 1000 5\n-3 1000 5\n13 1000 5\n", id);
	put(text, 0600);
	assert_int_equal(load(got, 4), 1);
	put(text, 0620);
	assert_int_equal(load(got, 4), -EPERM);
	put("mps-control 1 of-another-start-of-the-system\n12 1000 5\n", 0600);
	assert_int_equal(load(got, 4), 0);
	put("", 0600);
	assert_int_equal(load(got, 4), 0);
	unlinkat(directory, "control_servers", 0);
	assert_int_equal(symlinkat("/etc/passwd", directory, "control_servers"), 0);
	assert_int_equal(load(got, 4), -ELOOP);
	unlinkat(directory, "control_servers", 0);
	assert_int_equal(mkfifoat(directory, "control_servers", 0600), 0);
	assert_int_equal(load(got, 4), -EPERM);
}

static void check_state(const char *wanted, int n_wanted)
{
	_cleanup_free_ char *state = NULL;
	struct record got[4];

	assert_int_equal(record_load(directory, got, 4, &state), n_wanted);
	if (wanted)
		assert_string_equal(state, wanted);
	else
		assert_null(state);
}

static void test_state(_unused_ void **state)
{
	static const char lines[] = "default 25000 -1\npartition 00 3\n";

	unlinkat(directory, "control_servers", 0);
	check_state(NULL, 0);
	assert_int_equal(record_store(directory, NULL, 0, lines), 0);
	check_state(lines, 0);
	assert_int_equal(record_store(directory, some, 3, lines), 0);
	check_state(lines, 3);
	assert_int_equal(record_store(directory, some, 1, ""), 0);
	check_state("", 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_no_more_than_fit),
		cmocka_unit_test(test_other_files),
		cmocka_unit_test(test_state),
	};

	return cmocka_run_group_tests_name("record", tests, make_folder, remove_folder);
}
