/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The depth of background work, over the counting driver: a background session, and a foreground
 * session that has or has not work on the GPU. How long a kernel takes is set here.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "clock.h"
#include "open_session.h"
#include "server/session/at_work.h"
#include "server/session/counting.h"
#include "server/session/session_part.h"
#include "server/schedule/background.h"
#include "server/schedule/classes.h"
#include "server/schedule/elastic.h"
#include "server/share/session_device.h"
#include "server/stream/stream.h"

#define US 1000ull
#define STUCK_NS (100000 * US)

static struct session *other;
static struct background *own;

static void pause_us(unsigned us)
{
	nanosleep(&(struct timespec){.tv_nsec = us * 1000L}, NULL);
}

static struct stream *own_stream(void)
{
	return &harness.session->devices[0]->null;
}

/* As after a launch. */
static void note(unsigned n)
{
	CUstream real;

	assert_int_equal(stream_begin(harness.session, own_stream(), &real), CUDA_SUCCESS);
	background_note(harness.session, own_stream(), n,
		(struct background_use){.groups = 3, .yielded = 250});
}

static void other_has_work(bool has_work)
{
	atomic_store(&other->has_work, has_work);
	at_work_mark(other, 0, has_work ? MARK_WORK : 0);
}

static void open_other(void)
{
	int fds[FRAME_WELCOME_FDS];

	assert_int_equal(session_new(2, NULL, NULL, &other, fds), 0);
	for (unsigned i = 0; i < FRAME_WELCOME_FDS; i++)
		close(fds[i]);
	atomic_store(&other->granted, 1);
	assert_int_equal(classes_join(other), CLASS_FOREGROUND);
	other_has_work(true);
}

static int open_both(void **state)
{
	elastic_init();
	if (open_session(state) != 0)
		return -1;
	harness.session->limits.priority = PRIORITY_BACKGROUND;
	own = harness.session->background;
	assert_int_equal(classes_join(harness.session), CLASS_BACKGROUND);
	open_other();
	return 0;
}

static void close_other(void)
{
	if (!other)
		return;
	classes_part.end(other, false);
	session_free(other);
	other = NULL;
}

static int close_both(void **state)
{
	close_other();
	return close_session(state);
}

/* Kernels of the session that do not end before end_all(). */
static void queue_kernels(unsigned n, uint64_t kernel_ns)
{
	uint64_t number = own->n_watched;

	note(n);
	assert_int_equal(own->n_watched, number + 1);
	shm_store64(&harness.session->page->background[number % BACKGROUND_QUEUED_MAX], 0);
	own->kernel_ns = kernel_ns;
}

static void end_all(void)
{
	for (uint64_t i = own->n_ended; i < own->n_watched; i++)
		shm_store64(&harness.session->page->background[i % BACKGROUND_QUEUED_MAX], i + 1);
}

/* How many of `n' kernels may go, and how long that took. */
static unsigned wait_ns(unsigned n, uint64_t *ret_ns)
{
	uint64_t start_ns = now_ns();
	unsigned n_now = background_wait(harness.session, own_stream(), 1, n);

	*ret_ns = now_ns() - start_ns;
	return n_now;
}

static unsigned wait_for(unsigned n)
{
	uint64_t ns;

	return wait_ns(n, &ns);
}

static void test_short_kernels(void **state)
{
	(void)state;
	own->kernel_ns = 100 * US;
	assert_int_equal(wait_for(4), 4);
	/* 1 ms of them. */
	assert_int_equal(wait_for(32), 10);
	queue_kernels(4, 100 * US);
	/* As many as there is space for; the first ones run meanwhile. */
	assert_in_range(wait_for(32), 6, 10);
}

/* A graph goes as a whole, if there is space for a part of it. */
static void test_graph(void **state)
{
	uint64_t start_ns;

	(void)state;
	own->kernel_ns = 100 * US;
	assert_int_equal(background_wait(harness.session, own_stream(), 50, 50), 50);
	queue_kernels(50, 100 * US);
	start_ns = now_ns();
	assert_int_equal(background_wait(harness.session, own_stream(), 50, 50), 50);
	assert_true(now_ns() - start_ns >= 3000 * US);
}

/* The next launch goes shortly before the last one ends, not behind its end. */
static void test_long_kernel(void **state)
{
	uint64_t ns;

	(void)state;
	queue_kernels(1, 5000 * US);
	assert_int_equal(wait_ns(1, &ns), 1);
	assert_in_range(ns, 3500 * US, STUCK_NS - 1);
	assert_int_equal(own->n_kernels, 1);
}

/* What other threads see of the background work. */
static void test_work_is_published(void **state)
{
	(void)state;
	assert_int_equal(classes_background(0).groups, 0);
	queue_kernels(1, US);
	assert_int_equal(classes_background(0).groups, 3);
	assert_int_equal(classes_background(0).n_noted, 1);
	assert_int_equal(classes_background(1).groups, 0);
	end_all();
	assert_int_equal(classes_background(0).groups, 0);
	assert_int_equal(classes_background(0).n_noted, 1);
}

/* A quarter of the GPU, for the time that the kernels are thought to have taken. */
static void test_yielded(void **state)
{
	(void)state;
	queue_kernels(4, 100 * US);
	background_settle(harness.session, now_ns());
	assert_int_equal(counter_read(harness.session, COUNTER_YIELDED), 0);
	end_all();
	background_settle(harness.session, now_ns());
	assert_int_equal(counter_read(harness.session, COUNTER_YIELDED), own->kernel_ns);
}

