/* SPDX-License-Identifier: Apache-2.0 */

/* The channel budget of the driver, while streams are blocked, over the counting driver. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "block_stream.h"
#include "open_session.h"
#include "server/device/device.h"
#include "server/schedule/channel_budget.h"
#include "server/schedule/stream_pool.h"
#include "tests/fuzz/session_harness.h"

enum {
	STREAM = DEVICES_MAX,
	MOST_MS = 1,
	KEPT = CHANNEL_BUDGET_RESERVED + CHANNEL_BUDGET_BLOCKED,
};

static struct device *device(void)
{
	return device_get(0);
}

static int64_t n_free(void)
{
	return device()->channels->n_free;
}

static int open_blocked(void **state)
{
	if (open_session(state) < 0 || !block_stream(STREAM))
		return -1;
	/* The GPU outlives the sessions; each test begins with what it has at first. */
	device()->channels->n_nodes_more = 0;
	return 0;
}

static int close_blocked(void **state)
{
	unblock_stream();
	return close_session(state);
}

/* Takes it as for an object that is made at once. */
static enum channel_way take_for(struct session *session, struct channel_part *part)
{
	enum channel_way way = channel_budget_take(session, device(), part, MOST_MS);

	if (way != CHANNELS_NONE)
		channel_budget_taken(device(), part, way, true);
	return way;
}

static enum channel_way take(struct channel_part *part)
{
	return take_for(harness.session, part);
}

static void leave(unsigned n)
{
	while (n-- > 0)
		channel_budget_release(device(), &(struct channel_part){.n_channels = 1});
}

/* A blocked session may use channels that others must leave; release streams always get one. */
static void test_what_is_there(void **state)
{
	struct channel_part one = {.n_channels = 1};
	int64_t before = n_free();
	unsigned n = 0, n_blocked = 0;

	(void)state;
	assert_in_range(before, KEPT, CHANNEL_BUDGET_AHEAD);
	while (take_for(NULL, &one) == CHANNELS_THERE)
		n++;
	assert_int_equal(n, before - KEPT);
	assert_int_equal(n_free(), KEPT); /* a refused request took none */
	while (take(&one) == CHANNELS_THERE)
		n_blocked++;
	assert_int_equal(n_blocked, CHANNEL_BUDGET_BLOCKED);
	channel_budget_take_reserved(device(), &one);
	channel_budget_taken(device(), &one, CHANNELS_THERE, true);
	assert_int_equal(n_free(), CHANNEL_BUDGET_RESERVED - 1);
	leave(2);
	assert_int_equal(take(&one), CHANNELS_THERE);
	assert_int_equal(take(&one), CHANNELS_NONE);
	leave(n + n_blocked);
	assert_int_equal(n_free(), before);
}

static struct channel_part nodes(unsigned n)
{
	return (struct channel_part){.n_channels = 1, .n_nodes = n};
}

/* A graph needs memory for its nodes; a stream does not. */
static void test_nodes(void **state)
{
	struct channel_part all = nodes(CHANNEL_BUDGET_NODES), node = nodes(1), stream = nodes(0);
	int64_t before = n_free();

	(void)state;
	assert_int_equal(take(&all), CHANNELS_THERE);
	assert_int_equal(take(&node), CHANNELS_NONE);
	assert_int_equal(take(&stream), CHANNELS_THERE);
	blocked_forget_all(harness.session);
	assert_int_equal(take(&node), CHANNELS_NEW);
	assert_int_equal(n_free(), before - 3); /* no more were made */
	channel_budget_release(device(), &all);
	assert_int_equal(take(&node), CHANNELS_THERE);
	channel_budget_release(device(), &node);
	channel_budget_release(device(), &node);
	channel_budget_release(device(), &stream);
	assert_int_equal(n_free(), before);
}

/* A session whose stream is blocked would wait for itself, so others leave it some nodes. */
static void test_nodes_for_blocked(void **state)
{
	struct channel_part others = nodes(CHANNEL_BUDGET_NODES - CHANNEL_BUDGET_NODES_BLOCKED);
	struct channel_part node = nodes(1), kept = nodes(CHANNEL_BUDGET_NODES_BLOCKED);

	(void)state;
	assert_int_equal(take_for(NULL, &others), CHANNELS_THERE);
	assert_int_equal(take_for(NULL, &node), CHANNELS_NONE);
	assert_int_equal(take(&kept), CHANNELS_THERE);
	assert_int_equal(take(&node), CHANNELS_NONE);
	channel_budget_release(device(), &kept);
	channel_budget_release(device(), &others);
}

/* Takes it while no stream is blocked. */
static void take_new(struct channel_part *part, bool is_made)
{
	blocked_forget_all(harness.session);
	assert_int_equal(
		channel_budget_take(harness.session, device(), part, MOST_MS), CHANNELS_NEW);
	channel_budget_taken(device(), part, CHANNELS_NEW, is_made);
	assert_true(block_stream(STREAM));
}

