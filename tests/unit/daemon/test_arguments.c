/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Arguments of commands of protocol 3.
 */

#include <string.h>

#include "rows.h"
#include "daemon/text/arguments.h"

#define USAGE " [NAME] [--uid=UID] [--allowed-devices=LIST] [--all|--force]"

static const struct row {
	const char *line, *read; /* "!TEXT": refused with that text */
} rows[] = {
	{"", ""},
	{"one two three", "one two three"},
	{"one --all two", "one two all="},
	{"--uid=5 one", "one uid=5"},
	{"uid=5 one", "one uid=5"},
	{"--allowed_devices=0,1", "allowed-devices=0,1"},
	{"allowed_devices=GPU-a=b", "allowed-devices=GPU-a=b"},
	{"--force --all", "force= all="},
	{"--uid", "!--uid needs a value"},
	{"--uid=", "!--uid needs a value"},
	{"uid=", "!--uid needs a value"},
	{"--force=1", "!--force takes no value"},
	{"force=1", "!--force takes no value"},
	{"force", "force"},
	{"--uid=1 uid=2", "!--uid is given twice"},
	{"--ui=1", "!Unknown option \"--ui\""},
	{"--devices=1", "!Unknown option \"--devices\""},
	{"--allowed=1", "!Unknown option \"--allowed\""},
	{"color=red", "!Unknown option \"--color\""},
	{"-f", "!Unknown option"},
	{"--", "!Unknown option \"--\""},
	{"=", "!Unknown option \"--\""},
	{"-", "!Unknown option"},
};

static void test_row(void **state)
{
	const struct row *row = *state;
	struct error_message error;
	struct tokens tokens;
	char line[128], read[256] = "";
	size_t used = 0;
	int r;

	snprintf(line, sizeof(line), "%s", row->line);
	tokenize_line(&tokens, line);
	r = arguments_read(&tokens, USAGE, &error);
	if (*row->read == '!') {
		assert_int_equal(r, -EINVAL);
		assert_non_null(strstr(error.text, row->read + 1));
		return;
	}
	assert_int_equal(r, 0);
	for (size_t i = 0; i < tokens.n; i++)
		used += (size_t)snprintf(
			read + used, sizeof(read) - used, "%s%s", used ? " " : "", tokens.item[i]);
	for (size_t i = 0; i < tokens.n_options; i++)
		used += (size_t)snprintf(read + used, sizeof(read) - used, "%s%s=%s",
			used ? " " : "", tokens.options[i].key, tokens.options[i].value);
	assert_string_equal(read, row->read);
}

int main(void)
{
	return rows_run("arguments", test_row, rows, sizeof(rows[0]), ARRAY_SIZE(rows));
}