/* The observers of a foreground session change with the background sessions. */
static void test_classes(void **state)
{
	(void)state;
	assert_true(classes_are_several(other));
	classes_part.end(harness.session, false);
	assert_false(classes_are_several(other));
	assert_int_equal(classes_join(harness.session), CLASS_BACKGROUND);
	assert_true(classes_are_several(other));
	assert_true(classes_are_several(harness.session));
	assert_int_equal(classes_foreground(0), FOREGROUND_AT_WORK);
	other_has_work(false);
	assert_int_equal(classes_foreground(0), FOREGROUND_IDLE);
	assert_int_equal(classes_foreground(1), FOREGROUND_ABSENT);
}

static void test_depth(void **state)
{
	uint64_t ns;

	(void)state;
	other_has_work(false);
	own->kernel_ns = 400 * US;
	assert_int_equal(wait_ns(9, &ns), 2);
	queue_kernels(2, 400 * US);
	assert_in_range(wait_ns(9, &ns), 1, 2);
	queue_kernels(1, 400 * US);
	queue_kernels(9, 400 * US);
	/* 4.8 ms; they seem to wait for something else. */
	assert_int_equal(wait_ns(9, &ns), 9);
	assert_true(ns >= STUCK_NS);
	assert_int_equal(wait_ns(9, &ns), 9);
	end_all();
	assert_int_equal(wait_ns(1, &ns), 1);
	assert_int_equal(own->n_kernels, 0);
	assert_int_equal(own->n_ended, own->n_watched);
}

/* More launches than are watched at a time wait for the oldest one. */
static void test_many_launches(void **state)
{
	(void)state;
	other_has_work(false);
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < BACKGROUND_QUEUED_MAX; i++)
			queue_kernels(1, 1);
		note(1);
		assert_int_equal(own->n_kernels, BACKGROUND_QUEUED_MAX);
		end_all();
		assert_int_equal(wait_for(1), 1);
		assert_int_equal(own->n_kernels, 0);
	}
}

static void test_time_of_kernels(void **state)
{
	uint64_t ns;

	(void)state;
	other_has_work(false);
	queue_kernels(1, 0);
	assert_int_equal(own->kernel_ns, 0);
	pause_us(1000);
	end_all();
	/* It may have ended long before this look. */
	assert_int_equal(wait_ns(1, &ns), 1);
	assert_in_range(own->kernel_ns, 1, BACKGROUND_FIRST_NS);
	for (unsigned i = 0; i < 20; i++) {
		queue_kernels(1, own->kernel_ns);
		assert_int_equal(wait_ns(1, &ns), 1);
		pause_us(500);
		assert_int_equal(wait_ns(1, &ns), 1);
		end_all();
		assert_int_equal(wait_ns(1, &ns), 1);
	}
	assert_true(own->kernel_ns > 400 * US);
	/* Ends that come at once. */
	for (unsigned i = 0; i < 40; i++) {
		note(1);
		assert_int_equal(wait_ns(1, &ns), 1);
	}
	assert_true(own->kernel_ns < 400 * US);
}

/* A program waits after four launches: no look comes before the wait has ended. */
static void test_ends_between_looks(void **state)
{
	uint64_t ns;

	(void)state;
	other_has_work(false);
	for (unsigned i = 0; i < 10; i++) {
		for (unsigned j = 0; j < 4; j++)
			queue_kernels(1, i == 0 ? 100 * US : own->kernel_ns);
		pause_us(1000);
		end_all();
		assert_int_equal(wait_ns(1, &ns), 1);
		assert_int_equal(own->n_kernels, 0);
	}
	/* They may all have taken 0.25 ms. */
	assert_int_equal(own->kernel_ns, 100 * US);
}

/* ... and the worker looks meanwhile. */
static void test_watch(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		queue_kernels(4, i == 0 ? 100 * US : own->kernel_ns);
		for (unsigned j = 0; j < 10; j++) {
			background_watch(harness.session, own);
			pause_us(100);
		}
		end_all();
		background_watch(harness.session, own);
		assert_int_equal(own->n_kernels, 0);
	}
	assert_true(own->kernel_ns > 200 * US);
}

static void test_no_other(void **state)
{
	(void)state;
	atomic_store(&other->granted, 2);
	own->kernel_ns = 900 * US;
	assert_int_equal(wait_for(7), 7);
	close_other();
	assert_int_equal(wait_for(7), 7);
	note(7);
	assert_int_equal(own->n_watched, 0);
}

static void test_ending(void **state)
{
	uint64_t ns;

	(void)state;
	queue_kernels(9, 900 * US);
	atomic_store(&harness.session->is_ending, true);
	assert_int_equal(wait_ns(7, &ns), 7);
	assert_true(ns < STUCK_NS);
	atomic_store(&harness.session->is_ending, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_short_kernels, open_both, close_both),
		cmocka_unit_test_setup_teardown(test_graph, open_both, close_both),
		cmocka_unit_test_setup_teardown(test_long_kernel, open_both, close_both),
		cmocka_unit_test_setup_teardown(test_work_is_published, open_both, close_both),
		cmocka_unit_test_setup_teardown(test_yielded, open_both, close_both),
		cmocka_unit_test_setup_teardown(test_classes, open_both, close_both),
		cmocka_unit_test_setup_teardown(test_depth, open_both, close_both),
		cmocka_unit_test_setup_teardown(test_many_launches, open_both, close_both),
		cmocka_unit_test_setup_teardown(test_time_of_kernels, open_both, close_both),
		cmocka_unit_test_setup_teardown(test_ends_between_looks, open_both, close_both),
		cmocka_unit_test_setup_teardown(test_watch, open_both, close_both),
		cmocka_unit_test_setup_teardown(test_no_other, open_both, close_both),
		cmocka_unit_test_setup_teardown(test_ending, open_both, close_both),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
