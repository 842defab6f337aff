/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Sessions that take as much of the server's host memory as they can, with each kind of object,
 * over the counting driver: the test lists the cost of one object, a session's bound holds, and all
 * memory comes back (the harness checks).
 */

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "every_kind.h"
#include "open_session.h"
#include "server/session/at_work.h"
#include "server/schedule/deferred.h"

#define LIMIT_MIB 24
#define LIMIT ((uint64_t)LIMIT_MIB << 20)
/* Overhead of malloc() and of the counting driver. */
#define SLACK ((uint64_t)2 << 20)

static int open_everything(void **state)
{
	int r = open_session(state);

	fake_switches.memory = (uint64_t)1 << 40;
	return r == 0 && every_kind_prepare() ? 0 : -1;
}

static int close_everything(void **state)
{
	fake_switches.is_busy = false;
	every_kind_end();
	return close_session(state);
}

static uint64_t held(void)
{
	return account_held(harness.session->account);
}

static uint64_t in_heap(void)
{
	struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}

/* Creates as many as possible; returns their number. */
static uint32_t make_all(const struct every_kind *one)
{
	CUresult result = CUDA_SUCCESS;
	uint32_t n = 0;

	while (n < one->n_max && (result = one->make(n)) == CUDA_SUCCESS)
		n++;
	if (result != CUDA_SUCCESS && result != CUDA_ERROR_OUT_OF_MEMORY)
		assert_int_equal(result, CUDA_ERROR_INVALID_VALUE);
	assert_true(held() <= LIMIT);
	return n;
}

static void test_each(void **state)
{
	for (unsigned i = 0; i < ARRAY_SIZE(every_kind); i++) {
		uint64_t before, heap;
		uint32_t n;

		assert_int_equal(open_everything(state), 0);
		before = held();
		heap = in_heap();
		n = make_all(&every_kind[i]);
		assert_true(n > 0);
		printf("%-40s %6u of %8.0f bytes%s\n", every_kind[i].name, n,
			(double)(held() - before) / n,
			harness.session->is_bound_logged[RESOURCE_HOST_MEMORY] ? ", to the bound"
									       : "");
		/* The client can tell the reason. */
		assert_int_equal(shm_load32(&harness.session->page->refusal),
			harness.session->is_bound_logged[RESOURCE_HOST_MEMORY] ? REFUSAL_BY_HOST
									       : REFUSAL_NONE);
		assert_true(held() > before);
		/* The bound counts every allocation of the server. */
		assert_true(in_heap() < heap + held() - before + SLACK);
		assert_int_equal(close_everything(state), 0);
	}
}

/* One session with everything: others still have their share, and it can still launch. */
static void test_everything(void **state)
{
	static const uint32_t one[3] = {1, 1, 1};
	struct account *other;
	uint8_t params[FAKE_PARAM_BYTES] = {0};
	unsigned launches;
	void *block;

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(every_kind); i++)
		(void)make_all(&every_kind[i]);
	assert_true(harness.session->is_bound_logged[RESOURCE_HOST_MEMORY]);
	assert_true(held() > LIMIT - (2 << 20));
	fake_switches.is_busy = false;
	other = account_new(0, (struct account_owner){0}, NULL);
	block = account_alloc(other, RESOURCE_HOST_MEMORY_OWN / 2, 0);
	assert_non_null(block);
	account_free(block);
	account_close(other);
	launches = fake_calls.launches;
	for (unsigned k = 0; k < 100; k++)
		send_launch(KIND_STREAM, KIND_BASE, one, one, 0, params, sizeof(params));
	assert_int_equal(settle_kind(CUDA_SUCCESS), CUDA_SUCCESS);
	assert_int_equal(fake_calls.launches - launches, 100);
}

/* Objects destroyed while others work stay for a while, but not once their memory is needed. */
static void test_ends_make_room(void **state)
{
	uint32_t error_node;

	(void)state;
	at_work_change(true);
	for (uint32_t i = 0; i < 200; i++) {
		send_graph_begin(KIND_FIRST + i, 0);
		for (uint32_t k = 0; k < 500; k++)
			send_graph_empty(KIND_FIRST + i, k);
		assert_int_equal(
			send_graph_instantiate(KIND_FIRST + i, 500, 0, &error_node), CUDA_SUCCESS);
		send_graph_destroy(KIND_FIRST + i);
	}
	at_work_change(false);
	assert_false(harness.session->is_bound_logged[RESOURCE_HOST_MEMORY]);
}

/* A neighbour has taken so much that a session has only its own share, and then half. */
static void test_what_is_left(void **state)
{
	struct quota *all = resource_of_server(RESOURCE_HOST_MEMORY);
	uint64_t limit = all->limit;

	(void)state;
	all->limit = 1 << 20;
	(void)make_all(&every_kind[0]);
	assert_true(held() <= RESOURCE_HOST_MEMORY_OWN &&
		    held() > RESOURCE_HOST_MEMORY_OWN - (1 << 20));
	all->limit = limit;
	assert_int_equal(make_event(WIRE_EVENTS_MAX / 2), CUDA_SUCCESS);
}

int main(void)
{
	setenv("MPS_CLIENT_HOST_MIB", "24", 1);
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_everything, close_everything)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each),
		TEST(test_everything),
		TEST(test_ends_make_room),
		TEST(test_what_is_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
