/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The store of evicted bytes, over the counting driver: that it is full, and what idle workers make
 * in advance.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "clock.h"
#include "open_session.h"
#include "server/device/device.h"
#include "server/share/eviction.h"
#include "server/share/host_store.h"
#include "server/memory/away.h"

#define MIB ((uint64_t)1 << 20)
#define STORE_MIB "512"

static int start(void **state)
{
	(void)state;
	setenv("MPS_OVERSUBSCRIBE_HOST", STORE_MIB, 1);
	fake_cuda_start();
	eviction_init();
	return 0;
}

static int open_big_session(void **state)
{
	int r = open_session(state);

	harness.session->limits.oversubscribe = OVERSUBSCRIBE_YES;
	return r;
}

static uint64_t alloc(uint64_t size)
{
	uint64_t address = 0;

	assert_int_equal(send_memory_alloc(0, size, &address), CUDA_SUCCESS);
	return address;
}

static void test_full_store(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 6; i++)
		alloc(100 * MIB);
	away_leave(harness.session);
	assert_int_equal(eviction_bytes(harness.session), 500 * MIB);
	assert_int_equal(harness.session->memory_wanted & WANTED_RETURN, WANTED_RETURN);
	assert_true(away_return(harness.session));
}

/* What comes from another server, and does not fit, makes no piece. */
static void test_too_much(void **state)
{
	struct account *account = harness.session->account;
	const int before = fake_counts.registrations;
	struct stored stored;

	(void)state;
	assert_false(host_store_take_over(account, 513 * MIB, &stored));
	assert_false(host_store_take_over(account, DEVICE_SPACE_END, &stored));
	assert_int_equal(fake_counts.registrations, before);
	assert_true(host_store_take_over(account, 512 * MIB, &stored));
	assert_int_equal(fake_counts.registrations, before + 64);
	host_store_give(&stored);
}

/* While something is away, idle workers make the store large enough for the next move. */
static void test_warm_store(void **state)
{
	struct session *session = harness.session;
	int before = fake_counts.registrations;
	uint64_t freed;

	(void)state;
	alloc(40 * MIB);
	freed = alloc(4 * MIB);
	assert_int_equal(away_warm_store(session), -1);
	away_leave(session);
	assert_int_equal(fake_counts.registrations, before + 6);
	/* Messages come first. */
	send_memory_free(freed);
	assert_true(away_warm_store(session) > 0);
	assert_int_equal(fake_counts.registrations, before + 6);
	assert_int_equal(harness_serve(), 0);
	/* The client may be about to send the next one. */
	eviction_note_idle(session, now_ns() + 1000000000);
	assert_int_equal(away_warm_store(session), 5);
	assert_int_equal(fake_counts.registrations, before + 6);
	eviction_note_idle(session, now_ns() - 6000000);
	for (int n = 7; n <= 11; n++) {
		assert_true(away_warm_store(session) > 0);
		assert_int_equal(fake_counts.registrations, before + n);
	}
	assert_int_equal(away_warm_store(session), -1);
	assert_true(away_return(session));
	assert_int_equal(away_warm_store(session), -1);
	/* Nobody tries again what the driver has refused, before it is needed. */
	alloc(48 * MIB);
	away_leave(session);
	fake_switches.fail_next = CUDA_ERROR_OUT_OF_MEMORY;
	assert_int_equal(away_warm_store(session), -1);
	assert_int_equal(away_warm_store(session), -1);
	assert_int_equal(fake_counts.registrations, before + 11);
}

/* Before the first move, if clients have nearly the whole GPU: a part of the store. */
static void test_warm_in_advance(void **state)
{
	struct device *device = device_get(0);
	uint64_t total = device->facts.total_memory;
	int before = fake_counts.registrations;

	(void)state;
	alloc(44 * MIB);
	assert_int_equal(away_warm_store(harness.session), -1);
	device->facts.total_memory = 48 * MIB;
	while (away_warm_store(harness.session) > 0)
		;
	assert_int_equal(fake_counts.registrations, before + 64 / 8);
	device->facts.total_memory = total;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_big_session, close_session)
	const struct CMUnitTest tests[] = {
		TEST(test_too_much),
		TEST(test_full_store),
		TEST(test_warm_store),
		TEST(test_warm_in_advance),
	};

	return cmocka_run_group_tests(tests, start, NULL);
}
