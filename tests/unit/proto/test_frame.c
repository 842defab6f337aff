/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Frames: whole ones, split ones, malformed ones, descriptors, and that no byte past
 * a frame is read.
 */

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <cmocka.h>

#include "frame.h"

struct fixture {
	int sock[2];
	int n_fds_before;
	struct frame_reader reader;
};

static int count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->n_fds_before = count_fds();
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, f->sock), 0);
	frame_reader_init(&f->reader, frame_close_fd);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	int leaked;

	frame_reader_fini(&f->reader);
	close(f->sock[0]);
	close(f->sock[1]);
	leaked = count_fds() - f->n_fds_before;
	free(f);
	return leaked;
}

static struct frame_image image_frame(uint64_t size)
{
	struct frame_image frame = {.size = size};

	frame_init(&frame, FRAME_IMAGE, 1);
	return frame;
}

static void test_carries_a_frame_with_its_descriptor(void **state)
{
	struct fixture *f = *state;
	struct frame_image frame = image_frame(42);
	struct frame_image *got = (void *)f->reader.bytes;
	int fd, null = dup(STDERR_FILENO);

	assert_int_equal(frame_read(&f->reader, f->sock[1]), 0);
	assert_int_equal(frame_send(f->sock[0], &frame, &null, 100), 0);
	assert_int_equal(frame_read_wait(&f->reader, f->sock[1], 100), 0);
	assert_int_equal(got->head.type, FRAME_IMAGE);
	assert_int_equal(got->size, 42);
	fd = frame_take_fd(&f->reader, 0);
	assert_true(fd >= 0);
	assert_int_equal(frame_take_fd(&f->reader, 0), -EBADF);
	assert_int_equal(frame_take_fd(&f->reader, 1), -EBADF);
	close(fd);
	close(null);
}

static void test_stops_at_the_end_of_a_frame(void **state)
{
	struct fixture *f = *state;
	struct frame_image frame = image_frame(1);
	int null = dup(STDERR_FILENO);

	assert_int_equal(frame_send(f->sock[0], &frame, &null, 100), 0);
	frame.size = 2;
	assert_int_equal(frame_send(f->sock[0], &frame, &null, 100), 0);
	close(null);
	for (uint64_t i = 1; i <= 2; i++) {
		assert_int_equal(frame_read(&f->reader, f->sock[1]), 1);
		assert_int_equal(((struct frame_image *)f->reader.bytes)->size, i);
		assert_int_equal(f->reader.n_fds, 1);
		frame_reader_reset(&f->reader);
	}
	assert_int_equal(frame_read_wait(&f->reader, f->sock[1], 10), -ETIMEDOUT);
}

static void test_collects_single_bytes(void **state)
{
	struct fixture *f = *state;
	struct frame_refused frame = {.result = 805, .text = "why"};
	const char *bytes = (const char *)&frame;

	frame_init(&frame, FRAME_REFUSED, 0);
	for (size_t i = 0; i < sizeof(frame); i++) {
		assert_int_equal(frame_read(&f->reader, f->sock[1]), 0);
		assert_int_equal(write(f->sock[0], bytes + i, 1), 1);
	}
	assert_int_equal(frame_read(&f->reader, f->sock[1]), 1);
	assert_memory_equal(f->reader.bytes, &frame, sizeof(frame));
}

static void expect_malformed(struct frame_head head)
{
	struct frame_reader reader;
	char bytes[FRAME_MAX] = {0};
	int sock[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sock), 0);
	memcpy(bytes, &head, sizeof(head));
	assert_int_equal(write(sock[0], bytes, sizeof(bytes)), sizeof(bytes));
	frame_reader_init(&reader, frame_close_fd);
	assert_int_equal(frame_read(&reader, sock[1]), -EBADMSG);
	frame_reader_fini(&reader);
	close(sock[0]);
	close(sock[1]);
}

