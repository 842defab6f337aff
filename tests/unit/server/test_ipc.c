/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Memory and events with tokens, over the counting driver: which session may open
 * them, and that nothing is left. tests/system/test_memory.py tests it between processes.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "tests/fuzz/fake_cuda.h"
#include "tests/fuzz/session_harness.h"
#include "send.h"

#define MIB (1ull << 20)

static uint64_t heap, memory;

static int open_session(void **state)
{
	uint64_t heap_size, granularity, limits[16];
	int32_t least, greatest;
	uint32_t n_sms;

	(void)state;
	memset(&fake_calls, 0, sizeof(fake_calls));
	fake_switches = (struct fake_switches){.memory = FAKE_MEMORY};
	harness_open(false);
	assert_int_equal(send_device_open(0, 0, 0, &n_sms, &heap, &heap_size, &granularity, &least,
				 &greatest, limits),
		CUDA_SUCCESS);
	assert_int_equal(send_memory_alloc(0, 4 * MIB, &memory), CUDA_SUCCESS);
	return 0;
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

static void test_memory(void **state)
{
	uint64_t token[2], same[2], address, size;
	uint32_t device, is_open = 7;

	(void)state;
	assert_int_equal(
		send_ipc_memory_export(memory, 4 * MIB + 1, token), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(send_ipc_memory_export(memory - 1, 1, token), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(send_ipc_memory_export(UINT64_MAX, 2, token), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(send_ipc_memory_export(memory, MIB, token), CUDA_SUCCESS);
	assert_int_equal(send_ipc_memory_export(memory, MIB, same), CUDA_SUCCESS);
	assert_memory_equal(token, same, sizeof(token));
	assert_int_equal(send_ipc_memory_export(memory, 2 * MIB, same), CUDA_ERROR_INVALID_VALUE);
	/* Neither its owner nor a guessed token can open it. */
	assert_int_equal(
		send_ipc_memory_open(token, &address, &size, &device), CUDA_ERROR_INVALID_CONTEXT);
	same[0] ^= 1;
	assert_int_equal(
		send_ipc_memory_open(same, &address, &size, &device), CUDA_ERROR_INVALID_VALUE);
	send_ipc_memory_close(memory);
	assert_int_equal(settle(), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(send_ipc_memory_end(memory, &is_open), CUDA_SUCCESS);
	assert_int_equal(is_open, 0);
	assert_int_equal(
		send_ipc_memory_open(token, &address, &size, &device), CUDA_ERROR_INVALID_VALUE);
	/* Later memory at that address has another token; it is left for the session's end. */
	assert_int_equal(send_ipc_memory_export(memory, MIB, same), CUDA_SUCCESS);
	assert_memory_not_equal(token, same, sizeof(token));
}

static void test_events(void **state)
{
	uint64_t token[2], same[2];

	(void)state;
	send_event_create(1, 2);
	assert_int_equal(send_ipc_event_query(1), CUDA_SUCCESS);
	assert_int_equal(send_ipc_event_export(1, 1, token), CUDA_ERROR_INVALID_CONTEXT);
	assert_int_equal(send_ipc_event_export(1, 0, token), CUDA_SUCCESS);
	assert_int_equal(send_ipc_event_export(1, 0, same), CUDA_SUCCESS);
	assert_memory_equal(token, same, sizeof(token));
	assert_int_equal(send_ipc_event_open(2, token), CUDA_SUCCESS);
	assert_int_equal(send_ipc_event_open(2, token), CUDA_ERROR_INVALID_VALUE);
	same[1] ^= 1;
	assert_int_equal(send_ipc_event_open(3, same), CUDA_ERROR_INVALID_HANDLE);
	send_event_record(2, 0, 1);
	assert_int_equal(settle(), CUDA_SUCCESS);
	fake_switches.is_busy = true;
	assert_int_equal(send_ipc_event_query(1), CUDA_ERROR_NOT_READY);
	fake_switches.is_busy = false;
	/* Its creator ends first. */
	send_event_destroy(1);
	assert_int_equal(settle(), CUDA_SUCCESS);
	assert_int_equal(send_ipc_event_query(2), CUDA_SUCCESS);
	assert_int_equal(send_ipc_event_open(4, token), CUDA_SUCCESS);
	send_event_destroy(2);
	assert_int_equal(settle(), CUDA_SUCCESS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_memory, open_session, close_session),
		cmocka_unit_test_setup_teardown(test_events, open_session, close_session),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
