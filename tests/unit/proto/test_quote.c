/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Foreign text cannot control a terminal, or look like a part of the line.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "quote.h"
#include "tests/unit/seed.h"

static void check(const char *text, const char *wanted)
{
	struct quoted quoted;

	assert_string_equal(quote(&quoted, text), wanted);
}

static void test_escapes(_unused_ void **state)
{
	check("", "\"\"");
	check("./train --x=1", "\"./train --x=1\"");
	check("a\"b\\c", "\"a\\\"b\\\\c\"");
	check("a\nb\tc\rd\x1b[2J\x7f", "\"a\\nb\\tc\\x0dd\\x1b[2J\\x7f\"");
	/* Valid UTF-8 stays; C1 controls, cut or too long sequences and surrogates are escaped. */
	check("caf\u00e9 \u20ac \U0001f600", "\"caf\u00e9 \u20ac \U0001f600\"");
	check("\xc2\x9b"
	      "31m",
		"\"\\xc2\\x9b31m\"");
	/* Marks that turn the direction of text round, and a separator of lines. */
	check("\u202egpj.\u2066x\u200f\u061c",
		"\"\\xe2\\x80\\xaegpj.\\xe2\\x81\\xa6x\\xe2\\x80\\x8f\\xd8\\x9c\"");
	check("a\u2028b", "\"a\\xe2\\x80\\xa8"
			  "b\"");
	check("\u2027\u202f\u2065\u206a", "\"\u2027\u202f\u2065\u206a\"");
	check("\xe2\x82", "\"\\xe2\\x82\"");
	check("\xc0\xaf\xed\xa0\x80\xff", "\"\\xc0\\xaf\\xed\\xa0\\x80\\xff\"");
}

static void test_bounds(_unused_ void **state)
{
	char text[400];

	for (size_t n = 0; n < sizeof(text); n++) {
		struct quoted quoted;
		size_t length;

		memset(text, n % 2 ? 'x' : '"', n);
		text[n] = '\0';
		length = strlen(quote(&quoted, text));
		assert_true(length < QUOTED_MAX);
		if (n % 2)
			assert_int_equal(quoted.text[length - 1] == '.', n > QUOTED_MAX - 6);
	}
}

/* For every input: exactly two bare quotes, and no control characters. */
static void test_anything(_unused_ void **state)
{
	unsigned seed = seed_read(1);

	for (int round = 0; round < 20000; round++) {
		struct quoted quoted;
		char text[64];
		unsigned n_quotes = 0;

		for (size_t i = 0; i < sizeof(text) - 1; i++)
			text[i] = (char)(rand_r(&seed) >> 7);
		text[sizeof(text) - 1] = '\0';
		for (const char *c = quote(&quoted, text); *c; c += utf8_length(c)) {
			assert_true(utf8_length(c) > 0 && (unsigned char)*c >= ' ' && *c != 0x7f);
			if (*c == '\\')
				c++;
			else
				n_quotes += *c == '"';
		}
		assert_int_equal(n_quotes, 2);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_escapes),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_anything),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
