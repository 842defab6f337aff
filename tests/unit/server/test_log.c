/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Lines without a reader are kept, with their age, for the next reader.
 */

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "server/util/log.h"

static int real_stderr;

/* Everything from a pipe that has no more writers. */
static size_t read_all(int fd, char *text, size_t size)
{
	size_t n = 0;
	ssize_t more;

	while (n < size - 1 && (more = read(fd, text + n, size - 1 - n)) > 0)
		n += (size_t)more;
	text[n] = '\0';
	close(fd);
	return n;
}

/* Makes standard error a pipe; returns the reading end. */
static int take_stderr(void)
{
	int fds[2];

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_int_equal(dup2(fds[1], STDERR_FILENO), STDERR_FILENO);
	close(fds[1]);
	log_init();
	return fds[0];
}

/* A new daemon's pipe; returns its reading end. */
static int move_stderr(void)
{
	int fds[2];

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_int_equal(log_take(fds[1]), 0);
	return fds[0];
}

static void give_stderr_back(void)
{
	assert_int_equal(dup2(real_stderr, STDERR_FILENO), STDERR_FILENO);
}

static void test_unread_lines(_unused_ void **state)
{
	char text[4096];
	int next = -1;
	int fd = take_stderr();

	log_line("heard %d", 1);
	close(fd);
	log_line("kept %d", 2);
	log_line("kept %d", 3);
	next = move_stderr();
	log_line("heard %d", 4);
	give_stderr_back();
	read_all(next, text, sizeof(text));
	assert_true(strncmp(text, "kept 2 (0.0", 11) == 0);
	assert_non_null(strstr(text, " s ago)\nkept 3 (0.0"));
	assert_non_null(strstr(text, " s ago)\nheard 4\n"));
}

static void test_more_than_is_kept(_unused_ void **state)
{
	static char text[128 << 10];
	int next = -1;
	unsigned first_lost = 0, n_lost = 0;
	const char *note;

	close(take_stderr());
	for (unsigned i = 0; i < 2000; i++)
		log_line("%090u", i);
	next = move_stderr();
	log_line("heard");
	give_stderr_back();
	read_all(next, text, sizeof(text));
	while (first_lost < 2000) {
		char number[92];

		snprintf(number, sizeof(number), "%090u", first_lost);
		if (!strstr(text, number))
			break;
		first_lost++;
	}
	assert_in_range(first_lost, 100, 500);
	note = strstr(text, " lines after these are lost\nheard\n");
	assert_non_null(note);
	while (note > text && note[-1] != '\n')
		note--;
	assert_int_equal(sscanf(note, "%u", &n_lost), 1);
	assert_int_equal(first_lost + n_lost, 2000);
}

/* The server does not wait for a slow reader, which gets the lines later. */
static void test_full_pipe(_unused_ void **state)
{
	static char text[256 << 10];
	char some[4096], *from;
	int fd = take_stderr();
	ssize_t n;
	size_t size;

	for (unsigned i = 0; i < 700; i++)
		log_line("%0100u", i);
	n = read(fd, text, sizeof(text) / 2);
	assert_true(n > 0);
	log_line("after that");
	give_stderr_back();
	size = (size_t)n + read_all(fd, text + n, sizeof(text) - (size_t)n);
	assert_true(size > (size_t)n);
	from = text;
	for (unsigned i = 0; i < 700; i++) {
		snprintf(some, sizeof(some), "%0100u", i);
		from = strstr(from, some);
		assert_non_null(from);
	}
	assert_non_null(strstr(from, " s ago)\nafter that\n"));
}

static void test_longest_line(_unused_ void **state)
{
	char text[4096];
	int next = -1;
	size_t n;

	close(take_stderr());
	log_line("%03000d", 7);
	next = move_stderr();
	give_stderr_back();
	n = read_all(next, text, sizeof(text));
	assert_in_range(n, LOG_LINE_MAX - 40, LOG_LINE_MAX);
	assert_string_equal(text + n - 7, &" s ago)\n"[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unread_lines),
		cmocka_unit_test(test_more_than_is_kept),
		cmocka_unit_test(test_full_pipe),
		cmocka_unit_test(test_longest_line),
	};

	signal(SIGPIPE, SIG_IGN);
	real_stderr = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
