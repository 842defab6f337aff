/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Pieces of the staging memory and the seqnos that free them, with a thread of the
 * test as the GPU: a byte never has two users, no byte is lost, waits end, and a dead
 * server ends them with an error.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "client/stream/staging.h"
#include "client/stream/timeline.h"
#include "tests/unit/client/fake_link.h"
#include "tests/unit/seed.h"
#include "send.h"

#define THREADS 3
#define ROUNDS 400

static uint8_t staging[STAGING_SIZE];
static uint8_t owner[STAGING_SIZE / 4096];
static uint64_t posted; /* atomic: the newest seqno in the "ring" */
static uint32_t is_over;
static unsigned n_watches;
static unsigned first_seed;

CUresult send_seqno_write(uint32_t stream, uint64_t value)
{
	assert_int_equal(stream, STREAM);
	assert_int_equal(value, __atomic_load_n(&posted, __ATOMIC_ACQUIRE) + 1);
	__atomic_store_n(&posted, value, __ATOMIC_RELEASE);
	return CUDA_SUCCESS;
}

CUresult send_event_record(uint32_t event, uint32_t stream, uint64_t value)
{
	assert_int_equal(event, 9);
	return send_seqno_write(stream, value);
}

CUresult send_seqno_watch(uint32_t stream, uint64_t value)
{
	assert_int_equal(stream, STREAM);
	assert_true(value <= __atomic_load_n(&posted, __ATOMIC_ACQUIRE));
	__atomic_add_fetch(&n_watches, 1, __ATOMIC_RELAXED);
	return CUDA_SUCCESS;
}

static void *gpu_run(void *user)
{
	const struct timespec sleep_time = {.tv_nsec = 20000};

	(void)user;
	while (!__atomic_load_n(&is_over, __ATOMIC_ACQUIRE)) {
		nanosleep(&sleep_time, NULL);
		reach(__atomic_load_n(&posted, __ATOMIC_ACQUIRE));
	}
	return NULL;
}

static int setup(void **state)
{
	server.staging = shm_at((uintptr_t)staging);
	return link_setup(state);
}

static void claim(const struct staging_piece *piece, uint8_t before, uint8_t after)
{
	assert_true(range_ok(piece->offset, piece->size, STAGING_SIZE));
	/* The server refuses a piece in two parts. */
	assert_true(piece->offset >= STAGING_SMALL || piece->offset + piece->size <= STAGING_SMALL);
	for (uint32_t at = piece->offset / 4096; at * 4096 < piece->offset + piece->size; at++)
		assert_int_equal(__atomic_exchange_n(&owner[at], after, __ATOMIC_ACQ_REL), before);
}

/* Takes and returns pieces of all sizes, at once or with a seqno. */
static void *user_run(void *arg)
{
	unsigned seed = first_seed + (unsigned)(uintptr_t)arg;
	uint8_t me = (uint8_t)(uintptr_t)arg;

	for (unsigned i = 0; i < ROUNDS; i++) {
		struct staging_piece piece;

		seed = seed * 1103515245u + 12345u;
		assert_int_equal(staging_take(1 + (seed >> 8) % (2 * STAGING_PIECE_MAX), &piece),
			CUDA_SUCCESS);
		assert_true(piece.size > 0 && piece.size <= STAGING_PIECE_MAX);
		claim(&piece, 0, me);
		memset(staging_bytes(&piece), me, piece.size);
		claim(&piece, me, 0);
		if (seed & 1 << 20)
			staging_give_later(&piece, &streams[STREAM]);
		else
			staging_give(&piece);
	}
	return NULL;
}

static void test_threads(void **state)
{
	pthread_t gpu, users[THREADS];

	(void)state;
	first_seed = seed_read(0);
	assert_int_equal(pthread_create(&gpu, NULL, gpu_run, NULL), 0);
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&users[i], NULL, user_run, (void *)(i + 1)), 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(users[i], NULL);
	__atomic_store_n(&is_over, 1, __ATOMIC_RELEASE);
	pthread_join(gpu, NULL);
}

