/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Twins of the graphs of a background session, over the counting driver: when they are made, and
 * when a graph is launched itself. What they compute is a matter of
 * tests/system/test_graph_shares.py.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "background_session.h"
#include "block_stream.h"
#include "server/schedule/deferred.h"
#include "server/share/session_device.h"
#include "server/graph/graph.h"
#include "server/graph/graph_twin.h"

enum {
	GRAPH = 5,
	STREAM = DEVICES_MAX,
	OTHER
};

static struct cuda_api real;
static CUresult set_result;
static unsigned n_sets;
static CUgraphExec launched;

static CUresult set_kernel(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params)
{
	n_sets++;
	return set_result == CUDA_SUCCESS ? real.cuGraphKernelNodeSetParams_v2(node, params)
					  : set_result;
}

static CUresult launch_graph(CUgraphExec exec, CUstream stream)
{
	launched = exec;
	return real.cuGraphLaunch(exec, stream);
}

static void kernel_node(uint32_t number)
{
	static const uint32_t one[3] = {1, 1, 1}, none[3];
	const uint8_t params[FAKE_PARAM_BYTES] = {0};

	send_graph_kernel(GRAPH, number, WIRE_CONTEXT_SHARES_MAX, 1, one, one, 0, 0, none, 0, 0,
		params, sizeof(params));
}

static int open_graph(void **state)
{
	static const char image[] = ".version 8.0 // an image";
	uint32_t error_node;
	int32_t attributes[16];

	if (open_both(state) < 0)
		return -1;
	real = cuda;
	cuda.cuGraphKernelNodeSetParams_v2 = set_kernel;
	cuda.cuGraphLaunch = launch_graph;
	set_result = CUDA_SUCCESS;
	n_sets = 0;
	harness_send_image(image, sizeof(image));
	if (send_library_load(1, sizeof(image)) != CUDA_SUCCESS ||
		send_library_kernel(1, 1, "kernel", attributes) != CUDA_SUCCESS)
		return -1;
	send_stream_create(STREAM, 0, CU_STREAM_NON_BLOCKING, 0);
	send_stream_create(OTHER, 0, CU_STREAM_NON_BLOCKING, 0);
	send_graph_begin(GRAPH, 0);
	kernel_node(0);
	kernel_node(1);
	send_graph_empty(GRAPH, 2);
	return send_graph_instantiate(GRAPH, 3, 0, &error_node) == CUDA_SUCCESS ? 0 : -1;
}

static int close_graph(void **state)
{
	/* Not the whole table: other threads call other functions of it. */
	cuda.cuGraphExecKernelNodeSetParams_v2 = real.cuGraphExecKernelNodeSetParams_v2;
	cuda.cuGraphKernelNodeSetParams_v2 = real.cuGraphKernelNodeSetParams_v2;
	cuda.cuGraphLaunch = real.cuGraphLaunch;
	fake_switches.is_busy = false;
	unsetenv("MPS_TEST");
	return close_both(state);
}

static struct graph *graph(void)
{
	return session_graph(harness.session, GRAPH);
}

static void launch(uint32_t stream)
{
	launched = NULL;
	send_graph_launch(stream, GRAPH);
	assert_int_equal(harness_serve(), 0);
	assert_int_equal(harness_late_error(), CUDA_SUCCESS);
	assert_non_null(launched);
}

static bool launched_itself(void)
{
	return launched == graph()->real;
}

static unsigned count_twins(void)
{
	unsigned n = 0;

	for (unsigned i = 0; graph()->twins && i < GRAPH_TWINS_MAX; i++)
		n += graph()->twins->list[i].exec != NULL;
	return n;
}

/* Its kernels are made for the share; without the foreground, the graph runs itself. */
static void test_made_once(void **state)
{
	unsigned green = fake_calls.nodes_set_green;
	CUgraphExec twin;

	(void)state;
	launch(STREAM);
	assert_false(launched_itself());
	twin = launched;
	assert_int_equal(fake_calls.nodes_set_green - green, 2);
	launch(STREAM);
	assert_ptr_equal(launched, twin);
	assert_int_equal(n_sets, 2);
	foreground_has_work(false);
	launch(STREAM);
	assert_true(launched_itself());
	assert_int_equal(count_twins(), 1);
}

