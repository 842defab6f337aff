/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The configuration file: what its sections set, each error with its line, and
 * who may write it.
 */

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "daemon/config/config_file.h"
#include "daemon/config/config_text.h"

static struct config_file file;
static char said[65536];

static void on_line(_unused_ void *arg, const char *line)
{
	size_t used = strlen(said);

	snprintf(said + used, sizeof(said) - used, "%s\n", line);
}

static const struct config_report report = {on_line, NULL};

static int set_up(_unused_ void **state)
{
	clearenv();
	said[0] = '\0';
	file = (struct config_file){.path = "/c"};
	return 0;
}

static int tear_down(_unused_ void **state)
{
	config_file_fini(&file);
	return 0;
}

static int parse(const char *text)
{
	_cleanup_free_ char *copy = strdup(text);

	config_file_fini(&file);
	said[0] = '\0';
	return config_file_parse(&file, copy, strlen(copy), &report);
}

/* The text has one error, and this is what is said about it. */
static void check_error(const char *text, const char *want)
{
	assert_int_equal(parse(text), 1);
	assert_string_equal(said, want);
}

static void test_sections(_unused_ void **state)
{
	const struct config_section *section;

	assert_int_equal(parse("[daemon]\n"
			       "grace_ms = 500\n"
			       "pipe_directory = /run/mps\n"
			       "[default]\n"
			       "active_thread_percentage = 12.5\n"
			       "device_pinned_mem_limit = 0=1G, 1=512M\n"
			       "[user root]\n"
			       "client_priority = 2\n"
			       "[user 1234]\n"
			       "[group team/a]\n"
			       "uid = 77\n"
			       "active_thread_percentage = 50\n"),
		0);
	assert_string_equal(said, "");
	assert_string_equal(file.values.of[CONFIG_GRACE_MS].text, "500");
	assert_int_equal(file.values.of[CONFIG_GRACE_MS].line, 2);
	assert_string_equal(file.values.of[CONFIG_PIPE_DIRECTORY].text, "/run/mps");
	assert_int_equal(file.values.of[CONFIG_IDLE_S].line, 0);

	section = config_file_find(&file, SECTION_DEFAULT, "");
	assert_non_null(section);
	assert_int_equal(section->settings.active_threads, 12500);
	assert_int_equal(section->settings.n_memory, 2);
	assert_int_equal(section->settings.priority, -1);
	assert_int_equal(section->lines[SETTING_MEMORY], 6);
	assert_int_equal(section->lines[SETTING_PRIORITY], 0);

	section = config_file_find_user(&file, 0);
	assert_non_null(section);
	assert_int_equal(section->settings.priority, 2);
	assert_int_equal(section->settings.active_threads, 0);
	assert_non_null(config_file_find_user(&file, 1234));
	/* The UID of a group is not a section of that user. */
	assert_null(config_file_find_user(&file, 77));

	section = config_file_find(&file, SECTION_GROUP, "team/a");
	assert_non_null(section);
	assert_true(section->has_uid);
	assert_int_equal(section->uid, 77);
	assert_null(config_file_find(&file, SECTION_GROUP, "team"));
}

static void test_section_errors(_unused_ void **state)
{
	check_error("\n[gpu 0]\nx = y\n",
		"/c:2: there is no section [gpu]: the sections are [daemon], [default], [user "
		"NAME] and [group NAME]\n");
	check_error("[users bob]\n", "/c:1: there is no section [users]: did you mean [user]?\n");
	check_error("[daemon x]\ngrace_ms = x\n",
		"/c:1: [daemon] takes no name, but is followed by \"x\"\n");
	check_error("[user]\n", "/c:1: [user] needs a name: write [user NAME]\n");
	check_error("[group a b]\n",
		"/c:1: \"a b\" is not a valid group name: it must have 1 to 255 letters, digits "
		"and . _ / -\n");
	check_error("[user no such user]\n",
		"/c:1: the system has no user \"no such user\": [user NAME] takes the name of a "
		"user or a UID\n");
	check_error("[daemon]\n[group a]\n[daemon]\n",
		"/c:3: the section has begun in line 1 already: write all its keys there\n");
	check_error("[default]\n[default]\n",
		"/c:2: the section has begun in line 1 already: write all its keys there\n");
	check_error("[user 0]\n[user root]\n",
		"/c:2: the section has begun in line 1 already: write all its keys there\n");
	check_error("[group a]\n\n[group a]\nrubbish\n",
		"/c:3: the section has begun in line 1 already: write all its keys there\n");
	check_error("grace_ms = 5\n",
		"/c:1: the line belongs to no section: write [daemon], or another section, before "
		"it\n");
}

