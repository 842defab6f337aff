/* SPDX-License-Identifier: Apache-2.0 */

/* Frames to a peer that reads later: each arrives whole, once and in order. */

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <cmocka.h>

#include "frame.h"
#include "server/link/frame_queue.h"

#define FRAMES 2000u

struct fixture {
	int sock[2];
	struct frame_queue queue;
	bool is_short; /* of memory */
};

static struct fixture fixture;

void *__real_realloc(void *at, size_t size);
void *__wrap_realloc(void *at, size_t size);

void *__wrap_realloc(void *at, size_t size)
{
	return fixture.is_short ? NULL : __real_realloc(at, size);
}

static int setup(_unused_ void **state)
{
	fixture = (struct fixture){0};
	return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fixture.sock);
}

static int teardown(_unused_ void **state)
{
	frame_queue_clear(&fixture.queue);
	closep(&fixture.sock[0]);
	closep(&fixture.sock[1]);
	return 0;
}

static int send_number(uint64_t number)
{
	struct frame_counters frame = {.client = number};

	frame_init(&frame, FRAME_COUNTERS, 0);
	return frame_queue_send(&fixture.queue, fixture.sock[0], &frame);
}

/* Reads the frames that have arrived; returns the number that follows the last one. */
static uint64_t read_numbers(struct frame_reader *reader, uint64_t expected)
{
	const struct frame_counters *frame = (const void *)reader->bytes;

	while (frame_read(reader, fixture.sock[1]) > 0) {
		assert_int_equal(frame->head.type, FRAME_COUNTERS);
		assert_int_equal(frame->client, expected++);
		frame_reader_reset(reader);
	}
	return expected;
}

static void test_order(_unused_ void **state)
{
	struct frame_reader reader;
	uint64_t n = 0, last;

	frame_reader_init(&reader, frame_close_fd);
	for (uint64_t i = 0; i < FRAMES; i++)
		assert_int_equal(send_number(i), 0);
	assert_false(frame_queue_is_empty(&fixture.queue));
	while (n < FRAMES) {
		last = n;
		n = read_numbers(&reader, n);
		assert_true(n > last);
		assert_int_equal(frame_queue_flush(&fixture.queue, fixture.sock[0]), 0);
	}
	assert_true(frame_queue_is_empty(&fixture.queue));
	/* The next one needs no queue. */
	assert_int_equal(send_number(n), 0);
	assert_true(frame_queue_is_empty(&fixture.queue));
	assert_int_equal(read_numbers(&reader, n), n + 1);
	frame_reader_fini(&reader);
}

/* Frames that come while others wait go behind them, whatever the socket takes by then. */
static void test_order_with_space(_unused_ void **state)
{
	struct frame_reader reader;
	uint64_t sent = 0, n = 0;

	frame_reader_init(&reader, frame_close_fd);
	while (frame_queue_is_empty(&fixture.queue))
		assert_int_equal(send_number(sent++), 0);
	n = read_numbers(&reader, n);
	assert_int_equal(send_number(sent++), 0);
	assert_int_equal(frame_queue_flush(&fixture.queue, fixture.sock[0]), 0);
	assert_int_equal(read_numbers(&reader, n), sent);
	frame_reader_fini(&reader);
}

static void test_closed_peer(_unused_ void **state)
{
	while (frame_queue_is_empty(&fixture.queue))
		assert_int_equal(send_number(1), 0);
	closep(&fixture.sock[1]);
	fixture.sock[1] = -EBADF;
	assert_int_equal(frame_queue_flush(&fixture.queue, fixture.sock[0]), -EPIPE);
	frame_queue_clear(&fixture.queue);
	assert_int_equal(send_number(1), -EPIPE);
	assert_true(frame_queue_is_empty(&fixture.queue));
}

static void test_without_memory(_unused_ void **state)
{
	int r;

	fixture.is_short = true;
	do
		r = send_number(1);
	while (r == 0);
	assert_int_equal(r, -ENOMEM);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_order),
		TEST(test_order_with_space),
		TEST(test_closed_peer),
		TEST(test_without_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
