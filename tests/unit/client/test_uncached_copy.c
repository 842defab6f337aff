/* SPDX-License-Identifier: Apache-2.0 */

/*
 * uncached_copy() with every alignment of both ends and sizes around those of its loops: the
 * bytes are right, and those beside them unchanged.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "client/util/uncached_copy.h"

enum {
	ALIGNMENTS = 17,
	SIZE = 400,
	BESIDE = 0xee
};

static void check(size_t to, size_t from, size_t n)
{
	static uint8_t src[ALIGNMENTS + SIZE], dst[ALIGNMENTS + SIZE + 1];

	for (size_t i = 0; i < sizeof(src); i++)
		src[i] = (uint8_t)(i * 7 + n);
	memset(dst, BESIDE, sizeof(dst));
	uncached_copy(dst + to, src + from, n);
	assert_memory_equal(dst + to, src + from, n);
	for (size_t i = 0; i < sizeof(dst); i++)
		if (i < to || i >= to + n)
			assert_int_equal(dst[i], BESIDE);
}

static void test_copies(void **state)
{
	(void)state;
	for (size_t to = 0; to < ALIGNMENTS; to++)
		for (size_t from = 0; from < ALIGNMENTS; from++)
			for (size_t n = 0; n <= SIZE; n += n < 150 ? 1 : 50)
				check(to, from, n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_copies)};

	return cmocka_run_group_tests_name("client uncached copy", tests, NULL, NULL);
}
