/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Whoever waits at a gate goes on or gives up, at each row of the table, over a clock that only
 * sleeps and looks move.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "base.h"
#include "server/util/log.h"
#include "server/session/fault.h"
#include "server/session/session.h"
#include "server/schedule/gate.h"

#define MS UINT64_C(1000000)
#define S (1000 * MS)

/* What a look costs; the longest pause between two looks of any row. */
#define LOOK_NS UINT64_C(1000)
#define PAUSE_MAX_NS (10 * MS)

static uint64_t clock_ns, longest_sleep_ns;
static unsigned n_sleeps, n_lines;
static char line[256];
static struct session session;

int __wrap_clock_gettime(clockid_t id, struct timespec *now);
int __wrap_nanosleep(const struct timespec *pause, struct timespec *rest);

int __wrap_clock_gettime(clockid_t id, struct timespec *now)
{
	(void)id;
	*now = (struct timespec){(time_t)(clock_ns / S), (long)(clock_ns % S)};
	return 0;
}

int __wrap_nanosleep(const struct timespec *pause, struct timespec *rest)
{
	uint64_t ns = (uint64_t)pause->tv_sec * S + (uint64_t)pause->tv_nsec;

	(void)rest;
	assert_true(ns > 0);
	clock_ns += ns;
	longest_sleep_ns = MAX(longest_sleep_ns, ns);
	n_sleeps++;
	return 0;
}

void log_line(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	n_lines++;
}

static void on_news(void *arg)
{
	(void)arg;
}

static int set_up(void **state)
{
	static struct page page;

	(void)state;
	session = (struct session){
		.pid = 7, .id = 3, .page = shm_at((uintptr_t)&page), .on_news = on_news};
	clock_ns = S;
	longest_sleep_ns = 0;
	n_sleeps = n_lines = 0;
	fault_forget();
	return 0;
}

/* Waits until the clock has passed `open_ns'. Whether it went on, and when. */
static bool pass(struct gate_wait *wait, uint64_t open_ns)
{
	while (clock_ns < open_ns) {
		clock_ns += LOOK_NS;
		if (!gate_again(wait))
			return false;
	}
	return true;
}

/* What the rows say; 0: no limit. */
static const uint64_t limit_ns[GATES] = {
	[GATE_PRINT] = 200 * MS,
	[GATE_IDLE] = S,
	[GATE_MAPPINGS] = S,
	[GATE_DEFERRED] = S,
	[GATE_ARRAYS] = S,
	[GATE_CLOCK] = S,
};

/* What it waits for comes at any time: it goes on one pause later at the latest. */
static void test_goes_on(void **state)
{
	static const uint64_t after_ns[] = {1, 10000, 100000, MS, 100 * MS, S, 60 * S};

	(void)state;
	for (enum gate gate = 0; gate < GATES; gate++)
		for (unsigned i = 0; i < ARRAY_SIZE(after_ns); i++) {
			struct gate_wait wait = gate_wait(gate, &session);
			uint64_t open_ns = clock_ns + after_ns[i];
			bool goes_on = pass(&wait, open_ns);

			gate_end(&wait);
			assert_true(
				goes_on || (limit_ns[gate] > 0 && after_ns[i] >= limit_ns[gate]));
			assert_true(clock_ns < open_ns + PAUSE_MAX_NS + LOOK_NS);
			assert_false(atomic_load(&session.waits_for_others));
		}
	assert_true(longest_sleep_ns <= PAUSE_MAX_NS);
}

/* What it waits for never comes, and the session ends, or the device is lost. */
static void test_gives_up(void **state)
{
	for (enum gate gate = 0; gate < GATES; gate++)
		for (unsigned is_fault = 0; is_fault < 2; is_fault++) {
			struct gate_wait wait = gate_wait(gate, &session);
			uint64_t lost_ns;

			set_up(state);
			(void)pass(&wait, clock_ns + 10 * S);
			lost_ns = clock_ns;
			atomic_store(&session.is_ending, !is_fault);
			if (is_fault)
				fault_note(&session, CUDA_ERROR_LAUNCH_FAILED);
			assert_true(gate_is_over(&wait));
			assert_false(pass(&wait, UINT64_MAX));
			assert_true(clock_ns <= lost_ns + PAUSE_MAX_NS + LOOK_NS);
			gate_end(&wait);
		}
}