static void test_key_errors(_unused_ void **state)
{
	check_error("[daemon]\ngrace = 5\n",
		"/c:2: [daemon] has no key \"grace\": did you mean grace_ms?\n");
	check_error("[daemon]\nMPS_IDLE_S = 5\n",
		"/c:2: [daemon] has no key \"MPS_IDLE_S\": did you mean idle_s?\n");
	check_error("[group a]\npriority = 1\n",
		"/c:2: [group a] has no key \"priority\": did you mean client_priority?\n");
	check_error("[default]\nCUDA_MPS_PINNED_DEVICE_MEM_LIMIT = 0=1G\n",
		"/c:2: [default] has no key \"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT\": did you mean "
		"device_pinned_mem_limit?\n");
	check_error("[user 5]\nuid = 5\n",
		"/c:2: [user 5] has no key \"uid\": its keys are active_thread_percentage, "
		"device_pinned_mem_limit, client_priority, oversubscribe, soft_limit\n");
	check_error("[daemon]\nidle_s = 1\n\nidle_s = 1\n",
		"/c:4: idle_s is set in line 2 already: remove one of the two lines\n");
	check_error("[group a]\nuid = 5\nuid = 6\n",
		"/c:3: uid is set in line 2 already: remove one of the two lines\n");
	check_error("[default]\nclient_priority = 1\nclient_priority = 1\n",
		"/c:3: client_priority is set in line 2 already: remove one of the two lines\n");
}

static void test_value_errors(_unused_ void **state)
{
	check_error("[daemon]\ngrace_ms = soon\n",
		"/c:2: grace_ms is \"soon\": it takes milliseconds, a number from 0 to 3600000\n");
	check_error("[default]\nactive_thread_percentage = 101\n",
		"/c:2: active_thread_percentage is \"101\": it takes a number of percent above 0, "
		"at most 100, such as 25 or 12.5\n");
	check_error("[user 5]\nclient_priority = 3\n",
		"/c:2: client_priority is \"3\": it must be 0 (normal), 1 (below normal) or 2 "
		"(background)\n");
	check_error("[group a]\ndevice_pinned_mem_limit = 1G\n",
		"/c:2: device_pinned_mem_limit is \"1G\": it takes DEVICE=SIZE pairs separated by "
		"commas, such as 0=1G,1=512M; DEVICE is an ordinal, a PCI id, a UUID or the "
		"beginning of one, SIZE is a whole number with K, KB, M, MB, G or GB, such as 512M "
		"or 2G\n");
	check_error("[group a]\nuid = no such user\n",
		"/c:2: uid is \"no such user\": it takes a UID or the name of a user\n");
	/* Nothing of the terminal's gets through. */
	check_error("[daemon]\ngrace_ms = \xc2\x9b\n",
		"/c:2: grace_ms is \"??\": it takes milliseconds, a number from 0 to 3600000\n");
}

/* Every error is found, up to a bound. */
static void test_all_errors(_unused_ void **state)
{
	char text[8192] = "[daemon]\n";

	assert_int_equal(parse("[daemon]\ngrace_ms = x\nidle_s = x\n[x]\n"), 3);
	for (int i = 0; i < 250; i++)
		strcat(text, "idle_s = x\n");
	assert_int_equal(parse(text), 250);
	assert_non_null(strstr(said, "/c:101: "));
	assert_null(strstr(said, "/c:102: "));
	assert_non_null(strstr(said, "/c: 150 more errors\n"));
}

