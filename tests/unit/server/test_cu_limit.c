/* SPDX-License-Identifier: Apache-2.0 */

/* Limits that clients raise, also in small steps, and their end; over the counting driver. */

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <cmocka.h>

#include "clock.h"
#include "open_session.h"
#include "server/session/at_work.h"
#include "server/session/session.h"
#include "server/device/device.h"
#include "server/device/device_quota.h"
#include "server/schedule/deferred.h"
#include "server/share/cu_limit.h"
#include "server/share/session_device.h"
#include "server/worker.h"
#include "tests/fuzz/fake_cuda.h"
#include "tests/fuzz/session_harness.h"
#include "do_share.h"
#include "send.h"

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)
#define PATIENCE_MS 2000

#define STACK CU_LIMIT_STACK_SIZE
#define PRINTF CU_LIMIT_PRINTF_FIFO_SIZE
#define HEAP CU_LIMIT_MALLOC_HEAP_SIZE

/* The limits of the counting driver, and the heap that a server sets. */
static const uint64_t first[] = {[STACK] = KIB, [PRINTF] = KIB, [HEAP] = 64 * MIB};

static CUresult raise_stack(uint64_t value)
{
	return send_limit_raise(0, STACK, value);
}

static uint64_t now(CUlimit limit)
{
	size_t value = 0;

	assert_int_equal(cuda.cuCtxGetLimit(&value, limit), CUDA_SUCCESS);
	return value;
}

static uint64_t stack(void)
{
	return now(STACK);
}

/* The deferred thread sets it, a moment later. */
static bool becomes(CUlimit limit, uint64_t value)
{
	for (unsigned i = 0; i < PATIENCE_MS && now(limit) != value; i++)
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	return now(limit) == value;
}

/* Raised limits return to their first values. */
static int close_lowered(void **state)
{
	bool is_lowered = true;

	fake_switches.stack_max = 0;
	fake_switches.fixed_limits = 0;
	close_session(state);
	for (unsigned i = 0; i < ARRAY_SIZE(first); i++)
		is_lowered = becomes((CUlimit)i, first[i]) && is_lowered;
	return is_lowered ? 0 : -1;
}

/* Opens another session, which is the test's until end_other(). */
static struct harness open_other(void)
{
	struct harness before = harness;
	uint64_t heap, heap_size, granularity, limits[16];
	int32_t least, greatest;
	uint32_t n_sms;

	harness_open(false);
	assert_int_equal(send_device_open(0, 0, 0, &n_sms, &heap, &heap_size, &granularity, &least,
				 &greatest, limits),
		CUDA_SUCCESS);
	return before;
}

static void end_other(struct harness before)
{
	session_end(harness.session);
	session_clean_up(harness.session);
	close(harness.session->connection);
	close(harness.client);
	device_quotas_unref(harness.session);
	session_free(harness.session);
	harness = before;
}

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

/* If there is no room for twice as much, the requested size still fits; small steps do not. */
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

	/* After a while, another request is possible. */
	device_get(0)->raised->stack_refused_ms -= 10000;
	assert_int_equal(raise_stack(UINT64_MAX), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(raise_stack(UINT64_MAX), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(fake_calls.limits_set - before, 3);
	device_get(0)->raised->stack_refused_ms -= 10000;
	fake_switches.stack_max = 0;
	assert_int_equal(raise_stack(100 * KIB), CUDA_SUCCESS);
	assert_int_equal(stack(), 128 * KIB);
	assert_int_equal(fake_calls.limits_set - before, 4);
}

/* Local memory of a kernel counts as stack; launches do not repeat a refused request. */
static void test_local(void **state)
{
	struct device *device = device_get(0);
	struct session *session = harness.session;
	unsigned before = fake_calls.limits_set;
	uint32_t had = (uint32_t)stack(), more = had + 1;

	(void)state;
	assert_int_equal(cu_limit_cover_local(session, device, had), CUDA_SUCCESS);
	assert_int_equal(fake_calls.limits_set - before, 0);
	assert_int_equal(cu_limit_cover_local(session, device, more), CUDA_SUCCESS);
	assert_true(stack() >= more && stack() < had + had / 4);
	assert_int_equal(fake_calls.limits_set - before, 1);
	assert_int_equal(cu_limit_cover_local(session, device, more), CUDA_SUCCESS);
	assert_int_equal(fake_calls.limits_set - before, 1);

	fake_switches.stack_max = stack();
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(
			cu_limit_cover_local(session, device, 4 * more), CUDA_ERROR_INVALID_VALUE);
		assert_int_equal(fake_calls.limits_set - before, 3);
	}
	fake_switches.stack_max = 0;
	device->raised->stack_refused_ms -= 10000;
	assert_int_equal(cu_limit_cover_local(session, device, 4 * more), CUDA_SUCCESS);
	assert_int_equal(fake_calls.limits_set - before, 4);
}

