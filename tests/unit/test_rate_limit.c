/* SPDX-License-Identifier: Apache-2.0 */

/*
 * So many at once, so many a second, and never more after a long rest.
 */

#include <setjmp.h>
#include <stdarg.h>

#include "rate_limit.h"

#include <cmocka.h>

static unsigned take_all(struct bucket *bucket, uint64_t now_ms)
{
	unsigned n = 0;

	while (bucket_take(bucket, now_ms, 10, 4))
		n++;
	return n;
}

static void test_bucket(_unused_ void **state)
{
	struct bucket bucket = {0};

	assert_int_equal(take_all(&bucket, 5), 10);
	assert_int_equal(take_all(&bucket, 5), 0);
	assert_int_equal(take_all(&bucket, 5 + 249), 0);
	assert_int_equal(take_all(&bucket, 5 + 250), 1);
	assert_int_equal(take_all(&bucket, 5 + 1250), 4);
	assert_int_equal(take_all(&bucket, 1000000), 10);
	assert_int_equal(take_all(&bucket, UINT64_MAX), 10);
	assert_int_equal(take_all(&bucket, UINT64_MAX), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_bucket)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
