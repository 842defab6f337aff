/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Calls that wait for all work on a GPU, over a counting driver whose GPU has work, which other
 * clients launched, for as long as the test says.
 */

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <cmocka.h>

#include "clock.h"
#include "open_session.h"
#include "server/session/at_work.h"
#include "server/device/device.h"
#include "server/schedule/blocked_streams.h"
#include "server/schedule/closed_gpu.h"
#include "server/schedule/deferred.h"
#include "server/schedule/quiet.h"

#define MS UINT64_C(1000000)

static struct cuda_api real;
static atomic_uint n_records;
static _Atomic uint64_t work_ends_ns;
static atomic_bool has_no_events;

static CUresult record(CUcontext context, CUevent event)
{
	(void)context;
	(void)event;
	atomic_fetch_add(&n_records, 1);
	return atomic_load(&has_no_events) ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}

static CUresult query(CUevent event)
{
	(void)event;
	return now_ns() < atomic_load(&work_ends_ns) ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

static struct device *gpu(void)
{
	return device_get(0);
}

static int open_quiet(void **state)
{
	if (open_session(state) < 0)
		return -1;
	real = cuda;
	cuda.cuCtxRecordEvent = record;
	cuda.cuEventQuery = query;
	atomic_store(&n_records, 0);
	atomic_store(&work_ends_ns, 0);
	atomic_store(&has_no_events, false);
	gpu()->quiet->lasting_ns = 0;
	at_work_change(true);
	return 0;
}

static int close_quiet(void **state)
{
	at_work_change(false);
	cuda = real;
	unsetenv("MPS_DISABLE");
	quiet_start();
	return close_session(state);
}

static bool is_closed(void)
{
	return atomic_load(&gpu()->closed->until_ns) > now_ns() ||
	       atomic_load(&gpu()->closed->lone_until_ns) > now_ns();
}

/* The work of others ends after that time. */
static void work_lasts(uint64_t ns)
{
	atomic_store(&work_ends_ns, now_ns() + ns);
}

static void test_no_work(void **state)
{
	(void)state;
	work_lasts(1000 * MS);
	at_work_change(false);
	assert_true(quiet_call_begin(harness.session, gpu(), 0));
	assert_false(is_closed());
	assert_int_equal(atomic_load(&n_records), 0);
	quiet_call_end(gpu());
	assert_false(closed_any());
	at_work_change(true);
}

static void test_short_work(void **state)
{
	(void)state;
	work_lasts(2 * MS);
	assert_true(quiet_call_begin(harness.session, gpu(), 0));
	assert_true(is_closed());
	assert_true(now_ns() >= atomic_load(&work_ends_ns));
	assert_int_equal(atomic_load(&n_records), 2);
	quiet_call_end(gpu());
	assert_false(closed_any());
}

static void test_all_gpus(void **state)
{
	(void)state;
	work_lasts(2 * MS);
	assert_true(quiet_call_begin(NULL, NULL, 0));
	assert_true(is_closed());
	quiet_call_end(NULL);
	assert_false(closed_any());
}

static void *make_call(void *arg)
{
	bool *may = arg;

	*may = quiet_call_begin(harness.session, gpu(), 0);
	if (*may)
		quiet_call_end(gpu());
	return NULL;
}

static void sleep_ms(long ms)
{
	nanosleep(&(struct timespec){.tv_nsec = 1000000L * ms}, NULL);
}

/* While the work does not end, others may launch, and streams may become blocked. */
static void test_long_work(void **state)
{
	pthread_t thread;
	bool may = false;

	(void)state;
	work_lasts(1000000 * MS);
	assert_int_equal(pthread_create(&thread, NULL, make_call, &may), 0);
	sleep_ms(300);
	assert_int_equal(atomic_load(&n_records), 1);
	assert_false(closed_any());
	assert_true(atomic_load(&harness.session->waits_for_others));
	assert_true(exclusive_call_begin(NULL, 1));
	exclusive_call_end();
	atomic_store(&work_ends_ns, 0);
	pthread_join(thread, NULL);
	assert_true(may);
	assert_false(atomic_load(&harness.session->waits_for_others));
	/* Closed for longer the next time, but not for as long as that work lasted. */
	assert_true(gpu()->quiet->lasting_ns > 100 * MS);
}

/* Work of others follows at once when the GPU is open again. */
static void test_open_for_longer(void **state)
{
	uint64_t start_ns = now_ns();
	pthread_t thread;
	bool may = false;

	(void)state;
	work_lasts(1000000 * MS);
	assert_int_equal(pthread_create(&thread, NULL, make_call, &may), 0);
	sleep_ms(60); /* the thread may start late */
	atomic_store(&work_ends_ns, 0);
	pthread_join(thread, NULL);
	assert_true(may);
	assert_true(now_ns() - start_ns >= 80 * MS);
}

static void test_closed_for_longer(void **state)
{
	uint64_t start_ns = now_ns();

	(void)state;
	gpu()->quiet->lasting_ns = 100 * MS;
	work_lasts(150 * MS);
	assert_true(quiet_call_begin(harness.session, gpu(), 0));
	assert_true(now_ns() - start_ns >= 150 * MS);
	assert_int_equal(atomic_load(&n_records), 2);
	quiet_call_end(gpu());
}

static void test_session_ends(void **state)
{
	pthread_t thread;
	bool may = true;

	(void)state;
	work_lasts(1000000 * MS);
	assert_int_equal(pthread_create(&thread, NULL, make_call, &may), 0);
	sleep_ms(50);
	atomic_store(&harness.session->is_ending, true);
	pthread_join(thread, NULL);
	assert_false(may);
	assert_false(closed_any());
	/* What it calls at its end waits for the work. */
	work_lasts(30 * MS);
	assert_true(quiet_call_begin(harness.session, gpu(), 0));
	assert_true(now_ns() >= atomic_load(&work_ends_ns));
	quiet_call_end(gpu());
	atomic_store(&harness.session->is_ending, false);
}

static void test_limit_of_time(void **state)
{
	uint64_t start_ns = now_ns();

	(void)state;
	work_lasts(1000000 * MS);
	assert_false(quiet_call_begin(harness.session, gpu(), 100));
	assert_true(now_ns() - start_ns >= 100 * MS);
	assert_false(closed_any());
}

static void *wait_open(void *arg)
{
	uint64_t *waited_ns = arg, start_ns = now_ns();

	closed_wait(harness.session, gpu());
	*waited_ns = now_ns() - start_ns;
	return NULL;
}

static void test_workers_wait(void **state)
{
	uint64_t waited_ns = 0;
	pthread_t thread;

	(void)state;
	gpu()->quiet->lasting_ns = 5000 * MS;
	assert_true(quiet_call_begin(NULL, gpu(), 0));
	assert_true(is_closed());
	assert_int_equal(pthread_create(&thread, NULL, wait_open, &waited_ns), 0);
	sleep_ms(50);
	quiet_call_end(gpu());
	pthread_join(thread, NULL);
	assert_true(waited_ns >= 10 * MS);
	/* A call that takes long does not keep the GPU closed. */
	gpu()->quiet->lasting_ns = 0;
	assert_true(quiet_call_begin(NULL, gpu(), 0));
	wait_open(&waited_ns);
	assert_false(is_closed());
	quiet_call_end(gpu());
}

/* No call is made between a worker's look and its launch. */
static void test_waits_for_posts(void **state)
{
	pthread_t thread;
	bool may = false;

	(void)state;
	assert_true(launching_begin(harness.session->launching, gpu()));
	assert_false(quiet_call_begin(NULL, gpu(), 10));
	/* The session's own worker makes the call. */
	assert_true(quiet_call_begin(harness.session, gpu(), 0));
	quiet_call_end(gpu());
	launching_end(harness.session->launching);
	assert_int_equal(pthread_create(&thread, NULL, make_call, &may), 0);
	pthread_join(thread, NULL);
	assert_true(may);
}

static void test_posts_wait(void **state)
{
	uint64_t start_ns = now_ns();

	(void)state;
	gpu()->quiet->lasting_ns = 30 * MS;
	assert_true(quiet_call_begin(NULL, gpu(), 0));
	assert_true(launching_begin(harness.session->launching, gpu()));
	assert_true(now_ns() - start_ns >= 50 * MS);
	launching_end(harness.session->launching);
	quiet_call_end(gpu());
}

static void lone(uint64_t lasts_ns)
{
	assert_true(quiet_lone_begin(harness.session, gpu()));
	assert_true(is_closed());
	/* Its own launch does not wait. */
	closed_wait(harness.session, gpu());
	assert_true(launching_begin(harness.session->launching, gpu()));
	launching_end(harness.session->launching);
	work_lasts(lasts_ns);
	quiet_lone_end(harness.session, gpu());
}

static void *make_calls(void *arg)
{
	atomic_bool *is_done = arg;

	for (unsigned i = 0; i < 3000; i++) {
		assert_true(quiet_call_begin(NULL, gpu(), 0));
		quiet_call_end(gpu());
	}
	atomic_store(is_done, true);
	return NULL;
}

/* No launch is lost, whenever the GPU is closed. */
static void test_posts_beside_calls(void **state)
{
	atomic_bool is_done = false;
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, make_calls, &is_done), 0);
	while (!atomic_load(&is_done)) {
		assert_true(launching_begin(harness.session->launching, gpu()));
		launching_end(harness.session->launching);
	}
	pthread_join(thread, NULL);
}