/* The other limits delay no client, and use memory: they are set as requested. */
static void test_heap(void **state)
{
	(void)state;
	assert_int_equal(send_limit_raise(0, HEAP, 100000 * KIB), CUDA_SUCCESS);
	assert_int_equal(now(HEAP), 100000 * KIB);
}

/* The driver is not called. */
static void test_bounds(void **state)
{
	unsigned before = fake_calls.limits_set;

	(void)state;
	assert_int_equal(
		send_limit_raise(0, PRINTF, PRINTF_BUFFER_MAX + 1), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(send_limit_raise(0, HEAP, DEVICE_HEAP_MAX + 1), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(send_limit_raise(0, HEAP, UINT64_MAX), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(fake_calls.limits_set, before);
	assert_int_equal(send_limit_raise(0, PRINTF, PRINTF_BUFFER_MAX), CUDA_SUCCESS);
	assert_int_equal(send_limit_raise(0, HEAP, DEVICE_HEAP_MAX), CUDA_SUCCESS);
	assert_int_equal(now(PRINTF), PRINTF_BUFFER_MAX);
	assert_int_equal(now(HEAP), DEVICE_HEAP_MAX);
}

/* Down to the highest request of the remaining sessions, whichever session had set it. */
static void test_lowered(void **state)
{
	struct harness before;

	(void)state;
	assert_int_equal(send_limit_raise(0, HEAP, 100 * MIB), CUDA_SUCCESS);
	before = open_other();
	assert_int_equal(send_limit_raise(0, HEAP, 200 * MIB), CUDA_SUCCESS);
	assert_int_equal(send_limit_raise(0, PRINTF, MIB), CUDA_SUCCESS);
	assert_int_equal(raise_stack(20 * KIB), CUDA_SUCCESS);
	assert_int_equal(
		cu_limit_cover_local(harness.session, device_get(0), 30 * KIB), CUDA_SUCCESS);
	assert_int_equal(now(HEAP), 200 * MIB);
	assert_int_equal(stack(), 32 * KIB);
	/* The limit is that high already; it stays for the sessions that need it. */
	assert_int_equal(
		cu_limit_cover_local(before.session, device_get(0), 3 * KIB), CUDA_SUCCESS);
	end_other(before);
	assert_true(becomes(HEAP, 100 * MIB));
	assert_true(becomes(PRINTF, first[PRINTF]));
	assert_true(becomes(STACK, 3 * KIB));
	before = open_other();
	assert_int_equal(raise_stack(2 * KIB), CUDA_SUCCESS);
	end_other(before);
	assert_int_equal(stack(), 3 * KIB);
}

/* The deferred thread counts it after the call. */
static bool was_lowered(const struct device *device, unsigned n)
{
	for (unsigned i = 0; i < PATIENCE_MS && cu_limit_n_stack_lowered(device) != n; i++)
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	return cu_limit_n_stack_lowered(device) == n;
}

/* A graph that was made while the stack was large keeps it until the graph ends. */
static void test_graphs_keep_the_stack(void **state)
{
	struct session_device *sdev = session_device_get(harness.session, 0);
	struct device *device = device_get(0);
	struct harness before = open_other();
	unsigned n_lowered = cu_limit_n_stack_lowered(device);
	bool keeps[2] = {false, false};

	(void)state;
	cu_limit_keep_stack(sdev, &keeps[0]);
	assert_false(keeps[0]);
	assert_int_equal(raise_stack(20 * KIB), CUDA_SUCCESS);
	for (unsigned i = 0; i < 4; i++)
		cu_limit_keep_stack(sdev, &keeps[i % 2]);
	assert_true(keeps[0] && keeps[1]);
	assert_int_equal(raise_stack(50 * KIB), CUDA_SUCCESS);
	assert_false(cu_limit_is_stack_kept(device));
	end_other(before);
	assert_true(cu_limit_is_stack_kept(device));
	assert_true(becomes(STACK, 32 * KIB));
	assert_true(was_lowered(device, n_lowered + 1));
	cu_limit_release_stack(sdev);
	nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
	assert_int_equal(stack(), 32 * KIB);
	cu_limit_release_stack(sdev);
	assert_true(becomes(STACK, first[STACK]));
	assert_true(was_lowered(device, n_lowered + 2));
	assert_int_equal(send_limit_raise(0, STACK, 2 * KIB), CUDA_SUCCESS);
	assert_false(cu_limit_is_stack_kept(device));
}

/* Not while kernels run: a change of the stack waits for them. */
static void test_not_beside_work(void **state)
{
	struct harness before = open_other();
	unsigned n_set;

	(void)state;
	assert_int_equal(raise_stack(20 * KIB), CUDA_SUCCESS);
	at_work_change(true);
	n_set = fake_calls.limits_set;
	end_other(before);
	nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
	assert_int_equal(fake_calls.limits_set, n_set);
	assert_int_equal(stack(), 32 * KIB);
	at_work_change(false);
	assert_true(becomes(STACK, first[STACK]));
}

static _Atomic bool is_working;

static CUresult query_work(_unused_ CUevent event)
{
	return atomic_load(&is_working) ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

static CUresult record_work(_unused_ CUcontext context, _unused_ CUevent event)
{
	return CUDA_SUCCESS;
}

struct raise {
	struct session *session;
	CUresult result;
};

static void *raise_meanwhile(void *arg)
{
	struct raise *raise = arg;

	raise->result = do_limit_raise(raise->session, 0, STACK, 100 * KIB);
	return NULL;
}

/* While a session waits until it may raise the stack, others use the stack that there is. */
static void test_raise_waits_alone(_unused_ void **state)
{
	struct harness before = open_other();
	struct raise raise = {.session = harness.session};
	struct cuda_api real = cuda;
	uint64_t began_ns, took_ns, stack_meanwhile;
	pthread_t thread;

	assert_int_equal(raise_stack(20 * KIB), CUDA_SUCCESS);
	cuda.cuEventQuery = query_work;
	cuda.cuCtxRecordEvent = record_work;
	at_work_change(true);
	atomic_store(&is_working, true);
	assert_int_equal(pthread_create(&thread, NULL, raise_meanwhile, &raise), 0);
	nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
	began_ns = now_ns();
	assert_int_equal(
		cu_limit_cover_local(before.session, device_get(0), 3 * KIB), CUDA_SUCCESS);
	took_ns = now_ns() - began_ns;
	stack_meanwhile = stack();
	atomic_store(&is_working, false);
	pthread_join(thread, NULL);
	at_work_change(false);
	cuda = real;
	assert_int_equal(raise.result, CUDA_SUCCESS);
	assert_true(took_ns < PATIENCE_MS * UINT64_C(1000000));
	assert_int_equal(stack_meanwhile, 32 * KIB);
	assert_int_equal(stack(), 128 * KIB);
	end_other(before);
}

/* A driver whose kernels have used the heap refuses: the limit stays until another session ends. */
static void test_refused(void **state)
{
	struct harness before = open_other();
	unsigned n_set;

	(void)state;
	assert_int_equal(send_limit_raise(0, HEAP, 200 * MIB), CUDA_SUCCESS);
	assert_int_equal(raise_stack(20 * KIB), CUDA_SUCCESS);
	fake_switches.fixed_limits = 1u << HEAP;
	n_set = fake_calls.limits_set;
	end_other(before);
	assert_true(becomes(STACK, first[STACK]));
	assert_int_equal(now(HEAP), 200 * MIB);
	/* Each was tried once. */
	nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
	assert_int_equal(fake_calls.limits_set - n_set, 2);
	fake_switches.fixed_limits = 0;
	before = open_other();
	assert_int_equal(send_limit_raise(0, HEAP, 150 * MIB), CUDA_SUCCESS);
	assert_int_equal(now(HEAP), 200 * MIB);
	end_other(before);
	assert_true(becomes(HEAP, first[HEAP]));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_session, close_lowered)
	const struct CMUnitTest tests[] = {
		TEST(test_small_steps),
		TEST(test_little_room),
		TEST(test_local),
		TEST(test_heap),
		TEST(test_bounds),
		TEST(test_lowered),
		TEST(test_graphs_keep_the_stack),
		TEST(test_not_beside_work),
		TEST(test_raise_waits_alone),
		TEST(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
