/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Resources that sessions share: for each of them, processes and users that take what they can,
 * and newcomers.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "frame.h"
#include "server/util/account.h"
#include "server/server.h"
#include "server/sharer.h"

#define GUESTS 256u
#define SESSIONS_EACH 16u

/* A session, with the block of an object that takes what there is. */
struct guest {
	struct sharer *process;
	struct account *account;
	void *block;
	uint64_t taken;
};

static struct server server;
static struct guest guests[GUESTS];
static unsigned n_guests;

static int start(void **state)
{
	(void)state;
	server = (struct server){0};
	return 0;
}

static void give_all(enum resource resource)
{
	while (n_guests > 0) {
		struct guest *guest = &guests[--n_guests];

		account_give(guest->block, resource, guest->taken);
		account_free(guest->block);
		account_close(guest->account);
		sharer_remove_session(guest->process);
		*guest = (struct guest){0};
	}
}

static int end(void **state)
{
	(void)state;
	sharers_free(&server);
	for (unsigned i = 0; i < RESOURCES; i++)
		if (quota_used(resource_of_server(i)) > 0)
			return -1;
	return 0;
}

static struct guest *guest_new(uint32_t uid, uint64_t pid)
{
	const struct frame_client client = {
		.id = n_guests + 1, .uid = uid, .account = uid, .pid = pid};
	struct guest *guest = &guests[n_guests++];

	assert_true(n_guests <= GUESTS);
	assert_int_equal(sharer_add_session(&server, &client, &guest->process), 0);
	guest->account = account_new(1, (struct account_owner){0}, sharer_quotas(guest->process));
	assert_non_null(guest->account);
	guest->block = account_alloc(guest->account, 1, 0);
	assert_non_null(guest->block);
	return guest;
}

/* As much as possible. */
static uint64_t take(struct guest *guest, enum resource resource)
{
	for (uint64_t step = (uint64_t)1 << 40; step > 0; step /= 2)
		while (account_take(guest->block, resource, step))
			guest->taken += step;
	return guest->taken;
}

/* Of all sessions of a process. */
static uint64_t take_by_process(uint32_t uid, uint64_t pid, enum resource resource)
{
	uint64_t taken = 0;

	for (unsigned i = 0; i < SESSIONS_EACH; i++)
		taken += take(guest_new(uid, pid), resource);
	return taken;
}

static uint64_t limit_of(enum resource resource)
{
	return resource_of_server(resource)->limit;
}

/* The others are taken, or divided, otherwise: other tests have them. */
static bool is_by_block(enum resource resource)
{
	return resource != RESOURCE_HOST_MEMORY && resource != RESOURCE_SESSIONS &&
	       resource != RESOURCE_STORE;
}

/* A process with many sessions leaves as much as it has, and the next one half of that. */
static void test_one_process(void **state)
{
	(void)state;
	for (unsigned i = 0; i < RESOURCES; i++) {
		if (!is_by_block(i))
			continue;
		assert_int_equal(take_by_process(0, 1, i), limit_of(i) / 2);
		assert_int_equal(take(guest_new(0, 2), i), limit_of(i) / 4);
		/* The first one may have no more, with whatever session. */
		assert_int_equal(take(guest_new(0, 1), i), 0);
		give_all(i);
	}
}

/* With -M the same holds for users, however many processes they have. */
static void test_one_user(void **state)
{
	(void)state;
	server.is_multiuser = true;
	for (unsigned i = 0; i < RESOURCES; i++) {
		uint64_t taken = 0;

		if (!is_by_block(i))
			continue;
		for (uint64_t pid = 1; pid <= 8; pid++)
			taken += take_by_process(1001, pid, i);
		assert_in_range(taken, limit_of(i) / 2 - 1, limit_of(i) / 2);
		assert_in_range(
			take(guest_new(1002, 100), i), limit_of(i) / 4 - 1, limit_of(i) / 4);
		give_all(i);
	}
}

/* When hogs have left nothing, the table still has the own parts of newcomers. */
static void test_newcomers(void **state)
{
	(void)state;
	for (unsigned m = 0; m < 2; m++)
		for (unsigned i = 0; i < RESOURCES; i++) {
			uint64_t own = 0, pid = 1;

			if (!is_by_block(i))
				continue;
			server.is_multiuser = m == 1;
			for (; pid <= 32; pid++)
				own = take(guest_new((uint32_t)pid, pid), i);
			assert_true(own > 0);
			for (; pid <= 32 + RESOURCE_NEWCOMERS; pid++)
				assert_int_equal(take(guest_new((uint32_t)pid, pid), i), own);
			give_all(i);
			sharers_free(&server);
		}
}

static uint64_t take_of_store(uint32_t uid, uint64_t pid)
{
	struct guest *guest = guest_new(uid, pid);

	for (uint64_t step = (uint64_t)1 << 40; step > 0; step /= 2)
		while (account_charge_only(guest->account, RESOURCE_STORE, step))
			guest->taken += step;
	return guest->taken;
}