/* A share into which the nodes do not fit is not tried again until the graph changes. */
static void test_unfit(void **state)
{
	(void)state;
	set_result = CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
	launch(STREAM);
	assert_true(launched_itself());
	launch(STREAM);
	assert_int_equal(n_sets, 1);
	set_result = CUDA_SUCCESS;
	kernel_node(1);
	launch(STREAM);
	assert_false(launched_itself());
	/* The model, and the two kernels of the twin. */
	assert_int_equal(n_sets, 4);
}

/* A model that lacks a change is not cloned. */
static void test_old_model(void **state)
{
	(void)state;
	set_result = CUDA_ERROR_INVALID_VALUE;
	kernel_node(1);
	assert_int_equal(harness_serve(), 0);
	set_result = CUDA_SUCCESS;
	launch(STREAM);
	assert_true(launched_itself());
	assert_int_equal(count_twins(), 0);
}

static CUresult refuse(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params)
{
	return exec == graph()->real ? real.cuGraphExecKernelNodeSetParams_v2(exec, node, params)
				     : CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
}

/* A twin that lacks a change is not launched; a new one takes its place when that can be made. */
static void test_old_twin(void **state)
{
	CUgraphExec twin;

	(void)state;
	launch(STREAM);
	twin = launched;
	cuda.cuGraphExecKernelNodeSetParams_v2 = refuse;
	kernel_node(0);
	launch(STREAM);
	assert_false(launched_itself());
	assert_ptr_not_equal(launched, twin);
}

/* The driver may refuse a twin at the launch only. */
static CUresult launch_refused(CUgraphExec exec, CUstream stream)
{
	return exec == graph()->real ? launch_graph(exec, stream) : CUDA_ERROR_INVALID_VALUE;
}

static void test_refused(void **state)
{
	(void)state;
	cuda.cuGraphLaunch = launch_refused;
	launch(STREAM);
	assert_true(launched_itself());
	cuda.cuGraphLaunch = launch_graph;
	launch(STREAM);
	assert_true(launched_itself());
}

/* A new twin has to wait until another thread has ended the one that it replaces. */
static void launch_until_twins(unsigned n)
{
	while (count_twins() < n) {
		graphs_wait_for_ends(harness.session);
		launch(STREAM);
		assert_true(count_twins() <= n);
	}
}

/* Sizes that change all the time: the twin of the fourth size replaces another one. */
static void test_bound(void **state)
{
	(void)state;
	setenv("MPS_TEST", "shares", 1);
	elastic_init();
	for (unsigned i = 0; i < 24; i++) {
		launch(STREAM);
		assert_true(count_twins() <= GRAPH_TWINS_MAX);
	}
	launch_until_twins(GRAPH_TWINS_MAX);
}

static CUresult make_graph(uint32_t id, uint32_t n_nodes)
{
	uint32_t error_node;

	send_graph_begin(id, 0);
	for (uint32_t i = 0; i < n_nodes; i++) {
		send_graph_empty(id, i);
		if (i % 64 == 0)
			assert_int_equal(harness_serve(), 0);
	}
	return send_graph_instantiate(id, n_nodes, 0, &error_node);
}

/* Large graphs have fewer. */
static void test_many_nodes(void **state)
{
	const uint32_t n_nodes = GRAPH_TWIN_NODES_MAX / 2;

	(void)state;
	setenv("MPS_TEST", "shares", 1);
	elastic_init();
	send_graph_destroy(GRAPH);
	assert_int_equal(make_graph(GRAPH, n_nodes), CUDA_SUCCESS);
	for (unsigned i = 0; i < 12; i++) {
		launch(STREAM);
		assert_true(count_twins() <= 2);
	}
	launch_until_twins(2);
}

/* Twins give way to what the client makes itself, and say nothing about bounds. */
static void test_memory(void **state)
{
	const struct account *account = harness.session->account;

	(void)state;
	fake_switches.fail_next = CUDA_ERROR_OUT_OF_MEMORY;
	launch(STREAM);
	while (count_twins() == 0)
		launch(STREAM);
	assert_int_equal(account_taken(account, RESOURCE_GRAPH_NODES), 2 * 3);
	graph_twins_reclaim(harness.session);
	assert_int_equal(count_twins(), 0);
	while (account_taken(account, RESOURCE_GRAPH_NODES) > 3)
		graphs_wait_for_ends(harness.session);
	for (unsigned i = 0; i < RESOURCES; i++)
		assert_false(harness.session->is_bound_logged[i]);
}