/* A wait that has to outlive the end of its session gives up only when the device is lost. */
static void test_ignores_end(void **state)
{
	struct gate_wait wait = gate_wait(GATE_REST, &session);

	(void)state;
	wait.ignores_end = true;
	atomic_store(&session.is_ending, true);
	assert_true(pass(&wait, clock_ns + 10 * S));
	fault_note(&session, CUDA_ERROR_LAUNCH_FAILED);
	assert_false(pass(&wait, UINT64_MAX));
}

static void check_limit(struct gate_wait *wait, uint64_t end_ns)
{
	assert_false(pass(wait, UINT64_MAX));
	assert_in_range(clock_ns, end_ns, end_ns + PAUSE_MAX_NS + LOOK_NS);
}

/* A limit ends a wait; that of a gate only this part of it. */
static void test_limits(void **state)
{
	(void)state;
	for (enum gate gate = 0; gate < GATES; gate++) {
		struct gate_wait wait = gate_wait(gate, NULL);

		gate_next(&wait, gate, clock_ns + 50 * MS);
		check_limit(&wait, clock_ns + 50 * MS);
		assert_false(gate_is_over(&wait));
		gate_next(&wait, gate, 0);
		wait.end_ns = clock_ns + 70 * MS;
		check_limit(&wait, clock_ns + 70 * MS);
		assert_true(gate_is_over(&wait));
	}
}

static void test_limits_of_rows(void **state)
{
	(void)state;
	for (enum gate gate = 0; gate < GATES; gate++) {
		struct gate_wait wait = gate_wait(gate, &session);

		if (limit_ns[gate] == 0)
			continue;
		check_limit(&wait, clock_ns + limit_ns[gate]);
		assert_false(gate_is_over(&wait));
	}
}

/* Many looks at first, few later: no wait takes a processor. */
static void test_looks(void **state)
{
	for (enum gate gate = 0; gate < GATES; gate++) {
		struct gate_wait wait = gate_wait(gate, &session);

		set_up(state);
		assert_true(pass(&wait, clock_ns + 50 * MS));
		assert_in_range(n_sleeps, 5, 50 * MS / 20000);
		gate_look_soon(&wait);
		assert_true(gate_again(&wait));
		gate_end(&wait);
	}
}

/* The time counts for MPS_GRACE_MS unless the session waits for others. */
static void test_waits_for_others(void **state)
{
	struct gate_wait wait = gate_wait(GATE_LOOP, &session);

	(void)state;
	assert_true(gate_again(&wait));
	assert_true(atomic_load(&session.waits_for_others));
	gate_end(&wait);
	assert_false(atomic_load(&session.waits_for_others));
	wait = gate_wait(GATE_BLOCKED, &session);
	assert_true(gate_again(&wait));
	assert_false(atomic_load(&session.waits_for_others));
	gate_end(&wait);
}

/* Once, after a second, whichever gates it has passed. */
static void test_says(void **state)
{
	struct gate_wait wait = gate_wait(GATE_WORK, &session);

	(void)state;
	assert_true(gate_again(&wait));
	gate_next(&wait, GATE_LOOP, 0);
	for (unsigned i = 0; i < 3; i++) {
		gate_say_held_up(&wait, 9, 5);
		assert_int_equal(n_lines, 0);
		assert_true(pass(&wait, clock_ns + 300 * MS));
	}
	assert_true(pass(&wait, clock_ns + 200 * MS));
	gate_say_held_up(&wait, 9, 5);
	gate_say_held_up(&wait, 9, 6);
	assert_int_equal(n_lines, 1);
	assert_string_equal(line, "Client {PID: 7, Context ID: 3} is held up by client {PID: 9, "
				  "Context ID: 5}, a graph of which has a loop on the GPU");
	gate_end(&wait);
}

/* The server's own wait has no client to name. */
static void test_says_nothing(void **state)
{
	struct gate_wait wait = gate_wait(GATE_EXCLUSIVE, NULL);

	(void)state;
	assert_true(pass(&wait, clock_ns + 5 * S));
	gate_say_held_up(&wait, 9, 5);
	assert_int_equal(n_lines, 0);
	gate_end(&wait);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_goes_on, set_up),
		cmocka_unit_test_setup(test_gives_up, set_up),
		cmocka_unit_test_setup(test_ignores_end, set_up),
		cmocka_unit_test_setup(test_limits, set_up),
		cmocka_unit_test_setup(test_limits_of_rows, set_up),
		cmocka_unit_test_setup(test_looks, set_up),
		cmocka_unit_test_setup(test_waits_for_others, set_up),
		cmocka_unit_test_setup(test_says, set_up),
		cmocka_unit_test_setup(test_says_nothing, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
