/* SPDX-License-Identifier: Apache-2.0 */

/* When the memory that driver calls have freed goes back to the system. */

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <cmocka.h>

#include "client/util/compat.h"
#include "server/session/at_work.h"
#include "server/schedule/deferred.h"

#define PATIENCE_MS 20000
/* By then, a thread with work has begun it. */
#define MOMENT_MS 50

static atomic_uint n_trims, n_done;

int __wrap_malloc_trim(size_t pad);

int __wrap_malloc_trim(size_t pad)
{
	assert_int_equal(pad, 0);
	atomic_fetch_add(&n_trims, 1);
	return 1;
}

static void on_done(struct deferred *deferred)
{
	(void)deferred;
	atomic_fetch_add(&n_done, 1);
}

static void sleep_ms(long ms)
{
	nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

static void wait_for(const atomic_uint *count, unsigned wanted)
{
	for (unsigned ms = 0; atomic_load(count) < wanted && ms < PATIENCE_MS; ms++)
		sleep_ms(1);
	assert_int_equal(atomic_load(count), wanted);
}

static int begin(void **state)
{
	(void)state;
	atomic_store(&n_trims, 0);
	atomic_store(&n_done, 0);
	return deferred_start();
}

static int end(void **state)
{
	(void)state;
	deferred_stop();
	return 0;
}

static void test_at_once_when_idle(void **state)
{
	struct deferred call = {.on_done = on_done};

	(void)state;
	deferred_add(&call);
	wait_for(&n_done, 1);
	wait_for(&n_trims, 1);
	deferred_note_freed();
	wait_for(&n_trims, 2);
	sleep_ms(MOMENT_MS);
	assert_int_equal(atomic_load(&n_trims), 2);
}

static void test_calls_beside_work(void **state)
{
	struct deferred call = {.on_done = on_done};

	(void)state;
	at_work_change(true);
	deferred_add(&call);
	deferred_reclaim();
	wait_for(&n_done, 1);
	sleep_ms(MOMENT_MS);
	assert_int_equal(atomic_load(&n_trims), 0);
	at_work_change(false);
	wait_for(&n_trims, 1);
}

static void test_freed_beside_work(void **state)
{
	(void)state;
	at_work_change(true);
	deferred_note_freed();
	sleep_ms(MOMENT_MS);
	assert_int_equal(atomic_load(&n_trims), 0);
	at_work_change(false);
	wait_for(&n_trims, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_at_once_when_idle, begin, end),
		cmocka_unit_test_setup_teardown(test_calls_beside_work, begin, end),
		cmocka_unit_test_setup_teardown(test_freed_beside_work, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