/* Two graphs fit into the part of a process, but not beside a twin. */
static void test_gives_way(void **state)
{
	struct quota *nodes = resource_of_server(RESOURCE_GRAPH_NODES);
	uint64_t limit = nodes->limit;

	(void)state;
	nodes->limit = 0;
	send_graph_destroy(GRAPH);
	assert_int_equal(make_graph(GRAPH, 3000), CUDA_SUCCESS);
	launch(STREAM);
	assert_int_equal(count_twins(), 1);
	assert_int_equal(make_graph(GRAPH + 1, 4000), CUDA_SUCCESS);
	assert_int_equal(count_twins(), 0);
	assert_false(harness.session->is_bound_logged[RESOURCE_GRAPH_NODES]);
	nodes->limit = limit;
}

/* A twin that may run stays. */
static void test_running(void **state)
{
	(void)state;
	fake_switches.is_busy = true;
	launch(STREAM);
	assert_int_equal(count_twins(), 1);
	graph_twins_reclaim(harness.session);
	assert_int_equal(count_twins(), 1);
	fake_switches.is_busy = false;
	graph_twins_reclaim(harness.session);
	assert_int_equal(count_twins(), 0);
}

/* The driver orders launches of one executable graph only. */
static void test_order(void **state)
{
	unsigned waits;

	(void)state;
	/* A stream changes to the share at its second work. */
	for (unsigned i = 0; i < 2; i++) {
		launch(STREAM);
		launch(OTHER);
	}
	fake_switches.is_busy = true;
	waits = fake_calls.waits;
	launch(STREAM);
	assert_int_equal(fake_calls.waits, waits);
	/* Its stream changes, too. */
	foreground_has_work(false);
	launch(OTHER);
	assert_true(launched_itself());
	assert_int_equal(fake_calls.waits, waits + 2);
	launch(OTHER);
	assert_int_equal(fake_calls.waits, waits + 2);
}

/* Nothing is made and no stream waits while a stream is blocked: the last twin is launched. */
static void test_blocked(void **state)
{
	CUgraphExec twin;
	unsigned waits;

	(void)state;
	launch(STREAM);
	twin = launched;
	fake_switches.is_busy = true;
	assert_true(block_stream(OTHER + 1));
	foreground_has_work(false);
	waits = fake_calls.waits;
	launch(OTHER);
	assert_ptr_equal(launched, twin);
	assert_int_equal(fake_calls.waits, waits);
	fake_switches.is_busy = false;
	unblock_stream();
}

/* ... but not a twin that lacks a change: the launch waits for it. */
static void test_blocked_behind_old(void **state)
{
	unsigned waits;

	(void)state;
	launch(STREAM);
	launch(OTHER);
	launch(STREAM);
	cuda.cuGraphExecKernelNodeSetParams_v2 = refuse;
	kernel_node(0);
	assert_int_equal(harness_serve(), 0);
	fake_switches.is_busy = true;
	assert_true(block_stream(OTHER + 1));
	waits = fake_calls.waits;
	launch(OTHER);
	assert_true(launched_itself());
	assert_int_equal(fake_calls.waits, waits + 1);
	fake_switches.is_busy = false;
	unblock_stream();
}

/* The driver cannot clone it. */
static void test_conditional(void **state)
{
	static const struct graph_condition one = {1, 1};
	uint32_t error_node;

	(void)state;
	send_graph_destroy(GRAPH);
	send_graph_begin(GRAPH, 0);
	send_graph_conditions(GRAPH, WIRE_CONTEXT_SHARES_MAX, &one, 1);
	send_graph_conditional(GRAPH, 0, 1, CU_GRAPH_COND_TYPE_IF, 1);
	assert_int_equal(send_graph_instantiate(GRAPH, 1, 0, &error_node), CUDA_SUCCESS);
	launch(STREAM);
	assert_true(launched_itself());
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_graph, close_graph)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_made_once),
		TEST(test_unfit),
		TEST(test_old_model),
		TEST(test_old_twin),
		TEST(test_refused),
		TEST(test_bound),
		TEST(test_many_nodes),
		TEST(test_memory),
		TEST(test_gives_way),
		TEST(test_running),
		TEST(test_order),
		TEST(test_blocked),
		TEST(test_blocked_behind_old),
		TEST(test_conditional),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
