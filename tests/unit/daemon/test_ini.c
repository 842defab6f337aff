/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The syntax of the configuration file: what each line is taken for.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "daemon/text/ini.h"

/* What the parser has said, an item after the other. */
static char said[4096];

static void say(const char *format, ...) _printf_(1, 2);

static void say(const char *format, ...)
{
	size_t used = strlen(said);
	va_list args;

	va_start(args, format);
	vsnprintf(said + used, sizeof(said) - used, format, args);
	va_end(args);
}

static bool on_section(_unused_ void *arg, unsigned line, const char *kind, const char *name)
{
	say("%u[%s|%s];", line, kind, name);
	return strcmp(kind, "refused") != 0;
}

static void on_entry(_unused_ void *arg, unsigned line, const char *key, const char *value)
{
	say("%u %s|%s;", line, key, value);
}

static void on_error(_unused_ void *arg, unsigned line, const char *why)
{
	say("%u! %.20s;", line, why);
}

static void check_bytes(const char *text, size_t size, const char *want)
{
	const struct ini_handler handler = {on_section, on_entry, on_error, NULL};
	char copy[512];

	assert_true(size < sizeof(copy));
	memcpy(copy, text, size);
	copy[size] = '\0';
	said[0] = '\0';
	ini_parse(copy, size, &handler);
	assert_string_equal(said, want);
}

static void check(const char *text, const char *want)
{
	check_bytes(text, strlen(text), want);
}

static void test_lines(_unused_ void **state)
{
	check("", "");
	check("\n\n  \n\t\r\n", "");
	check("# x\n  # [daemon]\n#", "");
	check("[daemon]\nkey = value\n", "1[daemon|];2 key|value;");
	check("[daemon]\nkey=value", "1[daemon|];2 key|value;");
	check("\t[ group \t a/b ] \r\n\tkey\t=\ta  b \r\n", "1[group|a/b];2 key|a  b;");
	check("[a]\nk = x = y\n", "1[a|];2 k|x = y;");
	check("[]\n[a]\n", "1[|];2[a|];");
}

static void test_comments(_unused_ void **state)
{
	check("[a] # x\nk = v # x\n", "1[a|];2 k|v;");
	check("[a]\nk = v#x\t#y#z\n", "1[a|];2 k|v#x;");
	check("[a]\nk = # v\n", "1[a|];2! the key has no value;");
	check("[a]\nk # = v\n", "1[a|];2! the line is neither ;");
}

static void test_errors(_unused_ void **state)
{
	check("k = v\n", "1! the line belongs to ;");
	check("[a\nk = v\n[b]\nk = v\n", "1! a section has no ] a;3[b|];4 k|v;");
	check("[a] b\nk = v\n", "1! text follows the ] o;");
	check("[a]\n= v\nk\nk =\nk = v", "1[a|];2! the line is neither ;3! the line is neither ;"
					 "4! the key has no value;5 k|v;");
	check("[refused]\nk = v\nrubbish\n[a]\nk = v\n", "1[refused|];4[a|];5 k|v;");
}

static void test_control_bytes(_unused_ void **state)
{
	check("[a]\nk = \x1b[2J\nk\x7f = v\n", "1[a|];2! the line has control;"
					       "3! the line has control;");
	check_bytes("[a]\nk = v\0w\nk = v\n", 18, "1[a|];2! the line has control;3 k|v;");
	check_bytes("\0", 1, "1! the line has control;");
	check("[a]\nk = \xc3\xa4\n", "1[a|];2 k|\xc3\xa4;");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_comments),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_control_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
