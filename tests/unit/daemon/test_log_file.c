/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The format of log lines, and the handling of lines that cannot be written.
 */

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "daemon/log/log_file.h"

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
	char line[LOG_LINE_MAX], wanted[128];
	struct tm tm;
	size_t n = log_format_line(line, sizeof(line), &when, "Control", 679, "Cmd:\x1bhelp");

	localtime_r(&when.tv_sec, &tm);
	strftime(wanted, sizeof(wanted), "[%Y-%m-%d %H:%M:%S.007 Control   679] Cmd:?help\n", &tm);
	assert_string_equal(line, wanted);
	assert_int_equal(n, strlen(line));
	log_format_line(line, sizeof(line), &when, "Other", 1234567, "x");
	assert_non_null(strstr(line, " Other 1234567] x\n"));
}

static void test_format_long(_unused_ void **state)
{
	const struct timespec when = {0};
	char line[LOG_LINE_MAX], text[5000];
	size_t n;

	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	n = log_format_line(line, sizeof(line), &when, "Control", 1, text);
	assert_int_equal(n, strlen(line));
	assert_int_equal(n, LOG_LINE_MAX - 1);
	assert_int_equal(line[n - 1], '\n');
}

static void open_logs(struct log_files *logs, const struct log_options *options)
{
	struct error_message error;

	assert_int_equal(log_files_open(logs, options, &error), 0);
}

static void test_files(_unused_ void **state)
{
	const struct log_subject about = {.server = 77};
	_cleanup_free_ char *control = NULL, *server = NULL;
	struct log_files logs;
	char who[32];

	open_logs(&logs, &(struct log_options){.directory = directory});
	log_control(&logs, "%s %d", "text", 5);
	log_control_about(
		&logs, &(struct log_subject){.server = 4242, .is_new_server = true}, "Starting");
	log_server(&logs, false, &about, "Startup");
	log_server(&logs, true, &about, "Server has started");
	log_files_close(&logs);
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
	struct log_files logs;
	struct error_message error;

	open_logs(&logs, &(struct log_options){.directory = directory});
	log_control(&logs, "before");
	path_of(from, sizeof(from), "control.log");
	path_of(to, sizeof(to), "control.log.1");
	assert_int_equal(rename(from, to), 0);
	assert_int_equal(log_files_reopen(&logs, &error), 0);
	log_control(&logs, "after");
	/* A log that cannot be reopened is still written to its old file. */
	assert_int_equal(unlink(from), 0);
	assert_int_equal(mkdir(from, 0700), 0);
	assert_true(log_files_reopen(&logs, &error) < 0);
	assert_non_null(strstr(error.text, from));
	assert_non_null(strstr(error.text, "CUDA_MPS_LOG_DIRECTORY"));
	log_control(&logs, "still");
	log_files_close(&logs);
	assert_int_equal(rmdir(from), 0);
	before = read_log("control.log.1");
	assert_non_null(strstr(before, "before"));
	assert_null(strstr(before, "after"));
}

static void test_lost_lines(_unused_ void **state)
{
	_cleanup_free_ char *control = NULL;
	struct log_files logs;
	int good;

	if (access("/dev/full", W_OK) < 0)
		skip();
	open_logs(&logs, &(struct log_options){.directory = directory});
	good = logs.control.fd;
	logs.control.fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
	assert_true(logs.control.fd >= 0);
	log_control(&logs, "lost 1");
	log_control(&logs, "lost 2");
	close(logs.control.fd);
	logs.control.fd = good;
	log_control(&logs, "kept 1");
	log_control(&logs, "kept 2");
	log_files_close(&logs);
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
	const struct log_options options = {.directory = directory, .size_max = 4000};
	_cleanup_free_ char *control = NULL, *before = NULL;
	struct log_files logs;
	char last[32];

	open_logs(&logs, &options);
	for (unsigned i = 0; i < 50; i++)
		log_control(&logs, "line %03u", i);
	assert_int_equal(size_of("control.log.1"), -1);
	for (unsigned i = 50; i < 300; i++) {
		log_control(&logs, "line %03u", i);
		assert_in_range(size_of("control.log"), 1, options.size_max);
		assert_true(size_of("control.log.1") <= (off_t)options.size_max);
	}
	log_files_close(&logs);
	/* The files hold the last lines, without a gap. */
	control = read_log("control.log");
	before = read_log("control.log.1");
	for (unsigned i = 299; i > 230; i--) {
		snprintf(last, sizeof(last), "line %03u\n", i);
		assert_true(strstr(control, last) || strstr(before, last));
	}
	assert_null(strstr(control, "could not be written"));
	/* The size of an existing file counts. */
	open_logs(&logs, &options);
	for (unsigned i = 0; i < 100; i++)
		log_control(&logs, "line %03u", i);
	log_files_close(&logs);
	assert_in_range(size_of("control.log"), 1, options.size_max);
}

/* A program that follows the log has it open: it stays the same file, and gets shorter. */
static void test_followed(_unused_ void **state)
{
	const struct log_options options = {.directory = directory, .size_max = 400000};
	struct stat before, after;
	struct log_files logs;
	char text[201], path[128];
	unsigned n_shorter = 0;

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	open_logs(&logs, &options);
	path_of(path, sizeof(path), "control.log");
	assert_int_equal(stat(path, &before), 0);
	for (unsigned i = 0; i < 4000; i++) {
		off_t size = size_of("control.log");

		log_control(&logs, "%s", text);
		n_shorter += size_of("control.log") < size;
		assert_true(size_of("control.log") <= (off_t)options.size_max);
		assert_true(size_of("control.log.1") <= (off_t)options.size_max);
	}
	log_files_close(&logs);
	assert_int_equal(stat(path, &after), 0);
	assert_int_equal(after.st_ino, before.st_ino);
	assert_in_range(n_shorter, 2, 3);
}

/* A log that was renamed is not emptied: a new one begins. */
static void test_renamed_by_others(_unused_ void **state)
{
	const struct log_options options = {.directory = directory, .size_max = 4000};
	_cleanup_free_ char *control = NULL;
	char from[128], to[128];
	struct log_files logs;

	open_logs(&logs, &options);
	path_of(from, sizeof(from), "control.log");
	path_of(to, sizeof(to), "control.log.1");
	log_control(&logs, "first");
	assert_int_equal(rename(from, to), 0);
	for (unsigned i = 0; i < 100; i++)
		log_control(&logs, "line %03u", i);
	log_files_close(&logs);
	control = read_log("control.log");
	assert_non_null(strstr(control, "line 099"));
	free(control);
	control = read_log("control.log.1");
	assert_non_null(strstr(control, "first"));
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
	struct log_options options = {.directory = directory};
	struct log_files logs;
	mode_t mask = umask(0);

	open_logs(&logs, &options);
	log_files_close(&logs);
	assert_int_equal(mode_of("control.log"), 0644);
	assert_int_equal(mode_of("server.log"), 0644);
	options.is_private = true;
	open_logs(&logs, &options);
	log_files_close(&logs);
	assert_int_equal(mode_of("control.log"), 0640);
	assert_int_equal(mode_of("server.log"), 0640);
	remove_files();
	open_logs(&logs, &options);
	log_files_close(&logs);
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
		cmocka_unit_test_setup_teardown(test_followed, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_renamed_by_others, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_modes, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
