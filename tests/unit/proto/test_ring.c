/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The ring: order with several threads, wrap, a full ring, wrong tails, and that
 * nothing is read twice (MPS_SCRIBBLE overwrites what was read).
 */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <cmocka.h>

#include "ring.h"

#define SLEEP_LONG_MS 60000

struct fixture {
	struct ring_control __shm *ring;
	struct page __shm *page;
	int ring_fd;
	int page_fd;
	struct ring_sender sender;
	struct ring_receiver receiver;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	void __shm *ring, *page;

	assert_int_equal(shm_create("ring", RING_BYTES, SHM_THEIRS, &f->ring_fd, &ring), 0);
	assert_int_equal(shm_create("page", PAGE_BYTES, SHM_OURS, &f->page_fd, &page), 0);
	f->ring = ring;
	f->page = page;
	ring_sender_init(&f->sender, f->ring, f->page);
	assert_int_equal(ring_receiver_init(&f->receiver, f->ring, f->page), 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	ring_receiver_fini(&f->receiver);
	shm_unmap(f->ring, RING_BYTES);
	shm_unmap(f->page, PAGE_BYTES);
	close(f->ring_fd);
	close(f->page_fd);
	free(f);
	return 0;
}

struct test_message {
	struct message_head head;
	uint32_t thread;
	uint32_t count;
};

static int push(struct fixture *f, uint32_t thread, uint32_t count, const void *tail, uint32_t size)
{
	struct test_message msg = {.head.op = 7, .thread = thread, .count = count};
	struct ring_part parts[] = {{&msg, sizeof(msg)}, {tail, size}};

	return ring_push(&f->sender, parts, 2, 10, NULL, NULL);
}

/* The next message, after a fetch if needed; NULL if there is none. */
static const struct test_message *next(struct fixture *f)
{
	const struct message_head *head;
	int r = ring_take(&f->receiver, &head);

	if (r == 0 && ring_fetch(&f->receiver) == 1)
		r = ring_take(&f->receiver, &head);
	return r == 1 ? (const struct test_message *)head : NULL;
}

static void test_carries_messages_in_order(void **state)
{
	struct fixture *f = *state;
	const struct test_message *msg;

	assert_null(next(f));
	for (uint32_t i = 0; i < 100; i++)
		assert_int_equal(push(f, 1, i, "abc", 3), 0);
	for (uint32_t i = 0; i < 100; i++) {
		msg = next(f);
		assert_non_null(msg);
		assert_int_equal(msg->head.seq, i + 1);
		assert_int_equal(msg->head.size, sizeof(*msg) + 8);
		assert_int_equal(msg->count, i);
		assert_memory_equal(msg + 1, "abc\0\0\0\0\0", 8);
	}
	assert_null(next(f));
}

static void test_survives_many_wraps(void **state)
{
	struct fixture *f = *state;
	static uint8_t tail[40000];
	uint32_t placed = 0, taken = 0;

	while (taken < 500) {
		uint32_t size = placed * 7919 % (uint32_t)sizeof(tail);

		memset(tail, (int)(placed & 0xff), size);
		if (push(f, 0, placed, tail, size) == 0) {
			placed++;
			continue;
		}
		while (taken < placed) {
			const struct test_message *msg = next(f);

			assert_non_null(msg);
			size = taken * 7919 % (uint32_t)sizeof(tail);
			memset(tail, (int)(taken & 0xff), size);
			assert_int_equal(msg->count, taken);
			assert_int_equal(
				msg->head.size, sizeof(*msg) + ALIGN_UP(size, MESSAGE_ALIGN));
			assert_memory_equal(msg + 1, tail, size);
			taken++;
		}
	}
}

static void test_takes_again_what_was_put_back(void **state)
{
	struct fixture *f = *state;
	const struct test_message *msg[5];

	assert_false(ring_has_whole(&f->receiver));
	for (uint32_t i = 0; i < 5; i++)
		assert_int_equal(push(f, 1, i, "abc", 3), 0);
	for (uint32_t i = 0; i < 4; i++)
		msg[i] = next(f);
	assert_true(ring_has_whole(&f->receiver));
	/* By a byte of its own, and by the byte behind it, which may begin the next one. */
	assert_true(ring_put_back(&f->receiver, (const uint8_t *)msg[3] + 1));
	assert_int_equal(next(f)->count, 3);
	assert_true(ring_put_back(&f->receiver, msg[2]));
	/* One behind that is back already. */
	assert_true(ring_put_back(&f->receiver, (const uint8_t *)msg[3] + 1));
	for (uint32_t i = 1; i < 5; i++)
		assert_int_equal(next(f)->count, i);
	assert_null(next(f));
	assert_false(ring_has_whole(&f->receiver));
	assert_false(ring_put_back(&f->receiver, state));
}

static bool dead(void *user)
{
	(void)user;
	return false;
}

static void test_full_ring_has_a_deadline(void **state)
{
	struct fixture *f = *state;
	static uint8_t tail[MESSAGE_MAX];
	struct test_message msg = {0};
	struct ring_part parts[] = {{&msg, sizeof(msg)}, {tail, 60000}};
	int r;

	do
		r = push(f, 0, 0, tail, 60000);
	while (r == 0);
	assert_int_equal(r, -ETIMEDOUT);
	assert_int_equal(ring_push(&f->sender, parts, 2, 10, dead, NULL), -EPIPE);
	assert_int_equal(push(f, 0, 0, tail, MESSAGE_MAX), -EMSGSIZE);
	assert_non_null(next(f));
	assert_int_equal(push(f, 0, 0, tail, 60000), 0);
}

static void test_refuses_a_lying_tail(void **state)
{
	struct fixture *f = *state;

	shm_store32(&f->ring->tail, RING_SIZE + 8);
	assert_int_equal(ring_fetch(&f->receiver), -EBADMSG);
	shm_store32(&f->ring->tail, 12);
	assert_int_equal(ring_fetch(&f->receiver), -EBADMSG);
	shm_store32(&f->ring->tail, (uint32_t)-8);
	assert_int_equal(ring_fetch(&f->receiver), -EBADMSG);
}

static void expect_bad_head(struct fixture *f, struct message_head head, int expected)
{
	const struct message_head *message;

	shm_copy_in(ring_data(f->ring), &head, sizeof(head));
	shm_store32(&f->ring->tail, sizeof(head));
	f->receiver.head = f->receiver.n_held = f->receiver.n_given = 0;
	assert_int_equal(ring_fetch(&f->receiver), 1);
	assert_int_equal(ring_take(&f->receiver, &message), expected);
}

static void test_refuses_bad_heads(void **state)
{
	struct fixture *f = *state;

	expect_bad_head(f, (struct message_head){.size = 16}, 1);
	expect_bad_head(f, (struct message_head){.size = 0}, -EBADMSG);
	expect_bad_head(f, (struct message_head){.size = 8}, -EBADMSG);
	expect_bad_head(f, (struct message_head){.size = 20}, -EBADMSG);
	expect_bad_head(f, (struct message_head){.size = MESSAGE_MAX + 8}, -EBADMSG);
	expect_bad_head(f, (struct message_head){.size = UINT32_MAX}, -EBADMSG);
	expect_bad_head(f, (struct message_head){.size = 16, .reserved = 1}, -EBADMSG);
	/* Not wrong yet: the rest may come. */
	expect_bad_head(f, (struct message_head){.size = 24}, 0);
}

#define THREADS 4
#define EACH 20000

struct pusher {
	struct fixture *f;
	uint32_t thread;
};

static void *push_many(void *arg)
{
	struct pusher *p = arg;
	static const uint8_t tail[64];

	for (uint32_t i = 0; i < EACH; i++) {
		struct test_message msg = {.head.op = 7, .thread = p->thread, .count = i};
		struct ring_part parts[] = {{&msg, sizeof(msg)}, {tail, i % 64}};

		if (ring_push(&p->f->sender, parts, 2, 10000, NULL, NULL) < 0)
			return p;
	}
	return NULL;
}

static void test_many_threads_one_order(void **state)
{
	struct fixture *f = *state;
	struct pusher pushers[THREADS];
	pthread_t threads[THREADS];
	uint32_t next_count[THREADS] = {0};
	uint32_t seq = 0;

	for (uint32_t i = 0; i < THREADS; i++) {
		pushers[i] = (struct pusher){f, i};
		assert_int_equal(pthread_create(&threads[i], NULL, push_many, &pushers[i]), 0);
	}
	while (seq < THREADS * EACH) {
		const struct test_message *msg = next(f);

		if (!msg) {
			ring_sleep(&f->receiver, 1000);
			continue;
		}
		assert_int_equal(msg->head.seq, ++seq);
		assert_true(msg->thread < THREADS);
		assert_int_equal(msg->count, next_count[msg->thread]++);
	}
	for (uint32_t i = 0; i < THREADS; i++) {
		void *failed;

		pthread_join(threads[i], &failed);
		assert_null(failed);
	}
}

static void *sleep_long(void *arg)
{
	struct fixture *f = arg;

	ring_sleep(&f->receiver, SLEEP_LONG_MS);
	return NULL;
}

/* Without a message, long before the sleep is over. */
static void test_wakes_a_receiver_that_sleeps(void **state)
{
	struct fixture *f = *state;
	pthread_t thread;
	unsigned n_wakes = 0;

	assert_int_equal(pthread_create(&thread, NULL, sleep_long, f), 0);
	do {
		assert_true(n_wakes++ < SLEEP_LONG_MS / 2);
		ring_wake(&f->sender);
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	} while (pthread_tryjoin_np(thread, NULL) == EBUSY);
	assert_null(next(f));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_carries_messages_in_order, setup, teardown),
		cmocka_unit_test_setup_teardown(test_survives_many_wraps, setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_takes_again_what_was_put_back, setup, teardown),
		cmocka_unit_test_setup_teardown(test_full_ring_has_a_deadline, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refuses_a_lying_tail, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refuses_bad_heads, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_threads_one_order, setup, teardown),
		cmocka_unit_test_setup_teardown(test_wakes_a_receiver_that_sleeps, setup, teardown),
	};

	return cmocka_run_group_tests_name("ring", tests, NULL, NULL);
}