/* The driver keeps the memory of nodes, and some is made in advance beside the graph. */
static void test_nodes_are_kept(void **state)
{
	struct channel_part large = nodes(2 * CHANNEL_BUDGET_NODES), node = nodes(1);
	struct channel_part ahead = nodes(CHANNEL_BUDGET_NODES_AHEAD);
	struct channel_part all = nodes(2 * CHANNEL_BUDGET_NODES + CHANNEL_BUDGET_NODES_AHEAD);

	(void)state;
	take_new(&large, true);
	assert_int_equal(take(&ahead), CHANNELS_THERE);
	assert_int_equal(take(&node), CHANNELS_NONE);
	channel_budget_release(device(), &ahead);
	channel_budget_release(device(), &large);
	assert_int_equal(take(&all), CHANNELS_THERE);
	assert_int_equal(take(&node), CHANNELS_NONE);
	channel_budget_release(device(), &all);
	/* Others leave some nodes of the new ones, too. */
	assert_int_equal(take_for(NULL, &all), CHANNELS_NONE);
}

/* A graph that could not be made leaves no memory. */
static void test_nodes_of_a_failure(void **state)
{
	struct channel_part large = nodes(2 * CHANNEL_BUDGET_NODES);
	struct channel_part all = nodes(CHANNEL_BUDGET_NODES);

	(void)state;
	take_new(&large, false);
	assert_int_equal(take(&large), CHANNELS_NONE);
	assert_int_equal(take(&all), CHANNELS_THERE);
	channel_budget_release(device(), &all);
}

/* Nodes that are being made beside a large graph may be part of what does not exist yet. */
static void test_pending_nodes(void **state)
{
	struct channel_part pending = nodes(10), large = nodes(CHANNEL_BUDGET_NODES);
	struct channel_part all = nodes(CHANNEL_BUDGET_NODES + CHANNEL_BUDGET_NODES_AHEAD);

	(void)state;
	assert_int_equal(
		channel_budget_take(harness.session, device(), &pending, MOST_MS), CHANNELS_THERE);
	take_new(&large, true);
	channel_budget_release(device(), &large);
	channel_budget_taken(device(), &pending, CHANNELS_THERE, false);
	all.n_nodes++;
	assert_int_equal(take(&all), CHANNELS_NONE);
	all.n_nodes--;
	assert_int_equal(take(&all), CHANNELS_THERE);
	channel_budget_release(device(), &all);
}

/* After a wide graph, a session with a blocked stream still gets streams. */
static void test_beside_a_wide_graph(void **state)
{
	struct channel_part wide = {.n_channels = 2 * CHANNEL_BUDGET_AHEAD, .n_nodes = 1};
	struct channel_part one = {.n_channels = 1};

	(void)state;
	assert_int_equal(take(&wide), CHANNELS_NONE);
	blocked_forget_all(harness.session);
	assert_int_equal(take(&wide), CHANNELS_NEW);
	assert_int_equal(n_free(), CHANNEL_BUDGET_AHEAD);
	assert_true(block_stream(STREAM));
	assert_int_equal(take(&one), CHANNELS_THERE);
	/* It may have had a single channel of those that are free since. */
	channel_budget_release(device(), &wide);
	assert_int_equal(n_free(), CHANNEL_BUDGET_AHEAD);
	leave(1);
}

/* A part that is taken during the growth counts, whether or not its object is made already. */
static void test_pending(void **state)
{
	struct channel_part pending = {.n_channels = 10};

	(void)state;
	assert_int_equal(
		channel_budget_take(harness.session, device(), &pending, MOST_MS), CHANNELS_THERE);
	channel_budget_grow(device());
	assert_int_equal(n_free(), CHANNEL_BUDGET_AHEAD - 10);
	channel_budget_taken(device(), &pending, CHANNELS_THERE, true);
	channel_budget_grow(device());
	assert_int_equal(n_free(), CHANNEL_BUDGET_AHEAD);
	channel_budget_release(device(), &pending);
	assert_int_equal(n_free(), CHANNEL_BUDGET_AHEAD + 1);
}

/* A failed query of the thread's context must not leave the thread without a context. */
static void test_context_stays(void **state)
{
	CUstream reals[STREAM_POOL_MAX], real;
	CUcontext context = NULL;
	unsigned n = device()->stream_pool->n;

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
		cmocka_unit_test_setup_teardown(
			test_nodes_for_blocked, open_blocked, close_blocked),
		cmocka_unit_test_setup_teardown(test_nodes_are_kept, open_blocked, close_blocked),
		cmocka_unit_test_setup_teardown(
			test_nodes_of_a_failure, open_blocked, close_blocked),
		cmocka_unit_test_setup_teardown(test_pending_nodes, open_blocked, close_blocked),
		cmocka_unit_test_setup_teardown(
			test_beside_a_wide_graph, open_blocked, close_blocked),
		cmocka_unit_test_setup_teardown(test_pending, open_blocked, close_blocked),
		cmocka_unit_test_setup_teardown(test_context_stays, open_session, close_session),
	};

	return cmocka_run_group_tests_name("server_channel_budget", tests, NULL, NULL);
}
