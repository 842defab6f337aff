/* SPDX-License-Identifier: Apache-2.0 */

/* Quotas in chains, and accounts of sessions with their blocks. */

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "server/util/account.h"

#define MIB ((uint64_t)1 << 20)
#define BASE ((uint64_t)700 << 10)
#define LIMIT (64 * MIB)

/* The linker's --wrap redirects calls to these functions. */
void *__real_calloc(size_t n, size_t size);
void *__real_reallocarray(void *old, size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_reallocarray(void *old, size_t n, size_t size);

static bool has_no_memory;

void *__wrap_calloc(size_t n, size_t size)
{
	return has_no_memory ? NULL : __real_calloc(n, size);
}

void *__wrap_reallocarray(void *old, size_t n, size_t size)
{
	return has_no_memory ? NULL : __real_reallocarray(old, n, size);
}

/* ---- quotas */

static void test_quota_alone(void **state)
{
	struct quota quota = {.limit = 100};

	(void)state;
	assert_true(quota_charge(&quota, 0));
	assert_true(quota_charge(&quota, 60));
	assert_false(quota_charge(&quota, 41));
	assert_false(quota_charge(&quota, UINT64_MAX));
	assert_true(quota_charge(&quota, 40));
	assert_false(quota_charge(&quota, 1));
	assert_int_equal(quota_refund(&quota, 99), 1);
	assert_int_equal(quota_refund(&quota, 1), 0);
	quota.limit = UINT64_MAX;
	assert_true(quota_charge(&quota, UINT64_MAX));
	assert_false(quota_charge(&quota, 1));
}

/* Parents are charged in steps. If one quota refuses, no quota of the chain is charged. */
static void test_quota_chain(void **state)
{
	struct quota server = {.limit = 100 * QUOTA_STEP};
	struct quota user = {.parent = &server, .limit = 100 * QUOTA_STEP};
	struct quota group = {.parent = &user, .limit = 100 * QUOTA_STEP};
	struct quota client = {.parent = &group, .limit = 100 * QUOTA_STEP};

	(void)state;
	assert_true(quota_charge(&client, 1));
	assert_int_equal(quota_used(&client), 1);
	assert_int_equal(quota_used(&group), QUOTA_STEP);
	assert_int_equal(quota_used(&server), QUOTA_STEP);
	assert_true(quota_charge(&client, QUOTA_STEP - 1));
	assert_int_equal(quota_used(&server), QUOTA_STEP);
	assert_true(quota_charge(&client, 1));
	assert_int_equal(quota_used(&server), 2 * QUOTA_STEP);
	server.limit = 3 * QUOTA_STEP;
	assert_false(quota_charge(&client, 2 * QUOTA_STEP));
	assert_int_equal(quota_used(&client), QUOTA_STEP + 1);
	assert_int_equal(quota_used(&group), 2 * QUOTA_STEP);
	assert_int_equal(quota_used(&user), 2 * QUOTA_STEP);
	assert_int_equal(quota_used(&server), 2 * QUOTA_STEP);
	assert_int_equal(quota_refund(&client, QUOTA_STEP), 1);
	assert_int_equal(quota_used(&server), QUOTA_STEP);
	assert_int_equal(quota_refund(&client, 1), 0);
	assert_int_equal(quota_used(&server), 0);
}

/* The first child gets half, the next half of the rest; each at least its own share. */
static void test_quota_shares(void **state)
{
	struct quota all = {.limit = 64 * QUOTA_STEP};
	struct quota children[8];
	uint64_t left = 64;

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(children); i++) {
		struct quota *child = &children[i];
		uint64_t n = 0;

		*child =
			(struct quota){.parent = &all, .limit = UINT64_MAX >> 1, .own = QUOTA_STEP};
		while (quota_charge(child, QUOTA_STEP))
			n++;
		assert_int_equal(n, MAX(left / 2, 1));
		left -= MIN(n, left);
	}
	for (unsigned i = 0; i < ARRAY_SIZE(children); i++)
		quota_refund(&children[i], quota_used(&children[i]));
	assert_int_equal(quota_used(&all), 0);
}

