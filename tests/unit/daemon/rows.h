/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ROWS_H
#define ROWS_H

/* Tables of cases: a test for each row, which begins with its name (const char *). */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

/* Each test gets its row as *state. Returns what main() returns. */
static inline int rows_run(
	const char *noun, CMUnitTestFunction test, const void *rows, size_t size, size_t n)
{
	struct CMUnitTest *tests = calloc(n, sizeof(*tests));
	int n_failed;

	if (!tests)
		return EXIT_FAILURE;
	for (size_t i = 0; i < n; i++) {
		const char *row = (const char *)rows + i * size;

		tests[i] = (struct CMUnitTest){.name = *(const char *const *)row,
			.test_func = test,
			.initial_state = (void *)row};
	}
	n_failed = _cmocka_run_group_tests(noun, tests, n, NULL, NULL);
	free(tests);
	return n_failed;
}

#endif
