/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Contexts with shares from messages of a client, over the counting driver: a GPU of 32
 * SMs in four groups.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "open_session.h"
#include "server/share/context_share.h"
#include "server/share/green.h"
#include "server/stream/stream.h"
#include "tests/fuzz/fake_cuda.h"
#include "tests/fuzz/session_harness.h"
#include "send.h"

enum {
	SHARE = 3,
	NULL_STREAM = DEVICES_MAX + 7,
	BLOCKING,
	OTHER,
	GRAPH = 5,
	KERNEL = 6,
};

static uint64_t set_of(uint32_t share)
{
	const struct context_share *found = session_context_share(harness.session, share);

	assert_non_null(found);
	return found->sms.set;
}

static uint32_t make(uint32_t share, uint32_t n_groups)
{
	uint32_t n_sms = 0;

	assert_int_equal(send_context_share_create(share, 0, n_groups, &n_sms), CUDA_SUCCESS);
	return n_sms;
}

/* The error of the messages without a reply. */
static CUresult settle(void)
{
	assert_int_equal(harness_serve(), 0);
	return harness_late_error();
}

/* Shares are disjoint while they fit; a share has at most all SMs of the client. */
static void test_sets(void **state)
{
	uint32_t n_sms;

	(void)state;
	assert_int_equal(make(0, 2), 16);
	assert_int_equal(make(1, 1), 8);
	assert_int_equal(make(2, 1), 8);
	assert_int_equal(set_of(0) | set_of(1) | set_of(2), 0xf);
	assert_int_equal(make(SHARE, UINT32_MAX), 32);
	assert_int_equal(send_context_share_create(SHARE, 0, 1, &n_sms), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(send_context_share_create(4, 5, 1, &n_sms), CUDA_ERROR_INVALID_CONTEXT);
	send_context_share_destroy(1);
	assert_int_equal(settle(), CUDA_SUCCESS);
	assert_null(session_context_share(harness.session, 1));
	assert_int_equal(make(1, 1), 8);
	harness.session->limits.partitioned = UINT64_MAX;
	assert_int_equal(send_context_share_create(4, 0, 1, &n_sms), CUDA_ERROR_NOT_SUPPORTED);
}

/* A part of the client's SMs, not of the GPU's. */
static void test_within(void **state)
{
	struct session_device *sdev = session_device_get(harness.session, 0);
	struct sm_share share = {0};

	(void)state;
	harness.session->limits.active_threads = 50000;
	assert_int_equal(sm_share_take(harness.session, sdev->device, &share), CUDA_SUCCESS);
	sdev->share = share;
	for (uint32_t i = 0; i < 4; i++) {
		struct sm_share part = {0};

		assert_int_equal(
			sm_share_take_part(harness.session, sdev->device, &share, 1 + i % 2, &part),
			CUDA_SUCCESS);
		assert_int_equal(part.set & ~share.set, 0);
		assert_int_equal(part.n_sms, 8 * (1 + i % 2));
		sm_share_give(sdev->device, &part, false);
	}
	sdev->share = (struct sm_share){.context = sdev->device->context, .n_sms = 32};
	sm_share_give(sdev->device, &share, false);
}

/* One NULL stream; a share lives until its streams are destroyed, in any order. */
static void test_streams(void **state)
{
	const struct context_share *share;

	(void)state;
	make(SHARE, 1);
	share = session_context_share(harness.session, SHARE);
	send_context_share_stream(NULL_STREAM, SHARE, CU_STREAM_DEFAULT, true, 0);
	send_context_share_stream(BLOCKING, SHARE, CU_STREAM_DEFAULT, false, 0);
	assert_int_equal(settle(), CUDA_SUCCESS);
	send_context_share_stream(OTHER, SHARE, CU_STREAM_DEFAULT, true, 0);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
	assert_null(harness.session->streams[OTHER]);
	assert_ptr_equal(share->turns.null, harness.session->streams[NULL_STREAM]);
	assert_ptr_equal(harness.session->streams[BLOCKING]->turns, &share->turns);
	assert_int_equal(share->refs, 3);
	send_context_share_destroy(SHARE);
	assert_int_equal(settle(), CUDA_SUCCESS);
	assert_int_equal(share->refs, 2);
	send_stream_destroy(NULL_STREAM);
	assert_int_equal(settle(), CUDA_SUCCESS);
	assert_null(share->turns.null);
	assert_int_equal(share->refs, 1);
	assert_int_equal(fake_counts_now().greens - (int)greens_kept(), 1);
	send_stream_destroy(BLOCKING);
	assert_int_equal(settle(), CUDA_SUCCESS);
	assert_int_equal(fake_counts_now().greens - (int)greens_kept(), 0);
	/* The session's own streams cannot be destroyed. */
	send_stream_destroy(0);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_HANDLE);
	assert_ptr_equal(session_device_get(harness.session, 0)->turns.null,
		&session_device_get(harness.session, 0)->null);
}

static void load(void)
{
	static const char image[] = ".version 7.0\n";
	int32_t attributes[16];
	uint32_t param_bytes, n_params, prints;
	struct param_layout params[8];

	harness_send_image(image, sizeof(image));
	assert_int_equal(send_library_load(0, sizeof(image)), CUDA_SUCCESS);
	assert_int_equal(send_library_kernel(0, KERNEL, "kernel", attributes), CUDA_SUCCESS);
	assert_int_equal(send_kernel_params(KERNEL, &param_bytes, &prints, params, 8, &n_params),
		CUDA_SUCCESS);
}

static void launch(uint32_t stream)
{
	static const uint32_t one[3] = {1, 1, 1};
	static const uint8_t params[FAKE_PARAM_BYTES];

	send_launch(stream, KERNEL, one, one, 0, params, sizeof(params));
}

