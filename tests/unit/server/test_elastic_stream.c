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
	assert_false(elastic_stream_has_all(own_stream()));
	share = elastic_stream_wait_graph(harness.session, own_stream(), 5);
	assert_int_not_equal(share, elastic_shares_own(elastic));
	elastic_stream_change(harness.session, own_stream(), elastic_shares_own(elastic));
	assert_true(elastic_stream_has_all(own_stream()));
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
	assert_true(elastic_stream_has_all(own_stream()));
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
	assert_true(elastic_stream_has_all(own_stream()));
	unblock_stream();
}

/* An error of the driver leaves the stream where it is. */
static void test_errors(void **state)
{
	(void)state;
	assert_int_equal(classes_join(harness.session), CLASS_BACKGROUND);
	fake_switches.fail_next = CUDA_ERROR_OUT_OF_MEMORY;
	for (unsigned i = 0; i < 4 && elastic_stream_has_all(own_stream()); i++)
		launch();
	fake_switches.fail_next = 0;
	assert_false(elastic_stream_has_all(own_stream()));
}

/* While any stream is blocked, the stream stays: it may wait for what comes after the launch. */
static void test_blocked(void **state)
{
	(void)state;
	assert_true(block_stream(DEVICES_MAX));
	launch();
	assert_true(elastic_stream_has_all(own_stream()));
	unblock_stream();
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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
