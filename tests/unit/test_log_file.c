/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The shapes of log lines, and what happens to lines that cannot be written.
 */

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "log_file.h"

#include <cmocka.h>

static char directory[64];

static void path_of(char *path, size_t size, const char *name)
{
	snprintf(path, size, "%s/%s", directory, name);
}

static void remove_files(void)
{
	static const char *const names[] = {"control.log", "control.log.1", "server.log"};
	char path[128];

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		path_of(path, sizeof(path), names[i]);
		unlink(path);
	}
}

static int set_up(_unused_ void **state)
{
	snprintf(directory, sizeof(directory), "/tmp/test_journal.XXXXXX");
	return mkdtemp(directory) ? 0 : -1;
}

static int tear_down(_unused_ void **state)
{
	remove_files();
	return rmdir(directory);
}

/* The text of a log; the caller frees it. */
static char *read_log(const char *name)
{
	char path[128];
	char *text = calloc(1, 65536);
	size_t n;
	FILE *file;

	path_of(path, sizeof(path), name);
	file = fopen(path, "r");
	assert_non_null(text);
	assert_non_null(file);
	n = fread(text, 1, 65535, file);
	assert_true(n < 65535);
	fclose(file);
	return text;
}

static void test_format(_unused_ void **state)
{
	const struct timespec when = {.tv_sec = 1795219002, .tv_nsec = 7999999};
	char line[JOURNAL_LINE_MAX], wanted[128];
	struct tm tm;
	size_t n = journal_format(line, sizeof(line), &when, "Control", 679, "Cmd:\x1bhelp");

	localtime_r(&when.tv_sec, &tm);
	strftime(wanted, sizeof(wanted), "[%Y-%m-%d %H:%M:%S.007 Control   679] Cmd:?help\n", &tm);
	assert_string_equal(line, wanted);
	assert_int_equal(n, strlen(line));
	journal_format(line, sizeof(line), &when, "Other", 1234567, "x");
	assert_non_null(strstr(line, " Other 1234567] x\n"));
}

static void test_format_long(_unused_ void **state)
{
	const struct timespec when = {0};
	char line[JOURNAL_LINE_MAX], text[5000];
	size_t n;

	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	n = journal_format(line, sizeof(line), &when, "Control", 1, text);
	assert_int_equal(n, strlen(line));
	assert_int_equal(n, JOURNAL_LINE_MAX - 1);
	assert_int_equal(line[n - 1], '\n');
}

static void open_it(struct journal *journal, const struct journal_options *options)
{
	struct reason reason;

	assert_int_equal(journal_open(journal, options, &reason), 0);
}

static void test_files(_unused_ void **state)
{
	const struct journal_about about = {.server = 77};
	_cleanup_free_ char *control = NULL, *server = NULL;
	struct journal journal;
	char who[32];

	open_it(&journal, &(struct journal_options){.directory = directory});
	journal_control(&journal, "%s %d", "text", 5);
	journal_control_as(&journal, 4242, "Starting");
	journal_server(&journal, false, &about, "Startup");
	journal_server(&journal, true, &about, "Server has started");
	journal_close(&journal);
	control = read_log("control.log");
	server = read_log("server.log");
	snprintf(who, sizeof(who), " Control %5d] text 5\n", getpid());
	assert_non_null(strstr(control, who));
	assert_non_null(strstr(control, " Control  4242] Starting\n"));
	assert_non_null(strstr(server, " Other    77] Startup\n"));
	assert_non_null(strstr(server, " Server    77] Server has started\n"));
}

static void test_reopen(_unused_ void **state)
{
	_cleanup_free_ char *before = NULL;
	char from[128], to[128];
	struct journal journal;
	struct reason reason;

	open_it(&journal, &(struct journal_options){.directory = directory});
	journal_control(&journal, "before");
	path_of(from, sizeof(from), "control.log");
	path_of(to, sizeof(to), "control.log.1");
	assert_int_equal(rename(from, to), 0);
	assert_int_equal(journal_reopen(&journal, &reason), 0);
	journal_control(&journal, "after");
	/* What can't be opened any more is still written where it was. */
	assert_int_equal(unlink(from), 0);
	assert_int_equal(mkdir(from, 0700), 0);
	assert_true(journal_reopen(&journal, &reason) < 0);
	assert_non_null(strstr(reason.text, from));
	assert_non_null(strstr(reason.text, "CUDA_MPS_LOG_DIRECTORY"));
	journal_control(&journal, "still");
	journal_close(&journal);
	assert_int_equal(rmdir(from), 0);
	before = read_log("control.log.1");
	assert_non_null(strstr(before, "before"));
	assert_null(strstr(before, "after"));
}

