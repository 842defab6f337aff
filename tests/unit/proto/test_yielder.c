/* SPDX-License-Identifier: Apache-2.0 */

/* When a thread that spins yields, and when it stops doing so. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "yielder.h"

/* An hour ahead of the clock. */
#define NOW (now_ns() + 3600000000000u)

static void note_long(struct yielder *yielder)
{
	uint64_t now = NOW;

	yielder_note(yielder, now, now + YIELD_LONG_NS);
	assert_int_equal(yielder->not_before_ns, now + YIELD_LONG_NS + yielder->pause_ns);
}

static void test_who_yields(void **state)
{
	struct yielder yielder = {0};

	(void)state;
	assert_false(yielder_may(&yielder, 16, 16));
	assert_true(yielder_may(&yielder, 17, 16));
	assert_true(yielder_may(&yielder, 64, 16));
	assert_false(yielder_may(&yielder, 65, 16));
	note_long(&yielder);
	assert_false(yielder_may(&yielder, 17, 16));
}

static void test_pauses(void **state)
{
	struct yielder yielder = {0};
	uint64_t expected = YIELD_PAUSE_MIN_NS, before;

	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		note_long(&yielder);
		assert_int_equal(yielder.pause_ns, expected);
		expected = MIN(2 * expected, YIELD_PAUSE_MAX_NS);
	}
	assert_int_equal(expected, YIELD_PAUSE_MAX_NS);
	before = yielder.not_before_ns;
	for (unsigned i = 0; i < 1000; i++)
		yielder_note(&yielder, 0, YIELD_LONG_NS - 1);
	/* Short yields change no pause that is under way. */
	assert_int_equal(yielder.not_before_ns, before);
	note_long(&yielder);
	assert_int_equal(yielder.pause_ns, YIELD_PAUSE_MIN_NS);
}

/* A thread in a pause keeps its processor: it notes no yield. */
static void test_in_a_pause(void **state)
{
	struct yielder yielder = {.not_before_ns = NOW, .pause_ns = YIELD_PAUSE_MAX_NS};

	(void)state;
	yielder_yield(&yielder);
	assert_int_equal(yielder.pause_ns, YIELD_PAUSE_MAX_NS);
	yielder.not_before_ns = 0;
	yielder_yield(&yielder);
	assert_true(yielder.pause_ns < YIELD_PAUSE_MAX_NS || yielder.not_before_ns > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_who_yields),
		cmocka_unit_test(test_pauses),
		cmocka_unit_test(test_in_a_pause),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