/* The store: processes of a user have it in the order of use; a user leaves as much as it has. */
static void test_store(void **state)
{
	struct quota *all = resource_of_server(RESOURCE_STORE);

	(void)state;
	all->limit = 1 << 20;
	assert_int_equal(take_of_store(0, 1), 1 << 20);
	assert_int_equal(take_of_store(0, 2), 0);
	account_refund_only(guests[0].account, RESOURCE_STORE, 1 << 18);
	guests[0].taken -= 1 << 18;
	assert_int_equal(take_of_store(0, 2), 1 << 18);
	give_all(RESOURCE_STORE);
	sharers_free(&server);
	server.is_multiuser = true;
	assert_int_equal(take_of_store(1001, 1), 1 << 19);
	assert_int_equal(take_of_store(1001, 2), 0);
	assert_int_equal(take_of_store(1002, 3), 1 << 18);
	give_all(RESOURCE_STORE);
}

/* Host memory: a process with many sessions, and one that comes then. */
static void test_host_memory(void **state)
{
	struct quota *all = resource_of_server(RESOURCE_HOST_MEMORY);
	uint64_t limit = all->limit, n_hog = 0, n = 0;

	(void)state;
	all->limit = (uint64_t)256 << 20;
	for (unsigned i = 0; i < SESSIONS_EACH; i++)
		guest_new(0, 1);
	for (unsigned i = 0; i < SESSIONS_EACH; i++)
		while (account_keep(guests[i].block, 1 << 20))
			n_hog++;
	assert_in_range(n_hog, 110, 128);
	for (const struct guest *guest = guest_new(0, 2); account_keep(guest->block, 1 << 20);)
		n++;
	assert_in_range(n, 58, 72);
	give_all(RESOURCE_HOST_MEMORY);
	all->limit = limit;
}

/* Each process has a UID of its own, as a user with many subordinate UIDs can have. */
static unsigned add_sessions(uint32_t account, unsigned n_processes, struct sharer **sessions)
{
	unsigned n = 0;

	for (uint64_t pid = 1; pid <= n_processes; pid++)
		for (unsigned i = 0; i < SESSIONS_EACH; i++) {
			const struct frame_client client = {
				.uid = account << 16 | (uint32_t)pid,
				.account = account,
				.pid = (uint64_t)account << 32 | pid,
			};

			if (sharer_add_session(&server, &client, &sessions[n]) == 0)
				n++;
		}
	return n;
}

static void remove_sessions(struct sharer **sessions, unsigned n)
{
	while (n > 0)
		sharer_remove_session(sessions[--n]);
	sharers_free(&server);
}

/* Sessions of users; and of the processes of one user, which share all of them. */
static void test_sessions(void **state)
{
	static struct sharer *sessions[2 * SESSIONS_MAX];
	uint64_t limit = limit_of(RESOURCE_SESSIONS);
	unsigned n, n_all;

	(void)state;
	server.is_multiuser = true;
	n_all = n = add_sessions(1, 64, sessions);
	assert_int_equal(n, limit / 2);
	for (uint32_t uid = 2; uid < 16; uid++)
		n_all += add_sessions(uid, 64, sessions + n_all);
	for (uint32_t uid = 100; uid < 100 + RESOURCE_NEWCOMERS / 2; uid++) {
		n = add_sessions(uid, 1, sessions + n_all);
		assert_true(n >= 8);
		n_all += n;
	}
	assert_true(n_all <= SESSIONS_MAX);
	remove_sessions(sessions, n_all);
	server.is_multiuser = false;
	for (n_all = 0; n_all < SESSIONS_MAX; n_all += n) {
		const struct frame_client client = {.pid = 1 + n_all / 8};

		n = sharer_add_session(&server, &client, &sessions[n_all]) == 0;
		assert_int_equal(n, 1);
	}
	remove_sessions(sessions, n_all);
}

/* A block that is freed late still counts for the process and the user that it was made for. */
static void test_late_blocks(void **state)
{
	struct guest *guest;
	struct sharer *first, *again;
	void *block;

	(void)state;
	server.is_multiuser = true;
	guest = guest_new(1001, 1);
	first = guest->process;
	block = account_alloc(guest->account, 1, 0);
	assert_true(account_take(block, RESOURCE_GRAPHS, 100));
	give_all(RESOURCE_GRAPHS);
	again = guest_new(1002, 2)->process;
	assert_ptr_not_equal(again, first);
	assert_int_equal(quota_used(&sharer_quotas(first)->of[RESOURCE_GRAPHS]), 100);
	assert_ptr_equal(guest_new(1001, 1)->process, first);
	give_all(RESOURCE_GRAPHS);
	account_give(block, RESOURCE_GRAPHS, 100);
	account_free(block);
	assert_int_equal(quota_used(&sharer_quotas(first)->of[RESOURCE_GRAPHS]), 0);
}

/* The PIDs of clients in other namespaces are unknown: each counts for itself. */
static void test_unknown_processes(void **state)
{
	const struct sharer *first = guest_new(0, 0)->process;

	(void)state;
	assert_ptr_not_equal(guest_new(0, 0)->process, first);
	give_all(RESOURCE_GRAPHS);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, end)
	const struct CMUnitTest tests[] = {
		TEST(test_store),
		TEST(test_one_process),
		TEST(test_one_user),
		TEST(test_newcomers),
		TEST(test_host_memory),
		TEST(test_late_blocks),
		TEST(test_unknown_processes),
		TEST(test_sessions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
