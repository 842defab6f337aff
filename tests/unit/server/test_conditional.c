/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Conditional nodes from messages of a client, right ones and wrong ones, over the counting
 * driver.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "open_session.h"
#include "server/driver/driver_facts.h"
#include "server/device/device_quota.h"
#include "server/share/context_share.h"
#include "server/share/session_device.h"
#include "server/graph/graph.h"
#include "tests/fuzz/fake_cuda.h"
#include "tests/fuzz/session_harness.h"
#include "send.h"

enum {
	GRAPH = 5,
	SHARE = 3
};

/* A graph with so many conditions. */
static void begin(uint32_t n_conditions)
{
	static const struct graph_condition list[WIRE_GRAPH_CONDITIONS_MAX] = {{1, 1}};

	send_graph_begin(GRAPH, 0);
	if (n_conditions > 0)
		send_graph_conditions(GRAPH, WIRE_CONTEXT_SHARES_MAX, list, n_conditions);
}

static CUresult instantiate(uint32_t n_nodes, uint32_t *ret_error_node)
{
	return send_graph_instantiate(GRAPH, n_nodes, 0, ret_error_node);
}

/* The graph is refused for that node, and ends without a trace. */
static void assert_refused(CUresult why, uint32_t n_nodes, uint32_t node)
{
	uint32_t error_node;

	assert_int_equal(instantiate(n_nodes, &error_node), why);
	assert_int_equal(error_node, node);
	send_graph_destroy(GRAPH);
	assert_int_equal(harness_serve(), 0);
	assert_int_equal(fake_counts_now().graphs, 0);
	assert_int_equal(account_taken(harness.session->account, RESOURCE_GRAPH_NODES), 0);
}

static void conditional(uint32_t node, uint32_t condition, uint32_t n_bodies)
{
	send_graph_conditional(GRAPH, node, condition, CU_GRAPH_COND_TYPE_SWITCH, n_bodies);
}

static void edge(uint32_t from, uint32_t to)
{
	const struct graph_edge one = {.from = from, .to = to};

	send_graph_edges(GRAPH, &one, 1);
}

/* A switch of two bodies; in the second, a node, and a conditional node with a node. */
static void test_nested(void **state)
{
	const struct device_quota *memory;
	uint32_t error_node;

	(void)state;
	begin(2);
	conditional(0, 2, 2);
	send_graph_body(GRAPH, 2);
	send_graph_empty(GRAPH, 1);
	conditional(2, 1, 1);
	send_graph_body(GRAPH, 3);
	send_graph_empty(GRAPH, 3);
	send_graph_body(GRAPH, 0);
	send_graph_empty(GRAPH, 4);
	edge(0, 4);
	edge(1, 2);
	assert_int_equal(instantiate(5, &error_node), CUDA_SUCCESS);
	memory = session_graph(harness.session, GRAPH)->sdev->memory;
	assert_int_equal(quota_used(&memory->quota), 3 * driver_facts()->body_node_memory);
	assert_int_equal(account_taken(harness.session->account, RESOURCE_GRAPH_NODES), 5 + 3);
	/* An executable graph keeps its conditional nodes. */
	conditional(2, 1, 1);
	assert_int_equal(send_graph_update_result(GRAPH, &error_node), CUDA_ERROR_INVALID_VALUE);
	send_graph_empty(GRAPH, 3);
	assert_int_equal(send_graph_update_result(GRAPH, &error_node), CUDA_SUCCESS);
	send_graph_destroy(GRAPH);
	assert_int_equal(harness_serve(), 0);
	harness_close();
	assert_int_equal(fake_counts_now().graphs, 0);
	assert_int_equal(fake_counts_now().execs, 0);
	assert_int_equal(open_session(state), 0);
}

static void test_conditions(void **state)
{
	static const struct graph_condition one = {0, 0};

	(void)state;
	begin(2);
	conditional(0, 3, 1);
	assert_refused(CUDA_ERROR_INVALID_VALUE, 1, 0);
	begin(0);
	conditional(0, 1, 1);
	assert_refused(CUDA_ERROR_INVALID_VALUE, 1, 0);
	/* Once, and before the nodes. */
	begin(1);
	send_graph_conditions(GRAPH, WIRE_CONTEXT_SHARES_MAX, &one, 1);
	assert_refused(CUDA_ERROR_INVALID_VALUE, 0, UINT32_MAX);
	begin(0);
	send_graph_empty(GRAPH, 0);
	send_graph_conditions(GRAPH, WIRE_CONTEXT_SHARES_MAX, &one, 1);
	assert_refused(CUDA_ERROR_INVALID_VALUE, 1, UINT32_MAX);
	begin(0);
	send_graph_conditions(GRAPH, SHARE, &one, 1);
	assert_refused(CUDA_ERROR_INVALID_HANDLE, 0, UINT32_MAX);
}

