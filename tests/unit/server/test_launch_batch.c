/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Launch batches from rapid launches of a client, over the counting driver.
 *
 *   test_server_launch_batch [BURSTS LAUNCHES]
 *
 * runs only test_many, whose instructions tests/system/test_instructions.py counts.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "block_stream.h"
#include "server/device/device.h"
#include "server/share/cu_limit.h"
#include "tests/fuzz/fake_cuda.h"
#include "tests/fuzz/session_harness.h"
#include "send.h"

#define MIB (1ull << 20)
#define PATIENCE_MS 20000
#define STREAM_A DEVICES_MAX

/* A session with one kernel. */
static int open_session(void **state)
{
	static const char image[] = ".version 8.0 // an image";
	uint64_t heap, heap_size, granularity, limits[16];
	int32_t least, greatest, attributes[16];
	uint32_t n_sms;

	(void)state;
	memset(&fake_calls, 0, sizeof(fake_calls));
	fake_switches = (struct fake_switches){.memory = FAKE_MEMORY};
	harness_open(false);
	if (send_device_open(0, 0, 0, &n_sms, &heap, &heap_size, &granularity, &least, &greatest,
		    limits) != CUDA_SUCCESS)
		return -1;
	harness_send_image(image, sizeof(image));
	return send_library_load(1, sizeof(image)) == CUDA_SUCCESS &&
			       send_library_kernel(1, 1, "kernel", attributes) == CUDA_SUCCESS
		       ? 0
		       : -1;
}

static int close_session(void **state)
{
	(void)state;
	harness_close();
	return 0;
}

static CUresult settle(void)
{
	harness_serve();
	return harness_late_error();
}

/* Launches that the worker finds together; the parameters of the i-th are bytes `first + i'. */
static CUresult launch_run(uint32_t stream, unsigned n, unsigned first)
{
	static const uint32_t one[3] = {1, 1, 1};
	uint8_t params[FAKE_PARAM_BYTES];

	for (unsigned i = 0; i < n; i++) {
		memset(params, (int)(first + i), sizeof(params));
		send_launch(stream, 1, one, one, 0, params, sizeof(params));
	}
	return settle();
}

static void test_batches(void **state)
{
	(void)state;
	/* A length gets a graph from its fourth time on: 10 is 6, 3 and 1. */
	for (unsigned round = 0; round < 5; round++) {
		assert_int_equal(launch_run(0, 10, round), CUDA_SUCCESS);
		assert_int_equal(fake_calls.last_param_sum, (round + 9) * FAKE_PARAM_BYTES);
		assert_int_equal(fake_calls.launches, 10 * (round + 1));
		assert_int_equal(fake_calls.graph_launches, round < 3 ? 0 : 2 * (round - 2));
	}
	assert_int_equal(fake_counts.execs, 2);
	/* The longest batch is sent as soon as it is full. */
	for (unsigned round = 0; round < 4; round++)
		assert_int_equal(launch_run(0, 33, 0), CUDA_SUCCESS);
	assert_int_equal(fake_calls.launches, 50 + 4 * 33);
	assert_int_equal(fake_calls.graph_launches, 5);
	send_library_unload(1);
	assert_int_equal(settle(), CUDA_SUCCESS);
	/* By the deferred thread. */
	for (unsigned i = 0; i < PATIENCE_MS && fake_counts_now().graphs > 0; i++)
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	assert_int_equal(fake_counts_now().execs, 0);
	assert_int_equal(fake_counts_now().graphs, 0);
}

/* Creating or changing a graph may wait for all work on the GPU; a single launch does not. */
static void test_beside_a_wait(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 4; round++)
		assert_int_equal(launch_run(0, 2, 0), CUDA_SUCCESS);
	assert_int_equal(fake_calls.graph_launches, 1);
	assert_true(block_stream(STREAM_A));
	for (unsigned round = 0; round < 5; round++) {
		assert_int_equal(launch_run(0, 2, 0), CUDA_SUCCESS);
		assert_int_equal(launch_run(0, 4, 0), CUDA_SUCCESS);
	}
	assert_int_equal(fake_calls.graph_launches, 1);
	assert_int_equal(fake_calls.launches, 8 + 5 * 6);
	assert_int_equal(fake_counts.execs, 1);
	unblock_stream();
	blocked_forget_all(harness.session);
	assert_int_equal(launch_run(0, 2, 0), CUDA_SUCCESS);
	assert_int_equal(fake_calls.graph_launches, 2);
}