static void test_lost_lines(_unused_ void **state)
{
	_cleanup_free_ char *control = NULL;
	struct journal journal;
	int good;

	if (access("/dev/full", W_OK) < 0)
		skip();
	open_it(&journal, &(struct journal_options){.directory = directory});
	good = journal.control.fd;
	journal.control.fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
	assert_true(journal.control.fd >= 0);
	journal_control(&journal, "lost 1");
	journal_control(&journal, "lost 2");
	close(journal.control.fd);
	journal.control.fd = good;
	journal_control(&journal, "kept 1");
	journal_control(&journal, "kept 2");
	journal_close(&journal);
	control = read_log("control.log");
	assert_null(strstr(control, "lost 1"));
	assert_non_null(
		strstr(control, "2 lines could not be written here: No space left on device\n"));
	assert_non_null(strstr(control, "kept 1\n"));
	assert_non_null(strstr(control, "kept 2\n"));
}

static off_t size_of(const char *name)
{
	struct stat st;
	char path[128];

	path_of(path, sizeof(path), name);
	return stat(path, &st) == 0 ? st.st_size : -1;
}

static void test_size(_unused_ void **state)
{
	const struct journal_options options = {.directory = directory, .size_max = 4000};
	_cleanup_free_ char *control = NULL, *before = NULL;
	struct journal journal;
	char last[32];

	open_it(&journal, &options);
	for (unsigned i = 0; i < 50; i++)
		journal_control(&journal, "line %03u", i);
	assert_int_equal(size_of("control.log.1"), -1);
	for (unsigned i = 50; i < 300; i++) {
		journal_control(&journal, "line %03u", i);
		assert_in_range(size_of("control.log"), 1, options.size_max);
		assert_true(size_of("control.log.1") <= (off_t)options.size_max);
	}
	journal_close(&journal);
	/* What the files hold is the end of all, without a gap. */
	control = read_log("control.log");
	before = read_log("control.log.1");
	for (unsigned i = 299; i > 230; i--) {
		snprintf(last, sizeof(last), "line %03u\n", i);
		assert_true(strstr(control, last) || strstr(before, last));
	}
	assert_null(strstr(control, "could not be written"));
	/* A file that is there already counts. */
	open_it(&journal, &options);
	for (unsigned i = 0; i < 100; i++)
		journal_control(&journal, "line %03u", i);
	journal_close(&journal);
	assert_in_range(size_of("control.log"), 1, options.size_max);
}

static mode_t mode_of(const char *name)
{
	struct stat st;
	char path[128];

	path_of(path, sizeof(path), name);
	assert_int_equal(stat(path, &st), 0);
	return st.st_mode & 07777;
}

static void test_modes(_unused_ void **state)
{
	struct journal_options options = {.directory = directory};
	struct journal journal;
	mode_t mask = umask(0);

	open_it(&journal, &options);
	journal_close(&journal);
	assert_int_equal(mode_of("control.log"), 0644);
	assert_int_equal(mode_of("server.log"), 0644);
	options.is_private = true;
	open_it(&journal, &options);
	journal_close(&journal);
	assert_int_equal(mode_of("control.log"), 0640);
	assert_int_equal(mode_of("server.log"), 0640);
	remove_files();
	open_it(&journal, &options);
	journal_close(&journal);
	assert_int_equal(mode_of("control.log"), 0640);
	umask(mask);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_format),
		cmocka_unit_test(test_format_long),
		cmocka_unit_test_setup_teardown(test_files, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_reopen, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_lost_lines, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_size, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_modes, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