static void test_bodies(void **state)
{
	(void)state;
	begin(1);
	conditional(0, 1, 1);
	send_graph_body(GRAPH, 2);
	assert_refused(CUDA_ERROR_INVALID_VALUE, 1, UINT32_MAX);
	/* What the driver does not execute in a body. */
	begin(1);
	conditional(0, 1, 1);
	send_graph_body(GRAPH, 1);
	send_graph_call(GRAPH, 1, 0);
	assert_refused(CUDA_ERROR_INVALID_VALUE, 2, 1);
	/* No edge leads into a body. */
	begin(1);
	conditional(0, 1, 1);
	send_graph_body(GRAPH, 1);
	send_graph_empty(GRAPH, 1);
	edge(0, 1);
	assert_refused(CUDA_ERROR_INVALID_VALUE, 2, 1);
}

static void test_bounds(void **state)
{
	(void)state;
	begin(2);
	conditional(0, 1, WIRE_GRAPH_BODIES_MAX);
	conditional(1, 2, 1);
	assert_refused(CUDA_ERROR_OUT_OF_MEMORY, 2, 1);
	begin(WIRE_GRAPH_DEPTH_MAX + 1);
	for (uint32_t i = 0; i <= WIRE_GRAPH_DEPTH_MAX; i++) {
		conditional(i, i + 1, 1);
		send_graph_body(GRAPH, i + 1);
	}
	assert_refused(CUDA_ERROR_INVALID_VALUE, WIRE_GRAPH_DEPTH_MAX + 1, WIRE_GRAPH_DEPTH_MAX);
}

/* One process leaves half to others. A refused graph does not use up its part. */
static void test_nodes_in_bodies(void **state)
{
	const uint32_t n = (uint32_t)resource_of_server(RESOURCE_BODY_NODES)->limit / 2 + 1;
	uint32_t error_node;

	(void)state;
	for (unsigned round = 0; round < 2; round++) {
		begin(1);
		conditional(0, 1, 1);
		send_graph_body(GRAPH, 1);
		for (uint32_t i = 1; i <= n; i++)
			send_graph_empty(GRAPH, i);
		assert_int_equal(instantiate(n + 1, &error_node), CUDA_ERROR_OUT_OF_MEMORY);
		assert_refused(CUDA_ERROR_OUT_OF_MEMORY, n + 1, UINT32_MAX);
	}
	begin(1);
	conditional(0, 1, 1);
	send_graph_body(GRAPH, 1);
	for (uint32_t i = 1; i < n; i++)
		send_graph_empty(GRAPH, i);
	assert_int_equal(instantiate(n, &error_node), CUDA_SUCCESS);
}

static void test_share(void **state)
{
	static const struct graph_condition one = {0, 0};
	const struct context_share *share;
	uint32_t n_sms, error_node;

	(void)state;
	assert_int_equal(send_context_share_create(SHARE, 0, 1, &n_sms), CUDA_SUCCESS);
	share = session_context_share(harness.session, SHARE);
	send_graph_begin(GRAPH, 0);
	send_graph_conditions(GRAPH, SHARE, &one, 1);
	conditional(0, 1, 1);
	assert_int_equal(instantiate(1, &error_node), CUDA_SUCCESS);
	assert_int_equal(share->refs, 2);
	send_context_share_destroy(SHARE);
	assert_int_equal(harness_serve(), 0);
	assert_int_equal(share->refs, 1);
	send_graph_destroy(GRAPH);
	assert_int_equal(harness_serve(), 0);
}

int main(void)
{
	setenv("MPS_CLIENT_HOST_MIB", "1024", 1);
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_session, close_session)
	const struct CMUnitTest tests[] = {
		TEST(test_nested),
		TEST(test_conditions),
		TEST(test_bodies),
		TEST(test_bounds),
		TEST(test_nodes_in_bodies),
		TEST(test_share),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
