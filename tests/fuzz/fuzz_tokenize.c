/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fuzzer: text on the control socket, in pieces: its lines, safe to print, their tokens, and the
 * numbers among them.
 */

#include <string.h>

#include "../../daemon/text/line_buffer.h"
#include "../../daemon/text/tokenize.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool condition)
{
	if (!condition)
		abort();
}

static void on_line(void *arg, const char *line)
{
	char copy[LINE_MAX_SIZE + 1];
	struct tokens tokens;
	uint64_t number;
	size_t length = strlen(line);

	(void)arg;
	must(length > 0 && length <= LINE_MAX_SIZE);
	for (size_t i = 0; i < length; i++)
		must((unsigned char)line[i] >= ' ' && line[i] != 0x7f);
	memcpy(copy, line, length + 1);
	tokenize_line(&tokens, copy);
	for (size_t i = 0; i < MIN(tokens.n, (size_t)TOKENS_MAX); i++) {
		must(tokens.item[i] >= copy && tokens.item[i] < copy + length);
		must(tokens.item[i][0] && !strchr(tokens.item[i], ' '));
		if (parse_number(tokens.item[i], 1000, &number) == 0)
			must(number <= 1000);
		parse_number(tokens.item[i], UINT64_MAX, &number);
	}
}

/* The first byte is the size of the pieces. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct line_buffer buffer = {0};
	size_t piece = size > 0 ? data[0] + 1u : 1;

	for (size_t at = 1; at < size; at += piece)
		line_buffer_feed(
			&buffer, (const char *)data + at, MIN(piece, size - at), on_line, NULL);
	line_buffer_end(&buffer, on_line, NULL);
	return 0;
}
