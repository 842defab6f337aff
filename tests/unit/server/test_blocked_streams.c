/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Which streams count as blocked, over a counting driver whose GPU passes a wait only
 * when the test says so.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "block_stream.h"
#include "open_session.h"
#include "server/session/fault.h"
#include "server/schedule/blocked_streams.h"
#include "server/stream/pending_wait.h"
#include "server/worker.h"
#include "tests/fuzz/fake_cuda.h"
#include "tests/fuzz/session_harness.h"
#include "send.h"

enum {
	WAIT = CU_STREAM_MEM_OP_WAIT_VALUE_32,
	A = DEVICES_MAX,
	B,
	C,
};

static uint64_t word;
static struct cuda_api real;
static unsigned n_writes_fail;

static CUresult write_later(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags)
{
	(void)stream;
	(void)address;
	(void)value;
	(void)flags;
	if (n_writes_fail == 0)
		return CUDA_SUCCESS;
	n_writes_fail--;
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static int open_blocked(void **state)
{
	if (open_session(state) < 0 || send_memory_alloc(0, 4096, &word) != CUDA_SUCCESS)
		return -1;
	for (uint32_t stream = A; stream <= C; stream++)
		send_stream_create(stream, 0, CU_STREAM_NON_BLOCKING, 0);
	real = cuda;
	cuda.cuStreamBatchMemOp_v2 = block_wait;
	cuda.cuStreamWriteValue64_v2 = write_later;
	n_writes_fail = 0;
	return 0;
}

static int close_blocked(void **state)
{
	cuda = real;
	return close_session(state);
}

static CUresult wait_for(uint32_t stream, uint64_t address)
{
	const struct memory_op op = {.operation = WAIT, .address = address, .value = 1};

	send_memory_ops(stream, &op, 1);
	harness_serve();
	return harness_late_error();
}

static void pass(uint32_t stream)
{
	shm_store64(&harness.session->page->passed[stream],
		harness.session->pending_waits->last_serial);
}

static bool is_blocked(uint32_t stream)
{
	return blocked_contains(harness.session, stream);
}

/* A later operation that fails does not end the wait. */
static void test_failures_end_no_wait(void **state)
{
	(void)state;
	assert_int_equal(wait_for(A, word), CUDA_SUCCESS);
	assert_true(is_blocked(A));
	assert_int_equal(wait_for(A, word + 2), CUDA_ERROR_INVALID_VALUE);
	assert_true(is_blocked(A));
	pass(A);
	assert_false(is_blocked(A));
	assert_int_equal(wait_for(B, word + 2), CUDA_ERROR_INVALID_VALUE);
	pass(B);
	assert_false(blocked_has(harness.session));
}

/* A stream that waits for a blocked stream is blocked too; waiting for another stream is not. */
static void test_events(void **state)
{
	(void)state;
	send_event_create(1, 0);
	send_event_create(2, 0);
	assert_int_equal(wait_for(A, word), CUDA_SUCCESS);
	send_event_record(1, B, 1);
	send_event_wait(C, 1);
	harness_serve();
	assert_false(is_blocked(C));
	send_event_record(2, A, 1);
	send_event_wait(C, 2);
	harness_serve();
	assert_true(is_blocked(C));
	pass(A);
	assert_true(is_blocked(C));
	pass(C);
	assert_false(blocked_has(harness.session));
}

/* A failed write to the GPU hides for a moment that a stream has passed its wait. */
static void test_passing_is_not_reported(void **state)
{
	(void)state;
	send_event_create(1, 0);
	assert_int_equal(wait_for(A, word), CUDA_SUCCESS);
	send_event_record(1, A, 1);
	n_writes_fail = 2;
	send_event_wait(C, 1);
	harness_serve();
	assert_true(is_blocked(C));
	pass(C);
	assert_false(is_blocked(C));
	n_writes_fail = UINT32_MAX;
	send_event_wait(B, 1);
	harness_serve();
	assert_false(is_blocked(B));
	n_writes_fail = 0;
	assert_true(is_blocked(A));
	pass(A);
	assert_false(blocked_has(harness.session));
}

static const volatile uint32_t *pinned;
static CUresult (*real_query)(CUstream stream);
static bool was_open;

static CUresult query(CUstream stream)
{
	was_open = was_open || *pinned == 1;
	assert_true(was_open || !atomic_load(&harness.session->is_ending));
	return real_query(stream);
}

static void wait_for_host_semaphore(void)
{
	uint64_t region, size, address, start, span;
	uint32_t is_pinned;

	assert_int_equal(send_host_region(1, 0, 0, &region, &size), CUDA_SUCCESS);
	assert_int_equal(
		send_host_alloc(4096, 0, &address, &start, &span, &is_pinned), CUDA_SUCCESS);
	memset((void *)(uintptr_t)start, 0, span);
	assert_int_equal(send_host_pin(0, address), CUDA_SUCCESS);
	pinned = (const volatile uint32_t *)(uintptr_t)address;
	assert_int_equal(wait_for(A, address), CUDA_SUCCESS);
	assert_int_equal(*pinned, 0);
}

/* After a fault no stream waits, and the client may read the semaphore. */
static void test_host_semaphores_stay(void **state)
{
	uint64_t address;

	(void)state;
	wait_for_host_semaphore();
	fake_switches.fail_next = CUDA_ERROR_ILLEGAL_ADDRESS;
	send_memory_alloc(0, 100 << 20, &address);
	assert_int_equal(shm_load32(&harness.session->page->fault), CUDA_ERROR_ILLEGAL_ADDRESS);
	session_end(harness.session);
	assert_int_equal(*pinned, 0);
	assert_int_equal(shm_load32(&harness.session->page->fault), CUDA_ERROR_ILLEGAL_ADDRESS);
	fault_forget();
}

/* A call that holds the driver's lock may wait for it: it is set before any driver call. */
static void test_host_semaphores_are_set_first(void **state)
{
	(void)state;
	wait_for_host_semaphore();
	was_open = false;
	real_query = cuda.cuStreamQuery;
	real.cuStreamQuery = query;
}

/* By then the session has ended. */
static int close_opened(void **state)
{
	int r = close_blocked(state);

	cuda.cuStreamQuery = real_query;
	return r < 0 || !was_open ? -1 : 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			test_failures_end_no_wait, open_blocked, close_blocked),
		cmocka_unit_test_setup_teardown(test_events, open_blocked, close_blocked),
		cmocka_unit_test_setup_teardown(
			test_passing_is_not_reported, open_blocked, close_blocked),
		cmocka_unit_test_setup_teardown(
			test_host_semaphores_stay, open_blocked, close_blocked),
		cmocka_unit_test_setup_teardown(
			test_host_semaphores_are_set_first, open_blocked, close_opened),
	};

	return cmocka_run_group_tests_name("server_blocked_streams", tests, NULL, NULL);
}