static void test_too_many_sections(_unused_ void **state)
{
	static char text[32 * (USER_SECTIONS_MAX + 1)];
	size_t used = 0;

	for (int i = 0; i <= GROUPS_MAX; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "[group g%d]\n", i);
	assert_int_equal(parse(text), 1);
	assert_string_equal(
		said, "/c:257: there are more than 256 sections [group], which is the maximum\n");
	used = 0;
	for (int i = 0; i <= USER_SECTIONS_MAX; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "[user %d]\n", i);
	assert_int_equal(parse(text), 1);
	assert_string_equal(
		said, "/c:1025: there are more than 1024 sections [user], which is the maximum\n");
}

static void test_overridden(_unused_ void **state)
{
	setenv("MPS_GRACE_MS", "1", 1);
	setenv("MPS_IDLE_S", "", 1);
	assert_int_equal(parse("[daemon]\nidle_s = 1\ngrace_ms = 1\n"), 0);
	config_file_report_overridden(&file, &report);
	assert_string_equal(said, "line 3: grace_ms has no effect, as MPS_GRACE_MS is set in the "
				  "daemon's environment\n");
}

/* ---- the file itself */

static void make_file(const char *path, const char *text, mode_t mode)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_int_equal(fchmod(fd, mode), 0);
}

static int read_from(const char *path)
{
	config_file_fini(&file);
	said[0] = '\0';
	snprintf(file.path, sizeof(file.path), "%s", path);
	return config_file_read(&file, &report);
}

static void check_permissions(const char *path)
{
	make_file(path, "[daemon]\nidle_s = 1\n", 0644);
	assert_int_equal(read_from(path), 0);
	assert_string_equal(said, "");
	assert_true(file.hash != 0);
	for (mode_t mode = 0620; mode >= 0602; mode -= 016) {
		make_file(path, "[daemon]\nidle_s = 1\n", mode);
		assert_int_equal(read_from(path), geteuid() == 0 ? -EPERM : 0);
		assert_non_null(strstr(said, "other users can write the file"));
		assert_true(!!strstr(said, "warning: ") == (geteuid() != 0));
	}
	if (geteuid() == 0) {
		make_file(path, "[daemon]\nidle_s = 1\n", 0644);
		assert_int_equal(chown(path, 1234, 0), 0);
		assert_int_equal(read_from(path), -EPERM);
		assert_non_null(strstr(said, "the file belongs to UID 1234"));
	}
}

static void test_files(_unused_ void **state)
{
	char folder[] = "/tmp/mps-conf-XXXXXX", path[64];
	static char large[CONFIG_FILE_MAX + 2];

	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/mps.conf", folder);
	assert_int_equal(read_from(path), 0);
	assert_string_equal(said, "");
	assert_true(file.hash == 0);
	file.is_required = true;
	assert_int_equal(read_from(path), -ENOENT);
	assert_non_null(strstr(said, "mps.conf: cannot be read: No such file"));
	assert_int_equal(read_from(folder), -EINVAL);
	assert_non_null(strstr(said, "is not a regular file"));
	assert_int_equal(mkfifo(path, 0644), 0);
	assert_int_equal(read_from(path), -EINVAL);
	unlink(path);
	check_permissions(path);
	unlink(path);
	memset(large, '\n', sizeof(large) - 1);
	make_file(path, large, 0644);
	assert_int_equal(read_from(path), -EFBIG);
	large[CONFIG_FILE_MAX] = '\0';
	make_file(path, large, 0644);
	assert_int_equal(read_from(path), 0);
	unlink(path);
	rmdir(folder);
}

static void test_paths(_unused_ void **state)
{
	char here[PATH_MAX], wanted[PATH_MAX + 16];
	struct error_message error;

	assert_int_equal(config_file_init(&file, NULL, &error), 0);
	assert_string_equal(file.path, "/etc/mps.conf");
	assert_false(file.is_required);
	assert_int_equal(config_file_init(&file, "x/my.conf", &error), 0);
	assert_non_null(getcwd(here, sizeof(here)));
	snprintf(wanted, sizeof(wanted), "%s/x/my.conf", here);
	assert_string_equal(file.path, wanted);
	assert_true(file.is_required);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_sections, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_section_errors, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_key_errors, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_value_errors, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_all_errors, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_too_many_sections, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_overridden, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_files, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_paths, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