/* In a graph, a kernel that launches kernels would not wait for those of the one before it. */
static void test_parents(void **state)
{
	static const char image[] = ".version 8.0 // call __cudaCDP2LaunchDeviceV2";
	static const uint32_t one[3] = {1, 1, 1};
	const uint8_t params[FAKE_PARAM_BYTES] = {0};
	int32_t attributes[16];

	(void)state;
	harness_send_image(image, sizeof(image));
	assert_int_equal(send_library_load(2, sizeof(image)), CUDA_SUCCESS);
	assert_int_equal(send_library_kernel(2, 2, "parent", attributes), CUDA_SUCCESS);
	for (unsigned round = 0; round < 6; round++) {
		for (unsigned i = 0; i < 4; i++)
			send_launch(0, 2, one, one, 0, params, sizeof(params));
		assert_int_equal(settle(), CUDA_SUCCESS);
	}
	assert_int_equal(fake_calls.launches, 24);
	assert_int_equal(fake_calls.graph_launches, 0);
}

static void test_batch_refused(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 4; round++)
		assert_int_equal(launch_run(0, 2, 0), CUDA_SUCCESS);
	assert_int_equal(fake_calls.graph_launches, 1);
	/* The driver accepts no node for it, but accepts each launch alone. */
	fake_switches.fail_next = CUDA_ERROR_INVALID_VALUE;
	assert_int_equal(launch_run(0, 2, 3), CUDA_SUCCESS);
	assert_int_equal(fake_calls.last_param_sum, 4 * FAKE_PARAM_BYTES);
	assert_int_equal(fake_calls.graph_launches, 1);
	assert_int_equal(fake_calls.launches, 10);
	/* The failure of a single launch is a late error. */
	fake_switches.fail_next = CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
	assert_int_equal(launch_run(0, 1, 0), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
}

static typeof(cuda.cuGraphInstantiateWithFlags) real_instantiate;
static unsigned n_made;

/* Meanwhile another worker lowers the stack. */
static CUresult instantiate_late(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
	if (n_made++ == 0)
		atomic_fetch_add(&device_get(0)->raised->n_stack_lowered, 1);
	return real_instantiate(exec, graph, flags);
}

/* Such a graph could end the context when it is launched (cu_limit.h): it is made again. */
static void test_stack_lowered(void **state)
{
	(void)state;
	real_instantiate = cuda.cuGraphInstantiateWithFlags;
	cuda.cuGraphInstantiateWithFlags = instantiate_late;
	for (unsigned round = 0; round < 5; round++)
		assert_int_equal(launch_run(0, 2, round), CUDA_SUCCESS);
	cuda.cuGraphInstantiateWithFlags = real_instantiate;
	assert_int_equal(n_made, 2);
	assert_int_equal(fake_counts.execs, 1);
	assert_int_equal(fake_calls.graph_launches, 2);
	assert_int_equal(fake_calls.last_param_sum, 5 * FAKE_PARAM_BYTES);
}

static void launch(unsigned n)
{
	static const uint32_t one[3] = {1, 1, 1};
	uint8_t params[FAKE_PARAM_BYTES] = {0};

	for (unsigned i = 0; i < n; i++)
		send_launch(0, 1, one, one, 0, params, sizeof(params));
	harness_serve();
}

