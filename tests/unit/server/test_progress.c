/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Seqnos, for which threads of the client wait: the server writes each, whatever fails.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "open_session.h"

#define MIB (1ull << 20)
#define STREAM_A DEVICES_MAX

static uint64_t alloc(uint64_t size)
{
	uint64_t address = 0;

	assert_int_equal(send_memory_alloc(0, size, &address), CUDA_SUCCESS);
	return address;
}

/* Serves all messages; returns the error. */
static CUresult settle(void)
{
	harness_serve();
	return harness_late_error();
}

/* The client waits for seqnos whose stream or event the server had no memory to create. */
static void test_seqnos_without_objects(void **state)
{
	uint64_t a = alloc(MIB);

	(void)state;
	send_fill(0, a, 1, 1, 1, 0, 1);
	send_event_record(1, 0, 1);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_HANDLE);
	assert_true(harness_wait(0, 1));
	send_seqno_write(STREAM_A, 2);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_HANDLE);
	assert_true(harness_wait(STREAM_A, 2));
	send_event_create(1, 0);
	send_event_record(1, STREAM_A, 3);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_HANDLE);
	assert_true(harness_wait(STREAM_A, 3));
	/* A stream with that ID continues. */
	send_stream_create(STREAM_A, 0, 0, 0);
	send_event_record(1, STREAM_A, 4);
	assert_int_equal(settle(), CUDA_SUCCESS);
	assert_true(harness_wait(STREAM_A, 4));
}

/* A seqno is written even if the driver refuses to write it. */
static void test_seqno_write_fails(void **state)
{
	uint64_t a = alloc(MIB);

	(void)state;
	send_fill(0, a, 1, 1, 1, 0, 1);
	settle();
	fake_switches.fail_next = CUDA_ERROR_UNKNOWN;
	send_seqno_write(0, 1);
	assert_true(harness_wait(0, 1));
	assert_int_equal(settle(), CUDA_ERROR_UNKNOWN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			test_seqnos_without_objects, open_session, close_session),
		cmocka_unit_test_setup_teardown(
			test_seqno_write_fails, open_session, close_session),
	};

	return cmocka_run_group_tests_name("server progress", tests, NULL, NULL);
}
