/* SPDX-License-Identifier: Apache-2.0 */

/* Linking from messages of a client, over the counting driver. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "open_session.h"
#include "tests/fuzz/fake_cuda.h"
#include "tests/fuzz/session_harness.h"
#include "send.h"

static CUresult link_input(uint32_t linker, const void *bytes, uint32_t size)
{
	static uint8_t logs[2 * WIRE_JIT_LOG_MAX];
	const struct jit_option option = {CU_JIT_MAX_REGISTERS, 32};
	uint32_t refusal = 1, filled[2], length = 1, n = 1;
	CUresult result;

	harness_send_image(bytes, size + 1);
	result = send_linker_add(linker, CU_JIT_INPUT_PTX, size, &option, 1, "name", &refusal,
		&filled[0], &filled[1], &length, logs, sizeof(logs), &n);
	return result == CUDA_SUCCESS ? (CUresult)refusal : result;
}

static CUresult link_complete(uint32_t linker, uint64_t *ret_size)
{
	static uint8_t logs[2 * WIRE_JIT_LOG_MAX];
	uint32_t refusal = 1, values[16], filled[2], length = 1, n = 1;
	CUresult result = send_linker_complete(linker, &refusal, ret_size, values, &filled[0],
		&filled[1], &length, logs, sizeof(logs), &n);

	return result == CUDA_SUCCESS ? (CUresult)refusal : result;
}

static void test_linkers(void **state)
{
	static char text[20000];
	const struct jit_option good = {CU_JIT_LOG_VERBOSE, 1}, bad = {CU_JIT_INFO_LOG_BUFFER, 1};
	uint8_t bytes[12288];
	uint64_t size = 0;
	uint32_t n;

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	assert_int_equal(send_linker_create(7, 0, 0, 0, &bad, 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(fake_counts_now().linkers, 0);
	assert_int_equal(send_linker_create(7, 0, WIRE_JIT_LOG_MAX, 100, &good, 1), CUDA_SUCCESS);
	assert_int_equal(send_linker_create(7, 0, 0, 0, &good, 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(send_linker_create(8, 5, 0, 0, &good, 1), CUDA_ERROR_INVALID_CONTEXT);
	/* Nothing is linked yet. */
	assert_int_equal(send_linker_read(7, 0, bytes, sizeof(bytes), &n), CUDA_SUCCESS);
	assert_int_equal(n, 0);
	assert_int_equal(link_input(7, text, sizeof(text) - 1), CUDA_SUCCESS);
	assert_int_equal(link_input(7, "text", 4), CUDA_SUCCESS);
	assert_int_equal(link_complete(7, &size), CUDA_SUCCESS);
	assert_int_equal(size, sizeof(text) - 1 + 4);
	assert_int_equal(send_linker_read(7, 0, bytes, sizeof(bytes), &n), CUDA_SUCCESS);
	assert_int_equal(n, sizeof(bytes));
	assert_int_equal(send_linker_read(7, size - 1, bytes, sizeof(bytes), &n), CUDA_SUCCESS);
	assert_int_equal(n, 1);
	assert_int_equal(send_linker_read(7, UINT64_MAX, bytes, sizeof(bytes), &n), CUDA_SUCCESS);
	assert_int_equal(n, 0);
	assert_int_equal(send_linker_destroy(7), CUDA_SUCCESS);
	assert_int_equal(link_complete(7, &size), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(fake_counts_now().linkers, 0);
	/* A remaining linker ends with its session. */
	assert_int_equal(send_linker_create(9, 0, 0, 0, NULL, 0), CUDA_SUCCESS);
	assert_int_equal(link_input(9, "text", 4), CUDA_SUCCESS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_linkers, open_session, close_session),
	};
	int failed;

	failed = cmocka_run_group_tests(tests, NULL, NULL);
	return failed + fake_counts_now().linkers;
}
