/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Streams of a background session that change their share of SMs, over the counting driver. The
 * foreground session is another one, which has work on the GPU or not.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "background_session.h"
#include "block_stream.h"
#include "server/schedule/background.h"
#include "server/share/session_device.h"
#include "server/stream/elastic_stream.h"
#include "server/stream/stream.h"

static struct stream *own_stream(void)
{
	return &harness.session->devices[0]->null;
}

/* As a launch does it; returns the driver stream that the launch goes to. */
static CUstream launch(void)
{
	struct stream *stream = own_stream();
	CUstream real;

	assert_int_equal(stream_begin(harness.session, stream, &real), CUDA_SUCCESS);
	assert_int_equal(elastic_stream_wait(harness.session, stream, 1), 1);
	elastic_stream_note(harness.session, stream, 1);
	return stream->real;
}

static void test_share(void **state)
{
	CUstream in_share;
	unsigned waits;

	(void)state;
	assert_int_not_equal(harness.session->devices[0]->elastic.n, 0);
	in_share = launch();
	assert_ptr_not_equal(in_share, own_stream()->home);
	assert_true(classes_background(0).groups <= elastic_groups_all(device_get(0)));
	waits = fake_calls.waits;
	assert_ptr_equal(launch(), in_share);
	assert_int_equal(fake_calls.waits, waits);
	/* The foreground pauses: one wait orders the streams. */
	foreground_has_work(false);
	assert_ptr_equal(launch(), own_stream()->home);
	assert_int_equal(fake_calls.waits, waits + 1);
	foreground_has_work(true);
	assert_ptr_equal(launch(), in_share);
	assert_int_equal(fake_calls.waits, waits + 2);
}

/* A graph gets the same share, but its stream changes only if the graph has a twin for it. */
static void test_graph(void **state)
{
	const struct elastic_shares *elastic = &harness.session->devices[0]->elastic;
	unsigned share;

	(void)state;
	launch();
	assert_non_null(elastic_stream_context(own_stream()));
	share = elastic_stream_wait_graph(harness.session, own_stream(), 5);
	assert_int_not_equal(share, elastic_shares_own(elastic));
	elastic_stream_change(harness.session, own_stream(), elastic_shares_own(elastic));
	assert_null(elastic_stream_context(own_stream()));
	foreground_has_work(false);
	assert_int_equal(elastic_stream_wait_graph(harness.session, own_stream(), 5),
		elastic_shares_own(elastic));
}

/* A launch that the driver refuses in a share is made again on all SMs, once. */
static void test_retry(void **state)
{
	(void)state;
	launch();
	assert_false(elastic_stream_has_to_retry(harness.session, own_stream(), CUDA_SUCCESS));
	assert_false(elastic_stream_has_to_retry(
		harness.session, own_stream(), CUDA_ERROR_ILLEGAL_ADDRESS));
	assert_true(elastic_stream_has_to_retry(
		harness.session, own_stream(), CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE));
	assert_null(elastic_stream_context(own_stream()));
	assert_false(elastic_stream_has_to_retry(
		harness.session, own_stream(), CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE));
}

/* ... also while a stream of another client is blocked: the program must not see the share. */
static void test_retry_while_blocked(void **state)
{
	(void)state;
	launch();
	assert_true(block_stream(DEVICES_MAX));
	assert_true(elastic_stream_has_to_retry(
		harness.session, own_stream(), CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE));
	assert_null(elastic_stream_context(own_stream()));
	unblock_stream();
}

/* An error of the driver leaves the stream where it is. */
static void test_errors(void **state)
{
	(void)state;
	assert_int_equal(classes_join(harness.session), CLASS_BACKGROUND);
	fake_switches.fail_next = CUDA_ERROR_OUT_OF_MEMORY;
	for (unsigned i = 0; i < 4 && !elastic_stream_context(own_stream()); i++)
		launch();
	fake_switches.fail_next = 0;
	assert_non_null(elastic_stream_context(own_stream()));
}

/* While any stream is blocked, the stream stays: it may wait for what comes after the launch. */
static void test_blocked(void **state)
{
	(void)state;
	assert_true(block_stream(DEVICES_MAX));
	launch();
	assert_null(elastic_stream_context(own_stream()));
	unblock_stream();
}

static void launch_together(unsigned n)
{
	static const uint32_t one[3] = {1, 1, 1};
	static const uint8_t params[FAKE_PARAM_BYTES];

	for (unsigned i = 0; i < n; i++)
		send_launch(0, 1, one, one, 0, params, sizeof(params));
	assert_int_equal(harness_serve(), 0);
	assert_int_equal(harness_late_error(), CUDA_SUCCESS);
}

/* The fourth batch makes the graph, and the fifth one changes it. */
static void launch_batches(void)
{
	const unsigned graphs = fake_calls.graph_launches;

	for (unsigned i = 0; i < 5; i++)
		launch_together(3);
	assert_int_equal(fake_calls.graph_launches - graphs, 2);
}

/* A launch batch has graphs for the share, and others for all SMs: a node keeps its SMs. */
static void test_batch(void **state)
{
	static const char image[] = ".version 8.0 // an image";
	const unsigned made = fake_calls.nodes_set_green, set = fake_calls.exec_nodes_set_green;
	int32_t attributes[16];

	(void)state;
	harness_send_image(image, sizeof(image));
	assert_int_equal(send_library_load(1, sizeof(image)), CUDA_SUCCESS);
	assert_int_equal(send_library_kernel(1, 1, "kernel", attributes), CUDA_SUCCESS);
	launch_batches();
	assert_non_null(elastic_stream_context(own_stream()));
	assert_int_equal(fake_calls.nodes_set_green - made, 3);
	assert_int_equal(fake_calls.exec_nodes_set_green - set, 3);
	foreground_has_work(false);
	launch_batches();
	assert_null(elastic_stream_context(own_stream()));
	assert_int_equal(fake_calls.nodes_set_green - made, 3);
	assert_int_equal(fake_calls.exec_nodes_set_green - set, 3);
	foreground_has_work(true);
	launch_together(3);
	assert_int_equal(fake_calls.exec_nodes_set_green - set, 6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_share, open_both, close_both),
		cmocka_unit_test_setup_teardown(test_graph, open_both, close_both),
		cmocka_unit_test_setup_teardown(test_retry, open_both, close_both),
		cmocka_unit_test_setup_teardown(test_retry_while_blocked, open_both, close_both),
		cmocka_unit_test_setup_teardown(test_errors, open_both, close_both),
		cmocka_unit_test_setup_teardown(test_blocked, open_both, close_both),
		cmocka_unit_test_setup_teardown(test_batch, open_both, close_both),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
