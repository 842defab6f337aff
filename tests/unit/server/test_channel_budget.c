/* SPDX-License-Identifier: Apache-2.0 */

/* What the driver has room for, beside streams that stand still, over the counting driver. */

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "server/driver/device.h"
#include "server/driver/channel_budget.h"
#include "tests/fuzz/session_harness.h"
#include "open_session.h"
#include "stand_still.h"

enum {
	STREAM = DEVICES_MAX,
	MOST_MS = 1,
};

static const struct room_part one = {.n_channels = 1};

static struct device *device(void)
{
	return device_get(0);
}

static unsigned taken(void)
{
	return device()->room.n_channels;
}

static int open_standing(void **state)
{
	return open_session(state) == 0 && stand_still(STREAM) ? 0 : -1;
}

static int close_standing(void **state)
{
	stand_still_end();
	return close_session(state);
}

static enum room_way take(const struct room_part *part)
{
	return room_take(harness.session, device(), part, MOST_MS);
}

static void leave(unsigned n)
{
	while (n-- > 0)
		room_leave(device(), &one);
}

/* Who stands itself has some that others must leave, and keys are there always. */
static void test_what_is_there(void **state)
{
	unsigned before = taken(), n = 0, n_standing;

	(void)state;
	assert_in_range(device()->room.n_made, ROOM_AHEAD, ROOM_AHEAD + before);
	while (room_take(NULL, device(), &one, MOST_MS) == ROOM_THERE)
		n++;
	assert_int_equal(before + n, device()->room.n_made - ROOM_KEYS - ROOM_STANDING);
	assert_int_equal(taken(), before + n); /* who got none took none */
	for (n_standing = 0; take(&one) == ROOM_THERE;)
		n_standing++;
	assert_int_equal(n_standing, ROOM_STANDING);
	room_take_key(device());
	assert_int_equal(taken(), before + n + n_standing + 1);
	leave(2);
	assert_int_equal(take(&one), ROOM_THERE);
	assert_int_equal(take(&one), ROOM_NONE);
	leave(n + n_standing);
	assert_int_equal(taken(), before);
}

static void test_nodes(void **state)
{
	const struct room_part all = {1, ROOM_NODES}, none_left = {1, 1};
	unsigned before = device()->room.n_made;

	(void)state;
	assert_int_equal(take(&all), ROOM_THERE);
	assert_int_equal(take(&none_left), ROOM_NONE);
	standing_forget_all(harness.session);
	assert_int_equal(take(&none_left), ROOM_NEW);
	room_taken(ROOM_NEW);
	assert_int_equal(device()->room.n_made, before);
	room_leave(device(), &all);
	assert_int_equal(take(&none_left), ROOM_THERE);
	room_leave(device(), &none_left);
	room_leave(device(), &none_left);
}

/* More is made ahead, but not for what takes less than is counted. */
static void test_more_is_made(void **state)
{
	const struct room_part wide = {2 * ROOM_AHEAD, 1};
	unsigned before = device()->room.n_made, n = 0;

	(void)state;
	assert_int_equal(take(&wide), ROOM_NONE);
	standing_forget_all(harness.session);
	assert_int_equal(take(&wide), ROOM_NEW);
	room_taken(ROOM_NEW);
	assert_int_equal(device()->room.n_made, before);
	room_leave(device(), &wide);
	while (take(&one) == ROOM_THERE)
		n++;
	room_taken(ROOM_NEW);
	n++;
	assert_true(device()->room.n_made >= taken() + ROOM_AHEAD);
	assert_int_equal(take(&one), ROOM_THERE);
	leave(n + 1);
}

/* A failure to look at the thread's context must not leave the thread without one. */
static void test_context_stays(void **state)
{
	CUstream reals[SPARES_AHEAD], real;
	CUcontext context = NULL;
	unsigned n = device()->spares.n;

	(void)state;
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(spare_take_key(device(), &reals[i]), CUDA_SUCCESS);
	fake_switches.fail_next = CUDA_ERROR_OUT_OF_MEMORY;
	assert_int_equal(spare_take_key(device(), &real), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(cuda.cuCtxGetCurrent(&context), CUDA_SUCCESS);
	assert_ptr_equal(context, device()->context);
	for (unsigned i = 0; i < n; i++)
		spare_give(device(), reals[i], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_what_is_there, open_standing, close_standing),
		cmocka_unit_test_setup_teardown(test_nodes, open_standing, close_standing),
		cmocka_unit_test_setup_teardown(test_more_is_made, open_standing, close_standing),
		cmocka_unit_test_setup_teardown(test_context_stays, open_session, close_session),
	};

	return cmocka_run_group_tests_name("server_channel_budget", tests, NULL, NULL);
}