static void test_all_of_it(void **state)
{
	/* By the block of each: the threads decide the order. */
	static struct staging_piece pieces[STAGING_SIZE / 4096];
	struct staging_piece one;
	unsigned n = 0;
	uint64_t seqno;

	(void)state;
	/* Pieces of the threads are free once their seqnos have passed. */
	assert_int_equal(timeline_post(&streams[STREAM], &seqno), CUDA_SUCCESS);
	reach(seqno);
	for (; n < ARRAY_SIZE(pieces) && staging_try(1, &one); n++)
		pieces[one.offset / 4096] = one;
	assert_int_equal(n, ARRAY_SIZE(pieces));
	assert_false(staging_try(1, &one));
	staging_give(&pieces[3]);
	staging_give(&pieces[5]);
	assert_false(staging_try(4097, &one));
	staging_give(&pieces[4]);
	assert_true(staging_try(3 * 4096ull, &pieces[3]));
	assert_int_equal(pieces[3].offset, 3 * 4096);
	assert_false(staging_try(1, &one));
	for (unsigned i = 0; i < n; i++)
		if (i != 4 && i != 5)
			staging_give(&pieces[i]);
}

/* Small pieces leave the large part unused, and so unpinned, as long as the small part has room. */
static void test_parts(void **state)
{
	static struct staging_piece smalls[STAGING_SMALL / 4096];
	struct staging_piece one;

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(smalls); i++) {
		assert_true(staging_try(4096, &smalls[i]));
		assert_true(smalls[i].offset < STAGING_SMALL);
	}
	assert_true(staging_try(1, &one));
	assert_true(one.offset >= STAGING_SMALL);
	staging_give(&one);
	staging_give(&smalls[2]);
	assert_true(staging_try(1, &one));
	assert_int_equal(one.offset, smalls[2].offset);
	for (unsigned i = 0; i < ARRAY_SIZE(smalls); i++)
		if (i != 2)
			staging_give(&smalls[i]);
	staging_give(&one);
	assert_true(staging_try(STAGING_SMALL / 4 + 1, &one));
	assert_true(one.offset >= STAGING_SMALL);
	staging_give(&one);
}

static void test_seqno_covers_later_work(void **state)
{
	uint64_t first, noted, second;

	(void)state;
	assert_int_equal(timeline_post(&streams[STREAM], &first), CUDA_SUCCESS);
	assert_int_equal(posted, first);
	timeline_note(&streams[STREAM], &noted);
	assert_int_equal(noted, first + 1);
	assert_int_equal(timeline_post(&streams[STREAM], &second), CUDA_SUCCESS);
	assert_int_equal(second, noted);
	assert_int_equal(timeline_post(&streams[STREAM], &noted), CUDA_SUCCESS);
	assert_int_equal(noted, second);
	stream_issued(&streams[STREAM]);
	assert_int_equal(timeline_record(&streams[STREAM], 9, &first), CUDA_SUCCESS);
	assert_int_equal(first, second + 1);
	assert_int_equal(timeline_post(&streams[STREAM], &noted), CUDA_SUCCESS);
	assert_int_equal(noted, first);
}

static void *die_later(void *user)
{
	const struct timespec sleep_time = {.tv_nsec = 30000000};

	nanosleep(&sleep_time, NULL);
	if (user)
		__atomic_store_n(&page->fault, CUDA_ERROR_ILLEGAL_ADDRESS, __ATOMIC_RELEASE);
	else
		atomic_store_explicit(&server.is_dead, 1, memory_order_release);
	return NULL;
}

static void wait_that_fails(void *user, CUresult expected)
{
	pthread_t thread;
	uint64_t seqno;

	stream_issued(&streams[STREAM]);
	assert_int_equal(timeline_post(&streams[STREAM], &seqno), CUDA_SUCCESS);
	assert_false(timeline_reached(&streams[STREAM], seqno));
	assert_int_equal(pthread_create(&thread, NULL, die_later, user), 0);
	assert_int_equal(timeline_wait(&streams[STREAM], seqno), expected);
	pthread_join(thread, NULL);
	assert_true(n_watches > 0);
}

static void test_wait_ends(void **state)
{
	(void)state;
	wait_that_fails(NULL, CUDA_ERROR_MPS_RPC_FAILURE);
	server.is_dead = 0;
	wait_that_fails(page, CUDA_ERROR_ILLEGAL_ADDRESS);
	page->fault = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_all_of_it),
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_seqno_covers_later_work),
		cmocka_unit_test(test_wait_ends),
	};

	return cmocka_run_group_tests_name("client_staging", tests, setup, link_teardown);
}
