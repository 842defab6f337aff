/* SPDX-License-Identifier: Apache-2.0 */

/* Limits that clients raise, in small steps too, over the counting driver. */

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "../../server/device.h"
#include "../../server/limit.h"
#include "../fuzz/session_harness.h"
#include "../fuzz/fake_cuda.h"
#include "open_session.h"
#include "send.h"

#define KIB ((uint64_t)1 << 10)

static CUresult raise_stack(uint64_t value)
{
	return send_limit_raise(0, CU_LIMIT_STACK_SIZE, value);
}

static uint64_t stack(void)
{
	size_t value = 0;

	assert_int_equal(cuda.cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE), CUDA_SUCCESS);
	return value;
}

/* Before the others: what is raised stays. */
static void test_small_steps(void **state)
{
	unsigned before = fake_calls.limits_set;

	(void)state;
	for (uint64_t value = KIB; value <= 64 * KIB; value += 16) {
		assert_int_equal(raise_stack(value), CUDA_SUCCESS);
		assert_true(stack() >= value && stack() < 2 * value);
	}
	assert_int_equal(fake_calls.limits_set - before, 6);
	assert_int_equal(raise_stack(1), CUDA_SUCCESS);
	assert_int_equal(fake_calls.limits_set - before, 6);
}

/* Where there is no room for twice as much there is for what was asked; but not for steps. */
static void test_little_room(void **state)
{
	unsigned before = fake_calls.limits_set;

	(void)state;
	fake_switches.stack_max = 100 * KIB;
	assert_int_equal(raise_stack(90 * KIB), CUDA_SUCCESS);
	assert_int_equal(stack(), 90 * KIB);
	assert_int_equal(fake_calls.limits_set - before, 2);
	for (uint64_t value = 90 * KIB; value <= 100 * KIB; value += 16)
		assert_int_equal(raise_stack(value),
			value == 90 * KIB ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(raise_stack(UINT64_MAX), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(fake_calls.limits_set - before, 2);
	assert_int_equal(stack(), 90 * KIB);

	/* After a while one may ask again. */
	device_get(0)->stack_refused_s -= 10;
	assert_int_equal(raise_stack(UINT64_MAX), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(raise_stack(UINT64_MAX), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(fake_calls.limits_set - before, 3);
	device_get(0)->stack_refused_s -= 10;
	fake_switches.stack_max = 0;
	assert_int_equal(raise_stack(100 * KIB), CUDA_SUCCESS);
	assert_int_equal(stack(), 128 * KIB);
	assert_int_equal(fake_calls.limits_set - before, 4);
}

/* What a kernel has of its own is a stack too; what was refused is not asked for at each launch. */
static void test_local(void **state)
{
	struct device *device = device_get(0);
	struct session *session = harness.session;
	unsigned before = fake_calls.limits_set;
	uint32_t had = (uint32_t)stack(), more = had + 1;

	(void)state;
	assert_int_equal(limit_cover_local(session, device, had), CUDA_SUCCESS);
	assert_int_equal(fake_calls.limits_set - before, 0);
	assert_int_equal(limit_cover_local(session, device, more), CUDA_SUCCESS);
	assert_true(stack() >= more && stack() < had + had / 4);
	assert_int_equal(fake_calls.limits_set - before, 1);
	assert_int_equal(limit_cover_local(session, device, more), CUDA_SUCCESS);
	assert_int_equal(fake_calls.limits_set - before, 1);

	fake_switches.stack_max = stack();
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(
			limit_cover_local(session, device, 4 * more), CUDA_ERROR_INVALID_VALUE);
		assert_int_equal(fake_calls.limits_set - before, 3);
	}
	fake_switches.stack_max = 0;
	device->stack_refused_s -= 10;
	assert_int_equal(limit_cover_local(session, device, 4 * more), CUDA_SUCCESS);
	assert_int_equal(fake_calls.limits_set - before, 4);
}

/* The others hold up nobody, and are memory: as they were asked for. */
static void test_heap(void **state)
{
	size_t now = 0;

	(void)state;
	assert_int_equal(
		send_limit_raise(0, CU_LIMIT_MALLOC_HEAP_SIZE, 100000 * KIB), CUDA_SUCCESS);
	assert_int_equal(cuda.cuCtxGetLimit(&now, CU_LIMIT_MALLOC_HEAP_SIZE), CUDA_SUCCESS);
	assert_int_equal(now, 100000 * KIB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_small_steps, open_session, close_session),
		cmocka_unit_test_setup_teardown(test_little_room, open_session, close_session),
		cmocka_unit_test_setup_teardown(test_local, open_session, close_session),
		cmocka_unit_test_setup_teardown(test_heap, open_session, close_session),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