static void test_refuses_malformed_heads(void **state)
{
	struct frame_head good = {
		.type = FRAME_SHUTDOWN, .size = (uint32_t)frame_size(FRAME_SHUTDOWN)};
	struct frame_head head;

	(void)state;
	head = good, head.zero = 1, expect_malformed(head);
	head = good, head.type = 0, expect_malformed(head);
	head = good, head.type = FRAME_TYPE_MAX + 1, expect_malformed(head);
	head = good, head.type = 255, expect_malformed(head);
	head = good, head.size = 8, expect_malformed(head);
	head = good, head.size = UINT32_MAX, expect_malformed(head);
	/* Announced, but not sent. */
	head = (struct frame_head){
		.type = FRAME_IMAGE, .n_fds = 1, .size = (uint32_t)frame_size(FRAME_IMAGE)};
	expect_malformed(head);
	head.n_fds = 0, expect_malformed(head);
	head.n_fds = 9, expect_malformed(head);
}

static void send_raw(int sock, const void *bytes, size_t size, int n_fds)
{
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(int) * 8)];
	} control = {0};
	struct iovec iov = {(void *)(uintptr_t)bytes, size};
	struct msghdr msg = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)n_fds)};

	control.head.cmsg_level = SOL_SOCKET;
	control.head.cmsg_type = SCM_RIGHTS;
	control.head.cmsg_len = CMSG_LEN(sizeof(int) * (size_t)n_fds);
	for (int i = 0; i < n_fds; i++)
		((int *)CMSG_DATA(&control.head))[i] = STDERR_FILENO;
	assert_int_equal(sendmsg(sock, &msg, 0), (int)size);
}

static void test_closes_unexpected_descriptors(void **state)
{
	struct fixture *f = *state;
	struct frame_shutdown frame = {0};

	frame_init(&frame, FRAME_SHUTDOWN, 0);
	send_raw(f->sock[0], &frame, sizeof(frame), 2);
	assert_int_equal(frame_read(&f->reader, f->sock[1]), -EBADMSG);
	frame_reader_reset(&f->reader);
	send_raw(f->sock[0], &frame, sizeof(frame), 8);
	assert_int_equal(frame_read(&f->reader, f->sock[1]), -EBADMSG);
}

static void test_tells_a_closed_peer(void **state)
{
	struct fixture *f = *state;
	struct frame_shutdown frame = {0};

	frame_init(&frame, FRAME_SHUTDOWN, 0);
	assert_int_equal(write(f->sock[0], &frame, 5), 5);
	shutdown(f->sock[0], SHUT_RDWR);
	assert_int_equal(frame_read(&f->reader, f->sock[1]), -ECONNRESET);
	assert_int_equal(frame_send(f->sock[0], &frame, NULL, 10), -EPIPE);
}

static void test_sending_has_a_deadline(void **state)
{
	struct fixture *f = *state;
	struct frame_hello frame = {0};
	int r;

	frame_init(&frame, FRAME_HELLO, 0);
	do
		r = frame_send(f->sock[0], &frame, NULL, 10);
	while (r == 0);
	assert_int_equal(r, -ETIMEDOUT);
}

static void test_text_ends_in_zeros(void **state)
{
	(void)state;
	assert_true(frame_text_ok("abc\0\0", 5));
	assert_true(frame_text_ok("\0\0", 2));
	assert_false(frame_text_ok("abc", 3));
	assert_false(frame_text_ok("a\0c\0", 4));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_carries_a_frame_with_its_descriptor),
		TEST(test_stops_at_the_end_of_a_frame),
		TEST(test_collects_single_bytes),
		TEST(test_refuses_malformed_heads),
		TEST(test_closes_unexpected_descriptors),
		TEST(test_tells_a_closed_peer),
		TEST(test_sending_has_a_deadline),
		TEST(test_text_ends_in_zeros),
	};

	return cmocka_run_group_tests_name("frame", tests, NULL, NULL);
}