/* Launches after a failed one may depend on it, and would cause a fault for all clients. */
static void test_after_a_failure(void **state)
{
	uint64_t a = 0;

	(void)state;
	assert_int_equal(send_memory_alloc(0, MIB, &a), CUDA_SUCCESS);
	assert_int_equal(launch_run(0, 1, 0), CUDA_SUCCESS);
	for (unsigned n = 1; n < 6; n++) {
		unsigned launches = fake_calls.launches, fills = fake_calls.fills;

		fake_switches.fail_next = CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
		launch(1);
		launch(n);
		assert_int_equal(fake_calls.launches, launches);
		send_fill(0, a, 1, 4, 16, 0, 1);
		launch(n);
		assert_int_equal(fake_calls.launches, launches);
		assert_int_equal(fake_calls.fills, fills + 1);
		assert_int_equal(harness_late_error(), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
		assert_int_equal(harness_late_error(), CUDA_SUCCESS);
		assert_int_equal(launch_run(0, n, 0), CUDA_SUCCESS);
		assert_int_equal(fake_calls.launches, launches + n);
	}
	fake_switches.fail_next = CUDA_ERROR_OUT_OF_MEMORY;
	send_fill(0, a, 1, 4, 16, 0, 1);
	launch(1);
	assert_int_equal(fake_calls.launches, 16);
	assert_int_equal(settle(), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(launch_run(0, 1, 0), CUDA_SUCCESS);
}

static void test_batch_order(void **state)
{
	static const uint32_t one[3] = {1, 1, 1};
	uint8_t params[FAKE_PARAM_BYTES] = {0};
	uint64_t a = 0;

	(void)state;
	assert_int_equal(send_memory_alloc(0, MIB, &a), CUDA_SUCCESS);
	send_stream_create(STREAM_A, 0, CU_STREAM_NON_BLOCKING, 0);
	for (unsigned round = 0; round < 8; round++) {
		/* Other streams and other work are between them: three runs of two, none of six. */
		for (unsigned i = 0; i < 6; i++) {
			send_launch(
				i / 2 == 1 ? STREAM_A : 0, 1, one, one, 0, params, sizeof(params));
			if (i == 4)
				send_fill(0, a, 1, 4, 16, 0, 1);
		}
		assert_int_equal(settle(), CUDA_SUCCESS);
	}
	assert_int_equal(fake_calls.launches, 48);
	/* In the last run, the fill separates the two. */
	assert_int_equal(fake_calls.graph_launches, 5 + 5);
	send_stream_destroy(STREAM_A);
	assert_int_equal(settle(), CUDA_SUCCESS);
}

/* A launch and the seqno behind it. */
static void launch_with_seqno(unsigned first, uint64_t seqno)
{
	static const uint32_t one[3] = {1, 1, 1};
	uint8_t params[FAKE_PARAM_BYTES];

	memset(params, (int)first, sizeof(params));
	send_launch(0, 1, one, one, 0, params, sizeof(params));
	send_seqno_write(0, seqno);
	assert_int_equal(settle(), CUDA_SUCCESS);
}

static void launch_and_wait(unsigned first, uint64_t seqno)
{
	launch_with_seqno(first, seqno);
	assert_true(harness_wait(0, seqno));
}

/* The fourth wait says that more will come; the fourth launch from there on has a graph. */
static void test_awaited(void **state)
{
	unsigned graphs;
	uint64_t seqno = 0;

	(void)state;
	/* The server finds the first one before the client waits. */
	assert_int_equal(launch_run(0, 1, 1), CUDA_SUCCESS);
	send_seqno_write(0, ++seqno);
	assert_true(harness_wait(0, seqno));
	for (unsigned i = 2; i <= 12; i++) {
		launch_and_wait(i, ++seqno);
		assert_int_equal(fake_calls.launches, i);
		assert_int_equal(fake_calls.last_param_sum, i * FAKE_PARAM_BYTES);
		assert_int_equal(fake_calls.graph_launches, i < 7 ? 0 : i - 6);
	}
	assert_int_equal(fake_counts.execs, 1);
	/* One without a wait is launched nevertheless, and the next waits are not expected. */
	assert_int_equal(launch_run(0, 1, 20), CUDA_SUCCESS);
	assert_int_equal(fake_calls.launches, 13);
	assert_int_equal(fake_calls.last_param_sum, 20 * FAKE_PARAM_BYTES);
	graphs = fake_calls.graph_launches;
	for (unsigned i = 0; i < 3; i++)
		launch_and_wait(i, ++seqno);
	assert_int_equal(fake_calls.graph_launches, graphs);
	launch_and_wait(3, ++seqno);
	assert_int_equal(fake_calls.graph_launches, graphs + 1);
	/* A failed graph: the launch and the seqno go by themselves. */
	fake_switches.fail_next = CUDA_ERROR_INVALID_VALUE;
	launch_and_wait(4, ++seqno);
	assert_int_equal(fake_calls.graph_launches, graphs + 1);
	assert_int_equal(fake_calls.launches, 18);
	assert_int_equal(fake_calls.last_param_sum, 4 * FAKE_PARAM_BYTES);
}

/* An attempt to make a graph may take long, so a failed one is not repeated at once. */
static void test_no_graph(void **state)
{
	uint64_t seqno = 0;

	(void)state;
	while (seqno < 6)
		launch_and_wait(0, ++seqno);
	fake_switches.fail_next = CUDA_ERROR_OUT_OF_MEMORY;
	for (unsigned i = 0; i < 20; i++)
		launch_and_wait(0, ++seqno);
	assert_int_equal(fake_calls.launches, 26);
	assert_int_equal(fake_calls.graph_launches, 0);
	assert_int_equal(fake_counts.execs, 0);
}

/* What comes behind a held launch instead of its seqno comes after the launch. */
static void test_held(void **state)
{
	static const uint32_t one[3] = {1, 1, 1};
	uint8_t params[FAKE_PARAM_BYTES] = {0};
	uint64_t a = 0, seqno = 0;

	(void)state;
	assert_int_equal(send_memory_alloc(0, MIB, &a), CUDA_SUCCESS);
	send_stream_create(STREAM_A, 0, CU_STREAM_NON_BLOCKING, 0);
	for (unsigned round = 0; round < 8; round++) {
		unsigned launches = fake_calls.launches;

		for (unsigned i = 0; i < 8; i++)
			launch_and_wait(i, ++seqno);
		send_launch(0, 1, one, one, 0, params, sizeof(params));
		if (round & 1)
			send_fill(0, a, 1, 4, 16, 0, 1);
		if (round & 2)
			send_launch(STREAM_A, 1, one, one, 0, params, sizeof(params));
		if (round & 4)
			send_seqno_write(STREAM_A, round);
		send_seqno_write(0, ++seqno);
		assert_int_equal(settle(), CUDA_SUCCESS);
		assert_true(harness_wait(0, seqno));
		assert_int_equal(fake_calls.launches, launches + 9 + !!(round & 2));
	}
	send_stream_destroy(STREAM_A);
	assert_int_equal(settle(), CUDA_SUCCESS);
}

/* Beside a blocked stream, a graph might wait. */
static void test_awaited_beside_a_wait(void **state)
{
	unsigned graphs;
	uint64_t seqno = 0;

	(void)state;
	while (seqno < 8)
		launch_and_wait(0, ++seqno);
	graphs = fake_calls.graph_launches;
	assert_int_not_equal(graphs, 0);
	assert_true(block_stream(STREAM_A));
	for (unsigned i = 0; i < 3; i++)
		launch_with_seqno(0, ++seqno);
	assert_int_equal(fake_calls.graph_launches, graphs);
	unblock_stream();
	blocked_forget_all(harness.session);
	launch_and_wait(0, ++seqno);
	assert_int_equal(fake_calls.graph_launches, graphs + 1);
}

static unsigned many_bursts = 64, many_launches = 16;

static void test_many(void **state)
{
	(void)state;
	for (unsigned i = 0; i < many_bursts; i++)
		assert_int_equal(launch_run(0, many_launches, i), CUDA_SUCCESS);
	assert_int_equal(fake_calls.launches, many_bursts * many_launches);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_session, close_session)

int main(int argc, char **argv)
{
	const struct CMUnitTest many[] = {TEST(test_many)};
	const struct CMUnitTest tests[] = {
		TEST(test_batches),
		TEST(test_beside_a_wait),
		TEST(test_parents),
		TEST(test_batch_refused),
		TEST(test_stack_lowered),
		TEST(test_after_a_failure),
		TEST(test_batch_order),
		TEST(test_awaited),
		TEST(test_no_graph),
		TEST(test_held),
		TEST(test_awaited_beside_a_wait),
		TEST(test_many),
	};

	fake_cuda_start();
	if (argc == 3) {
		many_bursts = (unsigned)atoi(argv[1]);
		many_launches = (unsigned)atoi(argv[2]);
		return cmocka_run_group_tests(many, NULL, NULL);
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
