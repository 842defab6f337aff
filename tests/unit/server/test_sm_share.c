/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Shares of SMs, over the counting driver: a GPU of 32 SMs in four groups. The limits
 * of operator and client, groups of clients, and what is left over.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "open_session.h"
#include "server/session/group.h"
#include "server/device/device.h"
#include "server/share/green.h"
#include "server/share/sm_share.h"
#include "tests/fuzz/fake_cuda.h"
#include "tests/fuzz/session_harness.h"
#include "send.h"

#define GPU WIRE_GREENS_MAX

static struct sm_share shares[8];
static struct group client_groups[10];

static const struct sm_share *take(
	unsigned i, unsigned group, uint32_t percent, uint32_t asked_percent)
{
	struct session *session = harness.session;

	session->group = group ? &client_groups[group] : NULL;
	session->group_threads = 1000 * percent;
	session->limits.active_threads = 1000 * percent;
	session->active_threads = 1000 * asked_percent;
	shares[i] = (struct sm_share){0};
	assert_int_equal(sm_share_take(session, device_get(0), &shares[i]), CUDA_SUCCESS);
	return &shares[i];
}

static void give(unsigned i)
{
	sm_share_give(device_get(0), &shares[i], false);
}

static int give_all(void **state)
{
	for (unsigned i = 0; i < ARRAY_SIZE(shares); i++)
		give(i);
	harness.session->group = NULL; /* the session has no reference to it */
	return close_session(state);
}

static void test_least_of_both(void **state)
{
	(void)state;
	assert_int_equal(take(0, 0, 100, 100)->n_sms, 32);
	assert_null(shares[0].green);
	assert_ptr_equal(shares[0].context, device_get(0)->context);
	assert_int_equal(take(1, 0, 50, 100)->n_sms, 16);
	assert_int_equal(take(2, 0, 100, 50)->n_sms, 16);
	assert_int_equal(shares[1].set | shares[2].set, 0xf);
	assert_int_equal(take(3, 0, 25, 75)->n_sms, 8);
	assert_int_equal(take(4, 0, 75, 26)->n_sms, 8);
	assert_int_equal(take(5, 0, 1, 1)->n_sms, 8);
	assert_int_equal(take(6, 0, 99, 99)->n_sms, 24);
}

/* One green context for all clients with the same SMs; it is kept when they have left. */
static void test_one_for_the_same(void **state)
{
	unsigned n_calls;

	(void)state;
	for (unsigned i = 0; i < 4; i++)
		take(i, 0, 50, 100);
	assert_ptr_equal(shares[0].green, shares[2].green);
	assert_ptr_equal(shares[1].green, shares[3].green);
	assert_ptr_not_equal(shares[0].green, shares[1].green);
	n_calls = fake_calls.green_creates;
	give(0);
	assert_int_equal(take(0, 0, 50, 100)->set, shares[2].set);
	for (unsigned i = 0; i < 4; i++)
		give(i);
	for (unsigned round = 0; round < 10; round++) {
		take(0, 0, 50, 100);
		take(1, 0, 50, 100);
		give(0);
		give(1);
	}
	assert_int_equal(fake_calls.green_creates, n_calls);
	assert_int_equal(fake_counts_now().greens, (int)greens_kept());
}

static void test_groups(void **state)
{
	(void)state;
	/* Two members of a group have the same SMs; other clients have others. */
	assert_int_equal(take(0, 7, 50, 100)->set, 0x3);
	assert_int_equal(take(1, 7, 50, 100)->set, 0x3);
	assert_int_equal(take(2, 8, 50, 100)->set, 0xc);
	/* A member may request less than its group; another member gets the rest. */
	assert_int_equal(take(3, 7, 50, 25)->set, 0x1);
	assert_int_equal(take(4, 7, 50, 25)->set, 0x2);
	/* The group counts once, while it has members. */
	give(0);
	give(1);
	give(3);
	give(2);
	assert_int_equal(take(2, 0, 50, 100)->set, 0xc);
	give(2);
	give(4);
	assert_int_equal(take(0, 0, 50, 100)->set, 0x3);
	/* With other limits it is like another group. */
	assert_int_equal(take(1, 7, 25, 100)->set, 0x4);
	assert_int_equal(take(2, 7, 25, 100)->set, 0x4);
	/* A group without a limit shares nothing. */
	assert_int_equal(take(3, 9, 100, 25)->set, 0x8);
	assert_int_equal(take(4, 9, 100, 25)->set, 0x1);
}

static void test_driver_refuses(void **state)
{
	struct session *session = harness.session;
	struct sm_share share = {0};

	(void)state;
	session->limits.active_threads = 25000;
	fake_switches.fail_next = CUDA_ERROR_OUT_OF_MEMORY;
	assert_int_equal(sm_share_take(session, device_get(0), &share), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(share.set, 0);
	assert_int_equal(take(0, 0, 25, 100)->set, 0x1);
	assert_int_equal(take(1, 0, 25, 100)->set, 0x2);
}

/* A client divides its share. */
static void test_client_divides_its_share(void **state)
{
	struct sm_group groups[WIRE_SM_GROUPS_MAX];
	uint64_t heap, heap_size, granularity, limits[16];
	uint32_t n_sms, sms[3], rest[3], n_made, n;
	const uint32_t second = 1;
	int32_t least, greatest;

	(void)state;
	fake_switches = (struct fake_switches){.memory = FAKE_MEMORY};
	harness_open(false);
	harness.session->limits.active_threads = 75000;
	assert_int_equal(send_device_open(0, 50000, 0, &n_sms, &heap, &heap_size, &granularity,
				 &least, &greatest, limits),
		CUDA_SUCCESS);
	assert_int_equal(n_sms, 16);
	assert_int_equal(harness.session->grants[0].n_sms, 16);
	assert_int_equal(send_sm_resource(0, GPU, sms), CUDA_SUCCESS);
	assert_int_equal(sms[0], 16);
	assert_int_equal(
		send_sm_split(0, GPU, 0, 8, 4, &n_made, rest, groups, WIRE_SM_GROUPS_MAX, &n),
		CUDA_SUCCESS);
	assert_int_equal(n_made, 2);
	assert_int_equal(send_green_create(0, 0, GPU, 0, 8, 2, &second, 1), CUDA_SUCCESS);
	assert_int_equal(send_green_create(1, 0, GPU, 0, 0, 0, NULL, 0), CUDA_SUCCESS);
	assert_int_equal(send_sm_resource(0, 0, sms), CUDA_SUCCESS);
	assert_int_equal(sms[0], 8);
	assert_int_equal(send_sm_resource(0, 1, sms), CUDA_SUCCESS);
	assert_int_equal(sms[0], 16);
	harness_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_least_of_both, open_session, give_all),
		cmocka_unit_test_setup_teardown(test_one_for_the_same, open_session, give_all),
		cmocka_unit_test_setup_teardown(test_groups, open_session, give_all),
		cmocka_unit_test_setup_teardown(test_driver_refuses, open_session, give_all),
		cmocka_unit_test(test_client_divides_its_share),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