/* A call that takes long opens the GPU as usual, also beside lone work that has ended. */
static void test_long_call_beside_lone_work(void **state)
{
	uint64_t waited_ns = 0;

	(void)state;
	assert_true(quiet_call_begin(NULL, gpu(), 0));
	lone(0);
	wait_open(&waited_ns);
	assert_true(waited_ns < 5000 * MS);
	quiet_call_end(gpu());
}

/* A client that is killed while it waits launches nothing. */
static void test_ending_session_posts_nothing(void **state)
{
	(void)state;
	gpu()->quiet->lasting_ns = 400 * MS;
	assert_true(quiet_call_begin(NULL, gpu(), 0));
	atomic_store(&harness.session->is_ending, true);
	assert_false(launching_begin(harness.session->launching, gpu()));
	launching_end(harness.session->launching);
	atomic_store(&harness.session->is_ending, false);
	quiet_call_end(gpu());
}

static void test_lone_work(void **state)
{
	uint64_t waited_ns = 0;

	(void)state;
	lone(100 * MS);
	assert_true(is_closed());
	/* Streams may become blocked meanwhile. */
	assert_true(exclusive_call_begin(NULL, 1));
	exclusive_call_end();
	wait_open(&waited_ns);
	assert_true(now_ns() >= atomic_load(&work_ends_ns));
	assert_false(closed_any());
}

