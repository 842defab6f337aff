/* SPDX-License-Identifier: Apache-2.0 */

/* The channel budget of the driver, while streams are blocked, over the counting driver. */

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "server/driver/device.h"
#include "server/driver/channel_budget.h"
#include "tests/fuzz/session_harness.h"
#include "open_session.h"
#include "block_stream.h"

enum {
	STREAM = DEVICES_MAX,
	MOST_MS = 1,
};

static const struct channel_part one = {.n_channels = 1};

static struct device *device(void)
{
	return device_get(0);
}

static unsigned taken(void)
{
	return device()->channels.n_channels;
}

static int open_blocked(void **state)
{
	return open_session(state) == 0 && block_stream(STREAM) ? 0 : -1;
}

static int close_blocked(void **state)
{
	unblock_stream();
	return close_session(state);
}

static enum channel_way take(const struct channel_part *part)
{
	return channel_budget_take(harness.session, device(), part, MOST_MS);
}

static void leave(unsigned n)
{
	while (n-- > 0)
		channel_budget_release(device(), &one);
}

/* A blocked session may use channels that others must leave; release streams always get one. */
static void test_what_is_there(void **state)
{
	unsigned before = taken(), n = 0, n_blocked;

	(void)state;
	assert_in_range(
		device()->channels.n_made, CHANNEL_BUDGET_AHEAD, CHANNEL_BUDGET_AHEAD + before);
	while (channel_budget_take(NULL, device(), &one, MOST_MS) == CHANNELS_THERE)
		n++;
	assert_int_equal(before + n,
		device()->channels.n_made - CHANNEL_BUDGET_RESERVED - CHANNEL_BUDGET_BLOCKED);
	assert_int_equal(taken(), before + n); /* a refused request took none */
	for (n_blocked = 0; take(&one) == CHANNELS_THERE;)
		n_blocked++;
	assert_int_equal(n_blocked, CHANNEL_BUDGET_BLOCKED);
	channel_budget_take_reserved(device());
	assert_int_equal(taken(), before + n + n_blocked + 1);
	leave(2);
	assert_int_equal(take(&one), CHANNELS_THERE);
	assert_int_equal(take(&one), CHANNELS_NONE);
	leave(n + n_blocked);
	assert_int_equal(taken(), before);
}

static void test_nodes(void **state)
{
	const struct channel_part all = {1, CHANNEL_BUDGET_NODES}, none_left = {1, 1};
	unsigned before = device()->channels.n_made;

	(void)state;
	assert_int_equal(take(&all), CHANNELS_THERE);
	assert_int_equal(take(&none_left), CHANNELS_NONE);
	blocked_forget_all(harness.session);
	assert_int_equal(take(&none_left), CHANNELS_NEW);
	channel_budget_taken(CHANNELS_NEW);
	assert_int_equal(device()->channels.n_made, before);
	channel_budget_release(device(), &all);
	assert_int_equal(take(&none_left), CHANNELS_THERE);
	channel_budget_release(device(), &none_left);
	channel_budget_release(device(), &none_left);
}

/* More channels are created in advance, but not for a request below the counted size. */
static void test_more_is_made(void **state)
{
	const struct channel_part wide = {2 * CHANNEL_BUDGET_AHEAD, 1};
	unsigned before = device()->channels.n_made, n = 0;

	(void)state;
	assert_int_equal(take(&wide), CHANNELS_NONE);
	blocked_forget_all(harness.session);
	assert_int_equal(take(&wide), CHANNELS_NEW);
	channel_budget_taken(CHANNELS_NEW);
	assert_int_equal(device()->channels.n_made, before);
	channel_budget_release(device(), &wide);
	while (take(&one) == CHANNELS_THERE)
		n++;
	channel_budget_taken(CHANNELS_NEW);
	n++;
	assert_true(device()->channels.n_made >= taken() + CHANNEL_BUDGET_AHEAD);
	assert_int_equal(take(&one), CHANNELS_THERE);
	leave(n + 1);
}

/* A failed query of the thread's context must not leave the thread without a context. */
static void test_context_stays(void **state)
{
	CUstream reals[STREAM_POOL_MAX], real;
	CUcontext context = NULL;
	unsigned n = device()->stream_pool.n;

	(void)state;
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(stream_pool_take_reserved(device(), &reals[i]), CUDA_SUCCESS);
	fake_switches.fail_next = CUDA_ERROR_OUT_OF_MEMORY;
	assert_int_equal(stream_pool_take_reserved(device(), &real), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(cuda.cuCtxGetCurrent(&context), CUDA_SUCCESS);
	assert_ptr_equal(context, device()->context);
	for (unsigned i = 0; i < n; i++)
		stream_pool_give(device(), reals[i], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_what_is_there, open_blocked, close_blocked),
		cmocka_unit_test_setup_teardown(test_nodes, open_blocked, close_blocked),
		cmocka_unit_test_setup_teardown(test_more_is_made, open_blocked, close_blocked),
		cmocka_unit_test_setup_teardown(test_context_stays, open_session, close_session),
	};

	return cmocka_run_group_tests_name("server_channel_budget", tests, NULL, NULL);
}
