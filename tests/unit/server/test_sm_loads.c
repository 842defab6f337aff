/* SPDX-License-Identifier: Apache-2.0 */

/* Which groups of SMs a client gets: those with the fewest other clients. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base.h"
#include "server/driver/sm_loads.h"
#include "tests/unit/seed.h"

/* Of an H200. */
#define N 16u
#define ALL 0xffffull

static uint64_t add(struct sm_loads *loads, unsigned n)
{
	uint64_t set = sm_loads_choose(loads, sm_set_first(loads->n), n);

	assert_int_equal(__builtin_popcountll(set), n);
	sm_loads_add(loads, set);
	return set;
}

/* Shares that fit are disjoint. */
static void test_disjoint(void **state)
{
	struct sm_loads loads = {.n = N};

	(void)state;
	assert_int_equal(add(&loads, 4), 0x000f);
	assert_int_equal(add(&loads, 4), 0x00f0);
	assert_int_equal(add(&loads, 2), 0x0300);
	assert_int_equal(add(&loads, 6), 0xfc00);
}

/* Further shares are spread over all groups, as evenly as possible. */
static void test_even(void **state)
{
	struct sm_loads loads = {.n = N};

	(void)state;
	for (unsigned i = 0; i < 8; i++)
		add(&loads, 4);
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(loads.load[i], 2);
	for (unsigned i = 0; i < N; i++)
		add(&loads, 1);
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(loads.load[i], 3);
	assert_int_equal(add(&loads, N), ALL);
}

/* The next share gets groups that another has left, also across the end. */
static void test_holes(void **state)
{
	struct sm_loads loads = {.n = N};
	uint64_t first = add(&loads, 3), second;

	(void)state;
	add(&loads, 5);
	second = add(&loads, 5);
	assert_int_equal(second, 0x1f00);
	sm_loads_remove(&loads, first);
	assert_int_equal(add(&loads, 6), 0xe007);
	/* The free groups are not adjacent. */
	sm_loads_remove(&loads, 0x2001);
	assert_int_equal(add(&loads, 2), 0x2001);
	/* A run takes no group with more load than necessary. */
	sm_loads_remove(&loads, 0x0100);
	assert_int_equal(add(&loads, 1), 0x0100);
}

static void test_within(void **state)
{
	struct sm_loads loads = {.n = N};

	(void)state;
	assert_int_equal(sm_loads_choose(&loads, 0x0f00, 2), 0x0300);
	sm_loads_add(&loads, 0x0300);
	assert_int_equal(sm_loads_choose(&loads, 0x0f00, 2), 0x0c00);
	assert_int_equal(sm_loads_choose(&loads, 0x0f00, 3), 0x0e00);
	assert_int_equal(sm_loads_choose(&loads, 0x0f00, 4), 0x0f00);
}

static void test_all_64(void **state)
{
	struct sm_loads loads = {.n = SM_LOADS_MAX};

	(void)state;
	assert_true(add(&loads, SM_LOADS_MAX) == UINT64_MAX);
	assert_true(add(&loads, 1) == 1);
	assert_true(add(&loads, 63) == UINT64_MAX - 1);
	assert_true(sm_set_first(1) == 1 && sm_set_first(64) == UINT64_MAX);
}

/* While shares come and go, no choice has a higher load than the best one. */
static void test_random(void **state)
{
	enum {
		ROUNDS = 20000,
		SETS = 12
	};
	struct sm_loads loads = {.n = 15};
	uint64_t sets[SETS] = {0};

	(void)state;
	srand(seed_read(1));
	for (unsigned round = 0; round < ROUNDS; round++) {
		unsigned i = (unsigned)rand() % SETS, n = 1 + (unsigned)rand() % 15, n_less = 0;
		uint32_t most = 0;

		sm_loads_remove(&loads, sets[i]);
		sets[i] = sm_loads_choose(&loads, sm_set_first(15), n);
		assert_int_equal(__builtin_popcountll(sets[i]), n);
		for (unsigned k = 0; k < loads.n; k++)
			if (sets[i] >> k & 1)
				most = MAX(most, loads.load[k]);
		for (unsigned k = 0; k < loads.n; k++)
			n_less += loads.load[k] < most;
		assert_true(n_less < n);
		sm_loads_add(&loads, sets[i]);
	}
	for (unsigned i = 0; i < SETS; i++)
		sm_loads_remove(&loads, sets[i]);
	for (unsigned i = 0; i < loads.n; i++)
		assert_int_equal(loads.load[i], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_disjoint),
		cmocka_unit_test(test_even),
		cmocka_unit_test(test_holes),
		cmocka_unit_test(test_within),
		cmocka_unit_test(test_all_64),
		cmocka_unit_test(test_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