/* Closed although no session has work: one may launch at any time. */
static void test_lone_work_alone(void **state)
{
	(void)state;
	at_work_change(false);
	lone(0);
	at_work_change(true);
	assert_true(is_closed());
	closed_wait(harness.session, gpu());
	assert_false(closed_any());
}

static void test_lone_work_follows(void **state)
{
	(void)state;
	lone(50 * MS);
	assert_true(quiet_lone_begin(harness.session, gpu()));
	assert_true(now_ns() >= atomic_load(&work_ends_ns));
	assert_true(is_closed());
	quiet_lone_end(harness.session, gpu());
	closed_wait(harness.session, gpu());
	assert_false(closed_any());
}

static void test_endless_lone_work(void **state)
{
	(void)state;
	lone(1000000 * MS);
	atomic_store(&gpu()->closed->lone_until_ns, now_ns());
	closed_wait(harness.session, gpu());
	assert_false(closed_any());
}

static void test_driver_without_events(void **state)
{
	(void)state;
	atomic_store(&has_no_events, true);
	work_lasts(1000000 * MS);
	assert_true(quiet_call_begin(harness.session, gpu(), 0));
	quiet_call_end(gpu());
	assert_true(quiet_lone_begin(harness.session, gpu()));
	quiet_lone_end(harness.session, gpu());
	assert_false(closed_any());
}

static void test_switched_off(void **state)
{
	(void)state;
	setenv("MPS_DISABLE", "quiet", 1);
	quiet_start();
	work_lasts(1000000 * MS);
	assert_true(quiet_call_begin(harness.session, gpu(), 0));
	assert_int_equal(atomic_load(&n_records), 0);
	quiet_call_end(gpu());
	assert_true(quiet_lone_begin(harness.session, gpu()));
	assert_false(is_closed());
	quiet_lone_end(harness.session, gpu());
	assert_int_equal(atomic_load(&n_records), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_no_work, open_quiet, close_quiet),
		cmocka_unit_test_setup_teardown(test_short_work, open_quiet, close_quiet),
		cmocka_unit_test_setup_teardown(test_all_gpus, open_quiet, close_quiet),
		cmocka_unit_test_setup_teardown(test_long_work, open_quiet, close_quiet),
		cmocka_unit_test_setup_teardown(test_open_for_longer, open_quiet, close_quiet),
		cmocka_unit_test_setup_teardown(test_closed_for_longer, open_quiet, close_quiet),
		cmocka_unit_test_setup_teardown(test_session_ends, open_quiet, close_quiet),
		cmocka_unit_test_setup_teardown(test_limit_of_time, open_quiet, close_quiet),
		cmocka_unit_test_setup_teardown(test_workers_wait, open_quiet, close_quiet),
		cmocka_unit_test_setup_teardown(test_waits_for_posts, open_quiet, close_quiet),
		cmocka_unit_test_setup_teardown(test_posts_wait, open_quiet, close_quiet),
		cmocka_unit_test_setup_teardown(test_posts_beside_calls, open_quiet, close_quiet),
		cmocka_unit_test_setup_teardown(
			test_long_call_beside_lone_work, open_quiet, close_quiet),
		cmocka_unit_test_setup_teardown(
			test_ending_session_posts_nothing, open_quiet, close_quiet),
		cmocka_unit_test_setup_teardown(test_lone_work, open_quiet, close_quiet),
		cmocka_unit_test_setup_teardown(test_lone_work_alone, open_quiet, close_quiet),
		cmocka_unit_test_setup_teardown(test_lone_work_follows, open_quiet, close_quiet),
		cmocka_unit_test_setup_teardown(test_endless_lone_work, open_quiet, close_quiet),
		cmocka_unit_test_setup_teardown(
			test_driver_without_events, open_quiet, close_quiet),
		cmocka_unit_test_setup_teardown(test_switched_off, open_quiet, close_quiet),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
