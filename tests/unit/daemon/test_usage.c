/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Sums of users: kept, bounded, and forgotten only for users without a tenant.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "daemon/state/daemon.h"
#include "daemon/state/tenant.h"

#define FIRST_UID 1000u

static struct daemon mps;
static uint64_t now_ms;
static uid_t last_uid_with_tenant; /* from FIRST_UID on; 0: no user has one */
static struct tenant tenant;

uint64_t uv_now(_unused_ const uv_loop_t *loop)
{
	return now_ms;
}

struct tenant *tenant_find(_unused_ struct daemon *daemon, uid_t uid)
{
	return uid >= FIRST_UID && uid <= last_uid_with_tenant ? &tenant : NULL;
}

static int set_up(_unused_ void **state)
{
	mps = (struct daemon){0};
	last_uid_with_tenant = 0;
	for (unsigned i = 0; i < USAGES_MAX; i++) {
		now_ms = i;
		usage_count(&mps, FIRST_UID + i, USAGE_CLIENT);
	}
	now_ms = 1000;
	return 0;
}

static int tear_down(_unused_ void **state)
{
	usages_fini(&mps.usages);
	return 0;
}

static void test_sums(_unused_ void **state)
{
	const struct counts counts = {.counters = {[COUNTER_LAUNCHES] = 3}};
	const struct usage *usage = usage_find(&mps.usages, FIRST_UID);

	usage_add_ended(&mps, FIRST_UID, &counts);
	usage_add_ended(&mps, FIRST_UID, &counts);
	usage_count(&mps, FIRST_UID, USAGE_FAULT);
	assert_int_equal(usage->ended.counters[COUNTER_LAUNCHES], 6);
	assert_int_equal(usage->events[USAGE_FAULT], 1);
	assert_int_equal(mps.usages.events[USAGE_FAULT], 1);
	assert_int_equal(mps.usages.events[USAGE_CLIENT], USAGES_MAX);
}

/* One more user: the one that was active longest ago is forgotten. */
static void test_bound(_unused_ void **state)
{
	usage_count(&mps, FIRST_UID, USAGE_CLIENT);
	usage_count(&mps, 1, USAGE_REFUSAL);
	assert_int_equal(mps.usages.n, USAGES_MAX);
	assert_null(usage_find(&mps.usages, FIRST_UID + 1));
	assert_int_equal(usage_find(&mps.usages, FIRST_UID)->events[USAGE_CLIENT], 2);
	assert_int_equal(usage_find(&mps.usages, 1)->events[USAGE_CLIENT], 0);
	assert_int_equal(usage_find(&mps.usages, 1)->events[USAGE_REFUSAL], 1);
	/* What the forgotten user did stays in the sums of all. */
	assert_int_equal(mps.usages.events[USAGE_CLIENT], USAGES_MAX + 1);
}

/* Users with connections or servers stay. Without others, events count for all users only. */
static void test_tenants_stay(_unused_ void **state)
{
	last_uid_with_tenant = FIRST_UID + 9;
	usage_count(&mps, 1, USAGE_CLIENT);
	assert_non_null(usage_find(&mps.usages, FIRST_UID + 9));
	assert_null(usage_find(&mps.usages, FIRST_UID + 10));
	last_uid_with_tenant = FIRST_UID + USAGES_MAX;
	usage_count(&mps, FIRST_UID + USAGES_MAX, USAGE_CLIENT);
	assert_null(usage_find(&mps.usages, 1));
	assert_non_null(usage_find(&mps.usages, FIRST_UID + USAGES_MAX));
	usage_count(&mps, 2, USAGE_CLIENT);
	assert_null(usage_find(&mps.usages, 2));
	assert_int_equal(mps.usages.events[USAGE_CLIENT], USAGES_MAX + 3);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_sums),
		TEST(test_bound),
		TEST(test_tenants_stay),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
