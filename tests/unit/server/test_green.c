/* SPDX-License-Identifier: Apache-2.0 */

/* Green contexts from messages of a client, over the counting driver. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "open_session.h"
#include "server/share/green.h"
#include "tests/fuzz/fake_cuda.h"
#include "tests/fuzz/session_harness.h"
#include "send.h"

#define GPU WIRE_GREENS_MAX
#define REST WIRE_SM_GROUPS_MAX

/* The driver's green contexts, without those that the server keeps for reuse. */
static int n_had(void)
{
	return fake_counts_now().greens - (int)greens_kept();
}

static CUresult make(uint32_t green, uint32_t of, const uint32_t *parts, uint32_t n)
{
	return send_green_create(green, 0, of, 0, 8, 2, parts, n);
}

static void test_divisions(void **state)
{
	struct sm_group groups[WIRE_SM_GROUPS_MAX];
	uint32_t sms[3], rest[3], n_made, n;

	(void)state;
	assert_int_equal(send_sm_resource(0, GPU, sms), CUDA_SUCCESS);
	assert_int_equal(sms[0], 32);
	assert_int_equal(send_sm_resource(5, GPU, sms), CUDA_ERROR_INVALID_CONTEXT);
	assert_int_equal(send_sm_resource(0, 3, sms), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(
		send_sm_split(0, GPU, 0, 9, 0, &n_made, rest, groups, WIRE_SM_GROUPS_MAX, &n),
		CUDA_SUCCESS);
	assert_int_equal(n_made, 2);
	assert_int_equal(n, 0);
	assert_int_equal(
		send_sm_split(0, GPU, 0, 8, 3, &n_made, rest, groups, WIRE_SM_GROUPS_MAX, &n),
		CUDA_SUCCESS);
	assert_int_equal(n_made, 3);
	assert_int_equal(n, 3);
	assert_int_equal(groups[2].count, 8);
	assert_int_equal(rest[0], 8);
	assert_int_equal(
		send_sm_split(0, GPU, 0, 33, 1, &n_made, rest, groups, WIRE_SM_GROUPS_MAX, &n),
		CUDA_ERROR_INVALID_VALUE);
}

static void test_parts(void **state)
{
	const uint32_t both[] = {1, 0}, twice[] = {1, 1}, third = 2, beyond = REST + 1, rest = REST;
	uint32_t sms[3];

	(void)state;
	assert_int_equal(make(0, GPU, twice, 2), CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
	assert_int_equal(make(0, GPU, &third, 1), CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
	assert_int_equal(make(0, GPU, &beyond, 1), CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
	assert_int_equal(send_green_create(0, 0, GPU, 0, 8, 0, both, 1),
		CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
	assert_int_equal(make(0, 1, both, 2), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(n_had(), 0);
	assert_int_equal(make(0, GPU, both, 2), CUDA_SUCCESS);
	assert_int_equal(make(0, GPU, both, 2), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(make(1, GPU, &rest, 1), CUDA_SUCCESS);
	assert_int_equal(make(2, 0, both, 1), CUDA_SUCCESS);
	assert_int_equal(make(3, 2, NULL, 0), CUDA_SUCCESS);
	assert_int_equal(send_sm_resource(0, 0, sms), CUDA_SUCCESS);
	assert_int_equal(sms[0], 16);
	assert_int_equal(send_sm_resource(0, 3, sms), CUDA_SUCCESS);
	assert_int_equal(sms[0], 8);
	assert_int_equal(n_had(), 4);
	/* The driver may refuse. */
	fake_switches.fail_next = CUDA_ERROR_OUT_OF_MEMORY;
	assert_int_equal(make(4, GPU, both, 2), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(make(4, GPU, both, 2), CUDA_SUCCESS);
}

/* The error of messages without a reply. */
static CUresult late_error(void)
{
	assert_int_equal(harness_serve(), 0);
	return harness_late_error();
}

/* A stream keeps its green context, even after that is destroyed. */
static void test_streams(void **state)
{
	const uint32_t part = 0;
	int streams = fake_counts_now().streams;

	(void)state;
	assert_int_equal(make(0, GPU, &part, 1), CUDA_SUCCESS);
	send_green_stream(100, 0, 0);
	send_event_create(1, 0);
	send_event_record(1, 100, 1);
	send_green_destroy(0);
	assert_int_equal(late_error(), CUDA_SUCCESS);
	assert_int_equal(n_had(), 1);
	assert_int_equal(fake_counts_now().streams, streams + 1);
	/* Its number is free. */
	assert_int_equal(make(0, GPU, &part, 1), CUDA_SUCCESS);
	assert_int_equal(n_had(), 2);
	send_green_stream(101, 1, 0);
	assert_int_equal(late_error(), CUDA_ERROR_INVALID_HANDLE);
	send_green_stream(100, 0, 0);
	assert_int_equal(late_error(), CUDA_ERROR_INVALID_VALUE);
	send_stream_destroy(100);
	send_green_destroy(0);
	send_green_destroy(0);
	assert_int_equal(late_error(), CUDA_ERROR_INVALID_HANDLE);
}

/* The driver leaks memory with each green context: the server reuses those of earlier clients. */
static void test_kept(void **state)
{
	const uint32_t first = 0, second = 1;
	unsigned n_calls;
	int n_greens;

	(void)state;
	assert_int_equal(make(0, GPU, &first, 1), CUDA_SUCCESS);
	assert_int_equal(make(1, GPU, &second, 1), CUDA_SUCCESS);
	assert_int_equal(make(2, 0, NULL, 0), CUDA_SUCCESS);
	assert_int_equal(make(3, 1, NULL, 0), CUDA_SUCCESS);
	n_greens = fake_counts_now().greens;
	n_calls = fake_calls.green_creates;
	for (unsigned round = 0; round < 3; round++) {
		for (uint32_t id = 0; id < 4; id++)
			send_green_destroy(id);
		assert_int_equal(make(0, GPU, &first, 1), CUDA_SUCCESS);
		assert_int_equal(make(1, GPU, &second, 1), CUDA_SUCCESS);
		assert_int_equal(make(2, 0, NULL, 0), CUDA_SUCCESS);
		assert_int_equal(make(3, 1, NULL, 0), CUDA_SUCCESS);
	}
	assert_int_equal(fake_counts_now().greens, n_greens);
	assert_int_equal(fake_calls.green_creates, n_calls);
	/* Two equal green contexts are separate. */
	assert_int_equal(make(4, GPU, &first, 1), CUDA_SUCCESS);
	assert_int_equal(n_had(), 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_divisions, open_session, close_session),
		cmocka_unit_test_setup_teardown(test_parts, open_session, close_session),
		cmocka_unit_test_setup_teardown(test_streams, open_session, close_session),
		cmocka_unit_test_setup_teardown(test_kept, open_session, close_session),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