/* Children share a common parent in the order of use. Its limit may fall below its use. */
static void test_quota_is_common(void **state)
{
	struct quota group = {.limit = 8 * QUOTA_STEP, .is_common = true};
	struct quota first = {.parent = &group, .limit = UINT64_MAX};
	struct quota second = {.parent = &group, .limit = 4 * QUOTA_STEP};

	(void)state;
	assert_int_equal(quota_limit(&first), 8 * QUOTA_STEP);
	assert_int_equal(quota_left(&second), 4 * QUOTA_STEP);
	assert_true(quota_charge(&first, 6 * QUOTA_STEP));
	assert_int_equal(quota_left(&first), 2 * QUOTA_STEP);
	assert_int_equal(quota_left(&second), 2 * QUOTA_STEP);
	assert_false(quota_charge(&second, 2 * QUOTA_STEP + 1));
	assert_true(quota_charge(&second, 2 * QUOTA_STEP));
	assert_false(quota_charge(&first, 1));
	atomic_store(&group.limit, QUOTA_STEP);
	assert_int_equal(quota_left(&first), 0);
	assert_int_equal(quota_refund(&first, 6 * QUOTA_STEP), 0);
	assert_false(quota_charge(&first, 1));
	assert_int_equal(quota_refund(&second, 2 * QUOTA_STEP), 0);
	assert_true(quota_charge(&second, QUOTA_STEP));
	quota_refund(&second, QUOTA_STEP);
	assert_int_equal(quota_used(&group), 0);
}

/* ---- accounts */

static unsigned n_full, n_free_on_full;
static void *to_free;

static bool on_full(void *arg, enum resource resource, uint64_t amount, unsigned round)
{
	char text[ACCOUNT_TEXT];

	assert_true(amount > 0);
	account_explain(*(struct account **)arg, resource, amount, text);
	assert_non_null(
		strstr(text, resource == RESOURCE_HOST_MEMORY ? "MiB" : resource_name(resource)));
	n_full++;
	if (round > 0 || n_free_on_full == 0)
		return false;
	n_free_on_full--;
	account_free(TAKE_PTR(to_free));
	return true;
}

static struct account *account;

static int open_account(void **state)
{
	(void)state;
	n_full = n_free_on_full = 0;
	account = account_new(BASE, (struct account_owner){on_full, &account}, NULL);
	return account ? 0 : -1;
}

static int close_account(void **state)
{
	(void)state;
	account_close(account);
	return quota_used(resource_of_server(RESOURCE_HOST_MEMORY)) == 0 ? 0 : -1;
}

static void test_blocks(void **state)
{
	uint64_t base = account_held(account), one;
	uint8_t *block = account_alloc(account, 100, 1000), *grown = NULL;

	(void)state;
	assert_true(base >= BASE);
	one = account_held(account) - base;
	assert_in_range(one, 1100, 1100 + 64);
	assert_int_equal((uintptr_t)block % 16, 0);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(block[i], 0);
	assert_true(account_keep(block, 50));
	assert_int_equal(account_held(account), base + one + 50);
	account_unkeep(block, 50);
	grown = account_grow(account, NULL, 10, 100);
	memset(grown, 7, 1000);
	grown = account_grow(account, grown, 1000, 100);
	assert_int_equal(grown[999], 7);
	assert_in_range(account_held(account) - base - one, 100000, 100000 + 64);
	assert_null(account_grow(account, grown, UINT64_MAX / 2, 3));
	assert_null(account_grow(account, grown, UINT64_MAX, 1));
	account_free(grown);
	assert_int_equal(account_held(account), base + one);
	account_free(block);
	account_free(NULL);
	assert_int_equal(account_held(account), base);
	/* Memory of the server itself, charged to no session. */
	block = account_alloc(NULL, 100, 1000);
	assert_true(account_keep(block, 50));
	block = account_grow(NULL, block, 2, 100);
	account_free(block);
	block = account_alloc(account, 100, 1000);
	account_disown(block);
	assert_int_equal(account_held(account), base);
	account_disown(block);
	account_free(block);
	assert_int_equal(n_full, 0);
}

static void test_bound(void **state)
{
	void *large = account_alloc(account, 100, LIMIT / 2), *small;
	uint64_t held = account_held(account);

	(void)state;
	assert_non_null(large);
	assert_null(account_alloc(account, LIMIT, 0));
	assert_null(account_alloc(account, 100, LIMIT));
	assert_null(account_alloc(account, 100, UINT64_MAX - 1000));
	assert_false(account_keep(large, LIMIT));
	assert_int_equal(n_full, 4);
	assert_int_equal(account_held(account), held);
	small = account_alloc(account, 100, 0);
	assert_null(account_grow(account, small, LIMIT, 1));
	assert_non_null(small);
	account_free(small);
	/* Memory that is freed meanwhile makes room. */
	n_free_on_full = 1;
	to_free = large;
	small = account_alloc(account, 100, LIMIT - LIMIT / 4);
	assert_non_null(small);
	account_free(small);
}

