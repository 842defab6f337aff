/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Disabled nodes of graphs, over the counting driver: the driver does not disable a fill of one
 * row, which writes to the GPU's scratch memory instead, also in twins. What graphs with such
 * nodes compute is a matter of tests/system/test_graph_shares.py.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "background_session.h"
#include "server/device/device.h"
#include "server/share/session_device.h"
#include "server/graph/graph.h"
#include "server/graph/graph_twin.h"

enum {
	GRAPH = 5,
	STREAM = DEVICES_MAX,
	ROW = 0,
	ROWS = 1, /* a fill of several rows */
	COUNT = 16,
	SCRATCH = 0x1000
};

static struct cuda_api real;
static uint64_t memory;
static CUdeviceptr kept_scratch;
static unsigned n_disabled, n_enabled; /* calls that let the driver do so */
static bool refuses;                   /* the driver does not redirect fills */

/* What the driver was told last about ROW in the graph itself, and in any twin. */
static CUDA_MEMSET_NODE_PARAMS own, twin;

static struct graph *graph(void)
{
	return session_graph(harness.session, GRAPH);
}

/* The fake driver has neither function. */
static CUresult set_fill(CUgraphExec exec, _unused_ CUgraphNode node,
	const CUDA_MEMSET_NODE_PARAMS *params, _unused_ CUcontext context)
{
	if (refuses && params->dst == SCRATCH)
		return CUDA_ERROR_INVALID_VALUE;
	*(exec == graph()->real ? &own : &twin) = *params;
	return CUDA_SUCCESS;
}

static CUresult set_enabled(
	_unused_ CUgraphExec exec, _unused_ CUgraphNode node, unsigned is_enabled)
{
	n_enabled += is_enabled != 0;
	n_disabled += is_enabled == 0;
	return CUDA_SUCCESS;
}

static void fill(uint32_t number, uint32_t value, uint64_t rows)
{
	send_graph_fill(GRAPH, number, memory, value, 4, COUNT, 256, rows);
}

static int open_graph(void **state)
{
	uint32_t error_node;

	if (open_both(state) < 0 || send_memory_alloc(0, 4096, &memory) != CUDA_SUCCESS)
		return -1;
	real = cuda;
	kept_scratch = harness.session->devices[0]->device->scratch;
	harness.session->devices[0]->device->scratch = SCRATCH;
	cuda.cuGraphExecMemsetNodeSetParams = set_fill;
	cuda.cuGraphNodeSetEnabled = set_enabled;
	n_disabled = n_enabled = 0;
	refuses = false;
	own = twin = (CUDA_MEMSET_NODE_PARAMS){0};
	send_stream_create(STREAM, 0, CU_STREAM_NON_BLOCKING, 0);
	send_graph_begin(GRAPH, 0);
	fill(ROW, 1, 1);
	fill(ROWS, 1, 2);
	return send_graph_instantiate(GRAPH, 2, 0, &error_node) == CUDA_SUCCESS ? 0 : -1;
}

static int close_graph(void **state)
{
	harness.session->devices[0]->device->scratch = kept_scratch;
	cuda.cuGraphExecMemsetNodeSetParams = real.cuGraphExecMemsetNodeSetParams;
	cuda.cuGraphNodeSetEnabled = real.cuGraphNodeSetEnabled;
	return close_both(state);
}

static void serve(void)
{
	assert_int_equal(harness_serve(), 0);
	assert_int_equal(harness_late_error(), CUDA_SUCCESS);
}

static void enable(uint32_t node, bool is_enabled)
{
	send_graph_enable(GRAPH, node, is_enabled);
	serve();
}

static void launch(void)
{
	send_graph_launch(STREAM, GRAPH);
	serve();
}

/* One element. */
static void expect_scratch(const CUDA_MEMSET_NODE_PARAMS *params)
{
	assert_int_equal(params->dst, SCRATCH);
	assert_int_equal(params->elementSize * params->width * params->height, 4);
}

static void expect_fill(const CUDA_MEMSET_NODE_PARAMS *params, uint32_t value)
{
	assert_int_equal(params->dst, memory);
	assert_int_equal(params->value, value);
	assert_int_equal(params->elementSize, 4);
	assert_int_equal(params->width, COUNT);
	assert_int_equal(params->height, 1);
}

static void test_row(void **state)
{
	(void)state;
	enable(ROW, false);
	expect_scratch(&own);
	enable(ROW, true);
	expect_fill(&own, 1);
	assert_int_equal(n_disabled, 0);
}

static void test_rows(void **state)
{
	(void)state;
	enable(ROWS, false);
	assert_int_equal(n_disabled, 1);
	enable(ROWS, true);
	assert_int_equal(n_enabled, 1);
	assert_int_equal(own.dst, 0);
}

/* The driver checks the change at once, and the fill stays disabled. */
static void test_change(void **state)
{
	(void)state;
	enable(ROW, false);
	fill(ROW, 2, 1);
	serve();
	expect_scratch(&own);
	enable(ROW, true);
	expect_fill(&own, 2);
	assert_int_equal(n_disabled, 0);
}

/* Then the fill is disabled as other nodes are. */
static void test_refused(void **state)
{
	(void)state;
	refuses = true;
	enable(ROW, false);
	assert_int_equal(n_disabled, 1);
	fill(ROW, 2, 1);
	serve();
	expect_fill(&own, 2);
	assert_int_equal(n_enabled, 0);
	enable(ROW, true);
	assert_int_equal(n_enabled, 1);
	expect_fill(&own, 2);
}

static void test_shape(void **state)
{
	uint32_t error_node;

	(void)state;
	fill(ROW, 2, 2);
	assert_int_equal(send_graph_update_result(GRAPH, &error_node), CUDA_ERROR_INVALID_VALUE);
	fill(ROWS, 2, 1);
	assert_int_equal(send_graph_update_result(GRAPH, &error_node), CUDA_ERROR_INVALID_VALUE);
}

static void test_twin(void **state)
{
	(void)state;
	enable(ROW, false);
	launch();
	assert_non_null(graph()->twins->last);
	expect_scratch(&twin);
	fill(ROW, 3, 1);
	serve();
	expect_scratch(&twin);
	enable(ROW, true);
	expect_fill(&twin, 3);
	expect_fill(&own, 3);
	assert_int_equal(n_disabled, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_graph, close_graph)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_row),
		TEST(test_rows),
		TEST(test_change),
		TEST(test_refused),
		TEST(test_shape),
		TEST(test_twin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