/* A share's NULL stream and its blocking streams wait for each other, and for no others. */
static void test_turns(void **state)
{
	const struct context_share *share;
	const struct session_device *sdev = session_device_get(harness.session, 0);

	(void)state;
	load();
	make(SHARE, 1);
	share = session_context_share(harness.session, SHARE);
	send_context_share_stream(NULL_STREAM, SHARE, CU_STREAM_DEFAULT, true, 0);
	send_context_share_stream(BLOCKING, SHARE, CU_STREAM_DEFAULT, false, 0);
	send_context_share_stream(OTHER, SHARE, CU_STREAM_NON_BLOCKING, false, 0);
	launch(OTHER);
	launch(BLOCKING);
	assert_int_equal(settle(), CUDA_SUCCESS);
	assert_ptr_equal(share->turns.unjoined, harness.session->streams[BLOCKING]);
	assert_null(harness.session->streams[BLOCKING]->next_unjoined);
	assert_null(sdev->turns.unjoined);
	launch(NULL_STREAM);
	assert_int_equal(settle(), CUDA_SUCCESS);
	assert_null(share->turns.unjoined);
	assert_int_equal(share->turns.serial, 1);
	assert_int_equal(sdev->turns.serial, 0);
	assert_int_equal(harness.session->streams[BLOCKING]->seen_serial, 0);
}

/* When a NULL stream is destroyed, its work has ended: no stream of its context waits for it. */
static void test_null_stream_goes(void **state)
{
	const struct context_share *share;

	(void)state;
	load();
	make(SHARE, 1);
	share = session_context_share(harness.session, SHARE);
	send_context_share_stream(NULL_STREAM, SHARE, CU_STREAM_DEFAULT, true, 0);
	send_context_share_stream(BLOCKING, SHARE, CU_STREAM_DEFAULT, false, 0);
	launch(NULL_STREAM);
	send_stream_destroy(NULL_STREAM);
	settle();
	assert_true(streams_poll(harness.session));
	assert_null(share->turns.null);
	launch(BLOCKING);
	assert_int_equal(settle(), CUDA_SUCCESS);
	assert_null(share->turns.event);
	/* Nor for a new NULL stream before that has work. */
	send_context_share_stream(NULL_STREAM, SHARE, CU_STREAM_DEFAULT, true, 0);
	send_context_share_stream(OTHER, SHARE, CU_STREAM_DEFAULT, false, 0);
	launch(OTHER);
	assert_int_equal(settle(), CUDA_SUCCESS);
	assert_null(share->turns.event);
	launch(NULL_STREAM);
	launch(BLOCKING);
	assert_int_equal(settle(), CUDA_SUCCESS);
	assert_int_equal(harness.session->streams[BLOCKING]->seen_serial, 2);
}

/* A graph that names an unknown share is refused, and the reply names the node. */
static void test_nodes(void **state)
{
	static const uint32_t one[3] = {1, 1, 1}, none[3];
	static uint8_t params[FAKE_PARAM_BYTES];
	const struct context_share *share;
	uint32_t error_node;

	(void)state;
	load();
	make(SHARE, 1);
	share = session_context_share(harness.session, SHARE);
	send_graph_begin(GRAPH, 0);
	send_graph_kernel(
		GRAPH, 0, SHARE, KERNEL, one, one, 0, 0, none, 0, 0, params, sizeof(params));
	assert_int_equal(send_graph_instantiate(GRAPH, 1, 0, &error_node), CUDA_SUCCESS);
	assert_int_equal(share->refs, 2);
	/* A changed node keeps its share; the message's share is ignored. */
	send_graph_kernel(
		GRAPH, 0, SHARE + 1, KERNEL, one, one, 0, 0, none, 0, 0, params, sizeof(params));
	assert_int_equal(send_graph_update_result(GRAPH, &error_node), CUDA_SUCCESS);
	assert_int_equal(share->refs, 2);
	send_context_share_destroy(SHARE);
	send_graph_begin(GRAPH + 1, 0);
	send_graph_empty(GRAPH + 1, 0);
	send_graph_kernel(
		GRAPH + 1, 1, SHARE, KERNEL, one, one, 0, 0, none, 0, 0, params, sizeof(params));
	assert_int_equal(
		send_graph_instantiate(GRAPH + 1, 2, 0, &error_node), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(error_node, 1);
	/* Refused before the handler: no node is named. */
	assert_int_equal(
		send_graph_instantiate(GRAPH + 9, 2, 0, &error_node), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(error_node, UINT32_MAX);
	assert_int_equal(share->refs, 1);
	send_graph_destroy(GRAPH);
	assert_int_equal(settle(), CUDA_SUCCESS);
	assert_int_equal(fake_counts_now().greens - (int)greens_kept(), 0);
}

/* The driver has no memory: nothing is left behind. */
static void test_driver_refuses(void **state)
{
	uint32_t n_sms;

	(void)state;
	fake_switches.fail_next = CUDA_ERROR_OUT_OF_MEMORY;
	assert_int_equal(send_context_share_create(SHARE, 0, 1, &n_sms), CUDA_ERROR_OUT_OF_MEMORY);
	assert_null(session_context_share(harness.session, SHARE));
	assert_int_equal(make(SHARE, 4), 32);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_sets, open_session, close_session),
		cmocka_unit_test_setup_teardown(test_within, open_session, close_session),
		cmocka_unit_test_setup_teardown(test_streams, open_session, close_session),
		cmocka_unit_test_setup_teardown(test_turns, open_session, close_session),
		cmocka_unit_test_setup_teardown(test_null_stream_goes, open_session, close_session),
		cmocka_unit_test_setup_teardown(test_nodes, open_session, close_session),
		cmocka_unit_test_setup_teardown(test_driver_refuses, open_session, close_session),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
