/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Events that launches record, and edges with ports, from messages of a client, right ones and
 * wrong ones, over the counting driver.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "open_session.h"
#include "tests/fuzz/fake_cuda.h"
#include "tests/fuzz/session_harness.h"
#include "send.h"

enum {
	KERNEL = 1,
	EVENT = 7,
	OTHER_EVENT = 8,
	GRAPH = 5,
	PATIENCE_MS = 20000
};

static const uint32_t none[3], one[3] = {1, 1, 1};
static const uint8_t params[FAKE_PARAM_BYTES];

/* With one kernel. */
static int open_with_kernel(void **state)
{
	static const char image[] = ".version 8.0 // an image";
	int32_t attributes[16];

	memset(&fake_calls, 0, sizeof(fake_calls));
	if (open_session(state) < 0)
		return -1;
	harness_send_image(image, sizeof(image));
	return send_library_load(1, sizeof(image)) == CUDA_SUCCESS &&
			       send_library_kernel(1, KERNEL, "kernel", attributes) == CUDA_SUCCESS
		       ? 0
		       : -1;
}

/* Its result. */
static CUresult launch(uint32_t attr_mask, uint32_t programmatic, uint32_t completion)
{
	send_launch_with(0, KERNEL, one, one, 0, attr_mask, none, 0, 0, programmatic, completion,
		params, sizeof(params));
	harness_serve();
	return harness_late_error();
}

static void test_events(void **state)
{
	static const uint32_t masks[] = {
		WIRE_LAUNCH_ATTR_PROGRAMMATIC_EVENT, WIRE_LAUNCH_ATTR_COMPLETION_EVENT};
	int64_t n_events = fake_counts_now().events;

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(masks); i++) {
		assert_int_equal(launch(masks[i], EVENT, EVENT), CUDA_ERROR_INVALID_HANDLE);
		/* The driver does not record the time, nor an event of several processes. */
		send_event_create(EVENT, CU_EVENT_DEFAULT);
		assert_int_equal(launch(masks[i], EVENT, EVENT), CUDA_ERROR_INVALID_VALUE);
		send_event_destroy(EVENT);
		assert_int_equal(fake_calls.launches, i);
		send_event_create(EVENT, CU_EVENT_DISABLE_TIMING);
		assert_int_equal(launch(masks[i] | WIRE_LAUNCH_ATTR_TRIGGER_AT_START, EVENT, EVENT),
			CUDA_SUCCESS);
		assert_int_equal(fake_calls.launch_events, i + 1);
		send_event_destroy(EVENT);
	}
	assert_int_equal(harness_serve(), 0);
	assert_int_equal(fake_counts_now().events, n_events);
}

static void test_both_events(void **state)
{
	(void)state;
	send_event_create(EVENT, CU_EVENT_DISABLE_TIMING);
	send_event_create(OTHER_EVENT, CU_EVENT_DISABLE_TIMING);
	assert_int_equal(
		launch(WIRE_LAUNCH_ATTR_PROGRAMMATIC_EVENT | WIRE_LAUNCH_ATTR_COMPLETION_EVENT |
				WIRE_LAUNCH_ATTR_SERIALIZATION,
			EVENT, OTHER_EVENT),
		CUDA_SUCCESS);
	assert_int_equal(fake_calls.launch_events, 2);
	/* Without their bits, the IDs have no meaning. */
	assert_int_equal(launch(WIRE_LAUNCH_ATTR_SERIALIZATION, EVENT, 1), CUDA_SUCCESS);
	assert_int_equal(fake_calls.launch_events, 2);
}

/* The result of making a graph of two kernels and an empty node with that edge. */
static CUresult make(struct graph_edge edge)
{
	uint32_t error_node;
	CUresult result;

	send_graph_begin(GRAPH, 0);
	for (uint32_t node = 0; node < 2; node++)
		send_graph_kernel(GRAPH, node, WIRE_CONTEXT_SHARES_MAX, KERNEL, one, one, 0, 0,
			none, 0, 0, params, sizeof(params));
	send_graph_empty(GRAPH, 2);
	send_graph_edges(GRAPH, &edge, 1);
	result = send_graph_instantiate(GRAPH, 3, 0, &error_node);
	assert_int_equal(error_node, result == CUDA_SUCCESS ? UINT32_MAX : edge.to);
	send_graph_destroy(GRAPH);
	assert_int_equal(harness_serve(), 0);
	return result;
}

static void test_edges(void **state)
{
	static const struct graph_edge right[] = {
		{0, 1, 0, 0, 0, 0},
		{0, 1, 1, 0, 1, 0},
		{0, 1, 2, 0, 1, 0},
		{0, 1, 2, 0, 0, 0},
		{0, 2, 2, 0, 0, 0},
	};
	static const struct graph_edge wrong[] = {
		{0, 1, 0, 0, 1, 0},                     /* a type without its port */
		{0, 1, 1, 0, 0, 0}, {0, 1, 3, 0, 0, 0}, /* unknown ports and types */
		{0, 1, 3, 0, 1, 0}, {0, 1, 255, 0, 255, 0}, {0, 1, 1, 0, 2, 0}, {0, 1, 1, 1, 1, 0},
		{0, 1, 0, 0, 0, 1}, {0, 2, 1, 0, 1, 0}, /* nodes that are not kernels */
		{2, 1, 1, 0, 1, 0}, {2, 1, 2, 0, 0, 0}, {0, 3, 1, 0, 1, 0}, /* no nodes */
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(right); i++)
		assert_int_equal(make(right[i]), CUDA_SUCCESS);
	assert_int_equal(fake_calls.programmatic_edges, 2);
	for (unsigned i = 0; i < ARRAY_SIZE(wrong); i++)
		assert_int_equal(make(wrong[i]), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(fake_calls.programmatic_edges, 2);
	/* By the deferred thread. */
	for (unsigned i = 0; i < PATIENCE_MS && fake_counts_now().graphs > 0; i++)
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	assert_int_equal(fake_counts_now().graphs, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_with_kernel, close_session)
	const struct CMUnitTest tests[] = {
		TEST(test_events),
		TEST(test_both_events),
		TEST(test_edges),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