/* If there is no memory, nothing is charged. */
static void test_no_memory(void **state)
{
	void *block = account_alloc(account, 100, 0);
	uint64_t held = account_held(account),
		 all = quota_used(resource_of_server(RESOURCE_HOST_MEMORY));

	(void)state;
	has_no_memory = true;
	assert_null(account_alloc(account, 100, 2 * MIB));
	assert_null(account_alloc(NULL, 100, 100));
	assert_null(account_grow(account, block, 2 * MIB, 1));
	assert_null(account_grow(account, NULL, 2 * MIB, 1));
	assert_null(account_new(BASE, (struct account_owner){0}, NULL));
	has_no_memory = false;
	assert_int_equal(account_held(account), held);
	assert_int_equal(quota_used(resource_of_server(RESOURCE_HOST_MEMORY)), all);
	account_free(block);
	assert_int_equal(n_full, 0);
}

/* A session has ended, and others hold its blocks. */
static void test_after_the_end(void **state)
{
	void *blocks[3];
	uint64_t before = quota_used(resource_of_server(RESOURCE_HOST_MEMORY));

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		assert_non_null(blocks[i] = account_alloc(account, 100, MIB));
	account_close(account);
	assert_true(quota_used(resource_of_server(RESOURCE_HOST_MEMORY)) >= 3 * MIB);
	account_free(blocks[1]);
	account_free(blocks[0]);
	assert_true(quota_used(resource_of_server(RESOURCE_HOST_MEMORY)) > 0);
	account_free(blocks[2]);
	assert_int_equal(quota_used(resource_of_server(RESOURCE_HOST_MEMORY)), before - MIB);
	assert_int_equal(open_account(state), 0);
}

/* One client takes all it can. A new neighbour still gets its own share and half of the rest. */
static void test_neighbour(void **state)
{
	struct quota *all = resource_of_server(RESOURCE_HOST_MEMORY);
	uint64_t limit = all->limit, n_hog = 0, n = 0;
	struct account *neighbour;
	void *hog = account_alloc(account, 1, 0), *block;

	(void)state;
	all->limit = 100 * MIB;
	while (account_keep(hog, MIB))
		n_hog++;
	assert_in_range(n_hog, 48, 50);
	neighbour = account_new(BASE, (struct account_owner){0}, NULL);
	assert_non_null(neighbour);
	block = account_alloc(neighbour, 1, 0);
	while (account_keep(block, MIB))
		n++;
	assert_in_range(n, 23, 26);
	/* If nothing is left, its own share still is. */
	all->limit = 1 * MIB;
	assert_false(account_keep(block, MIB));
	account_unkeep(block, n * MIB);
	for (n = 0; account_keep(block, MIB);)
		n++;
	assert_int_equal(n, RESOURCE_HOST_MEMORY_OWN / MIB - 1);
	account_free(block);
	account_close(neighbour);
	account_free(hog);
	all->limit = limit;
}

#define N_BLOCKS 64
#define N_ROUNDS 20000

static void *_Atomic shared[N_BLOCKS];

/* Takes a shared block and frees it, on another thread than the one that allocated it. */
static void *run_ends(void *arg)
{
	for (unsigned i = 0; i < N_ROUNDS; i++)
		account_free(atomic_exchange(
			&shared[(i * 7u + (unsigned)(uintptr_t)arg) % N_BLOCKS], NULL));
	return NULL;
}

static void test_ends_on_other_threads(void **state)
{
	struct quota *all = resource_of_server(RESOURCE_HOST_MEMORY);
	uint64_t limit = all->limit;
	pthread_t threads[2];

	all->limit = 40 * MIB;
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(
			pthread_create(&threads[i], NULL, run_ends, (void *)(uintptr_t)i), 0);
	for (unsigned i = 0; i < N_ROUNDS; i++) {
		void *block = account_alloc(account, 100, (i % 7) * (MIB / 3));

		account_free(atomic_exchange(&shared[i % N_BLOCKS], block));
		if (i % 1000 == 999) {
			account_close(account);
			assert_int_equal(open_account(state), 0);
		}
	}
	for (unsigned i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	for (unsigned i = 0; i < N_BLOCKS; i++)
		account_free(atomic_exchange(&shared[i], NULL));
	assert_true(account_held(account) < BASE + MIB);
	all->limit = limit;
}

int main(void)
{
	setenv("MPS_CLIENT_HOST_MIB", "64", 1);
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_account, close_account)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_quota_alone),
		cmocka_unit_test(test_quota_chain),
		cmocka_unit_test(test_quota_shares),
		cmocka_unit_test(test_quota_is_common),
		TEST(test_blocks),
		TEST(test_bound),
		TEST(test_no_memory),
		TEST(test_after_the_end),
		TEST(test_neighbour),
		TEST(test_ends_on_other_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
