/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Long waits that are repeated: around the end that the last one lets expect, the worker is awake
 * and the thread spins. This test is the GPU and the worker.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include "clock.h"
#include "client/util/sleep.h"
#include "client/util/worker_pool.h"
#include "client/stream/timeline.h"
#include "tests/unit/client/fake_link.h"
#include "send.h"

#define MS 1000000ull

static unsigned n_processors, n_wakes, n_watches;
static uint64_t seqno;        /* of the last wait */
static uint64_t wake_reaches; /* the seqno that the worker's wake-up lets come; 0: none */

CUresult send_seqno_write(uint32_t stream, uint64_t value)
{
	(void)stream;
	(void)value;
	return CUDA_SUCCESS;
}

CUresult send_event_record(uint32_t event, uint32_t stream, uint64_t value)
{
	(void)event;
	return send_seqno_write(stream, value);
}

/* The last resort of a wait. */
CUresult send_seqno_watch(uint32_t stream, uint64_t value)
{
	assert_int_equal(stream, STREAM);
	n_watches++;
	reach(value);
	return CUDA_SUCCESS;
}

unsigned worker_pool_processors(void)
{
	return n_processors;
}

void ring_wake(const struct ring_sender *sender)
{
	assert_ptr_equal(sender, &server.sender);
	n_wakes++;
	if (wake_reaches > 0)
		reach(wake_reaches);
}

struct kernel {
	uint64_t seqno, ns;
};

static void *kernel_run(void *user)
{
	const struct kernel *kernel = user;

	sleep_ns(kernel->ns);
	reach(kernel->seqno);
	return NULL;
}

static void wait_once(uint64_t ns)
{
	struct kernel kernel = {++seqno, ns};
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, kernel_run, &kernel), 0);
	assert_int_equal(timeline_wait(&streams[STREAM], seqno), CUDA_SUCCESS);
	assert_true(timeline_reached(&streams[STREAM], seqno));
	pthread_join(thread, NULL);
}

/* A wait for a kernel of this length. On a busy machine it may take longer than any expected wait.
 */
static void wait_for_kernel(uint64_t ns)
{
	uint64_t start_ns;

	do {
		start_ns = now_ns();
		wait_once(ns);
	} while (now_ns() - start_ns > 90 * MS);
}

/* A wait that the worker ends when it is woken. */
static void wait_for_worker(void)
{
	n_wakes = n_watches = 0;
	wake_reaches = ++seqno;
	assert_int_equal(timeline_wait(&streams[STREAM], seqno), CUDA_SUCCESS);
	assert_int_equal(n_wakes, 1);
	assert_int_equal(n_watches, 0);
}

static int start(void **state)
{
	(void)state;
	n_processors = 16;
	n_wakes = n_watches = 0;
	wake_reaches = 0;
	return 0;
}

/* Must be the first test: a thread expects what its last long wait took. */
static void test_repeated(void **state)
{
	(void)state;
	wait_for_kernel(12 * MS);
	assert_int_equal(n_wakes, 0);
	wait_for_worker();
}

/* Other clients need the processors. */
static void test_few_processors(void **state)
{
	(void)state;
	n_processors = 2;
	wait_for_kernel(12 * MS);
	wait_for_kernel(12 * MS);
	assert_int_equal(n_wakes, 0);
}

/* The wait after a shorter one than expected, and after a longer one. */
static void test_changing(void **state)
{
	(void)state;
	wait_for_kernel(20 * MS);
	wait_for_kernel(5 * MS);
	wait_for_kernel(15 * MS);
	wait_for_worker();
}

/* A wait with a deadline does not go on until the end that it expects. */
static void test_deadline(void **state)
{
	CUresult result;

	(void)state;
	wait_for_kernel(15 * MS);
	n_wakes = n_watches = 0;
	result = timeline_wait_until(&streams[STREAM], ++seqno, now_ns() + 5 * MS);
	assert_int_equal(result, CUDA_SUCCESS);
	assert_int_equal(n_wakes, 0);
	assert_int_equal(n_watches, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_repeated, start),
		cmocka_unit_test_setup(test_few_processors, start),
		cmocka_unit_test_setup(test_changing, start),
		cmocka_unit_test_setup(test_deadline, start),
	};

	return cmocka_run_group_tests_name("client_timeline", tests, link_setup, link_teardown);
}
