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
#define TRIES 100

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

static void wait_for_kernel(uint64_t ns)
{
	struct kernel kernel = {++seqno, ns};
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, kernel_run, &kernel), 0);
	assert_int_equal(timeline_wait(&streams[STREAM], seqno), CUDA_SUCCESS);
	assert_true(timeline_reached(&streams[STREAM], seqno));
	pthread_join(thread, NULL);
}

/* A wait that the worker ends when it is woken. Whether it was, and nothing else ended the wait. */
static bool worker_ends_wait(void)
{
	n_wakes = n_watches = 0;
	wake_reaches = ++seqno;
	assert_int_equal(timeline_wait(&streams[STREAM], seqno), CUDA_SUCCESS);
	return n_wakes == 1 && n_watches == 0;
}

/* A thread's waits. False: they were not as expected. */
typedef bool waits_fn(void);

static void *waits_run(void *user)
{
	waits_fn *const *waits = user;

	n_wakes = n_watches = 0;
	wake_reaches = 0;
	return (*waits)() ? user : NULL;
}

/*
 * A thread expects what its last long wait took, so each try has a thread of its own. On a busy
 * machine a wait may take longer than it should: then another try follows.
 */
static void check(unsigned processors, waits_fn *waits)
{
	void *is_expected = NULL;

	n_processors = processors;
	for (unsigned i = 0; i < TRIES && !is_expected; i++) {
		pthread_t thread;

		assert_int_equal(pthread_create(&thread, NULL, waits_run, &waits), 0);
		assert_int_equal(pthread_join(thread, &is_expected), 0);
	}
	assert_non_null(is_expected);
}

static bool waits_repeat(void)
{
	wait_for_kernel(12 * MS);
	return n_wakes == 0 && worker_ends_wait();
}

static void test_repeated(_unused_ void **state)
{
	check(16, waits_repeat);
}

static bool waits_without_wake(void)
{
	wait_for_kernel(12 * MS);
	wait_for_kernel(12 * MS);
	return n_wakes == 0;
}

/* Other clients need the processors. */
static void test_few_processors(_unused_ void **state)
{
	check(2, waits_without_wake);
}

/* The wait after a shorter one than expected, and after a longer one. */
static bool waits_change(void)
{
	wait_for_kernel(20 * MS);
	wait_for_kernel(5 * MS);
	wait_for_kernel(15 * MS);
	return worker_ends_wait();
}

static void test_changing(_unused_ void **state)
{
	check(16, waits_change);
}

static bool wait_with_deadline(void)
{
	CUresult result;

	wait_for_kernel(15 * MS);
	n_wakes = n_watches = 0;
	result = timeline_wait_until(&streams[STREAM], ++seqno, now_ns() + 5 * MS);
	assert_int_equal(result, CUDA_SUCCESS);
	return n_wakes == 0 && n_watches == 1;
}

/* A wait with a deadline does not go on until the end that it expects. */
static void test_deadline(_unused_ void **state)
{
	check(16, wait_with_deadline);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_repeated),
		cmocka_unit_test(test_few_processors),
		cmocka_unit_test(test_changing),
		cmocka_unit_test(test_deadline),
	};

	return cmocka_run_group_tests_name("client_timeline", tests, link_setup, link_teardown);
}
