/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The SMs that a process sees: the smaller of the limits of its environment and its
 * operator, and the server's answer once a GPU is open.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "frame.h"
#include "client/transport/server_link.h"
#include "client/context/context.h"
#include "client/context/share.h"

struct server_link server;
_Thread_local struct context *context_current;

static struct page page;
static struct device device;

const struct device_facts *device_facts(const struct device *asked)
{
	(void)asked;
	return &page.device[0];
}

static int setup(void **state)
{
	(void)state;
	page.device[0].attribute[CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT] = 132;
	page.device[0].sm_group = 8;
	page.device[0].n_sm_groups = 15;
	server.page = shm_at((uintptr_t)&page);
	setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "50", 1);
	share_init();
	return 0;
}

static void test_least(void **state)
{
	(void)state;
	assert_int_equal(share_asked(), 50000);
	page.active_threads = ACTIVE_THREADS_ALL;
	assert_int_equal(share_sms(&device), 64);
	page.active_threads = 75000;
	assert_int_equal(share_sms(&device), 64);
	page.active_threads = 25000;
	assert_int_equal(share_sms(&device), 32);
	page.active_threads = 1;
	assert_int_equal(share_sms(&device), 8);
}

/* Neither an invalid value nor a later change of the environment changes it. */
static void test_nonsense(void **state)
{
	(void)state;
	setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "nonsense", 1);
	share_init();
	assert_int_equal(share_asked(), 50000);
}

static void test_no_groups(void **state)
{
	(void)state;
	page.active_threads = 25000;
	page.device[0].sm_group = page.device[0].n_sm_groups = 0;
	assert_int_equal(share_sms(&device), 132);
	page.device[0].sm_group = 8;
	page.device[0].n_sm_groups = 15;
}

static void test_open(void **state)
{
	(void)state;
	device.n_sms = 24;
	device.is_open = 1;
	assert_int_equal(share_sms(&device), 24);
	device.is_open = 0;
}

/* The current environment counts, but at most its first value. */
static void test_groups_now(void **state)
{
	(void)state;
	assert_false(share_is_per_context());
	setenv(SHARE_PER_CONTEXT, "1", 1);
	share_init();
	assert_true(share_is_per_context());
	setenv(SHARE_VARIABLE, "25", 1);
	assert_int_equal(share_groups_now(&device), 4);
	setenv(SHARE_VARIABLE, "80", 1);
	assert_int_equal(share_groups_now(&device), 8);
	setenv(SHARE_VARIABLE, "nonsense", 1);
	assert_int_equal(share_groups_now(&device), 8);
	unsetenv(SHARE_VARIABLE);
	assert_int_equal(share_groups_now(&device), 8);
	assert_int_equal(share_asked(), 50000);
}

/* The current context reports its share of its own GPU, while it has one. */
static void test_current(void **state)
{
	static struct stream *const null = (struct stream *)&page;
	struct context context = {.device = &device, .n_sms = 16};
	struct device other = {0};

	(void)state;
	page.active_threads = 25000;
	context_current = &context;
	assert_int_equal(share_sms(&device), 32);
	context.null = null;
	assert_int_equal(share_sms(&device), 16);
	assert_int_equal(share_sms(&other), 32);
	assert_int_equal(share_sms_of_process(&device), 32);
	context_current = NULL;
	assert_int_equal(share_sms(&device), 32);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_least),
		cmocka_unit_test(test_nonsense),
		cmocka_unit_test(test_no_groups),
		cmocka_unit_test(test_open),
		cmocka_unit_test(test_groups_now),
		cmocka_unit_test(test_current),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
