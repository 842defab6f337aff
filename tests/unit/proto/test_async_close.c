/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Descriptors that another thread closes: soon, many at once, and descriptors whose
 * close would block.
 */

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <cmocka.h>

#include "async_close.h"
#include "base.h"

#define PATIENCE_MS 30000

static void sleep_briefly(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void wait_until_closed(void)
{
	int64_t until = now_ms() + PATIENCE_MS;

	while (async_close_pending() > 0 && now_ms() < until)
		sleep_briefly();
	assert_int_equal(async_close_pending(), 0);
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static void test_closes(_unused_ void **state)
{
	int fd = dup(STDERR_FILENO);

	assert_int_equal(async_close_start(), 0);
	assert_int_equal(async_close_start(), 0);
	errno = ENOTTY;
	async_close(fd);
	assert_int_equal(errno, ENOTTY);
	async_close(-EBADF);
	wait_until_closed();
	assert_false(is_open(fd));
}

static void test_many(_unused_ void **state)
{
	int fds[300];

	for (unsigned i = 0; i < ARRAY_SIZE(fds); i++)
		assert_true((fds[i] = dup(STDERR_FILENO)) >= 0);
	for (unsigned i = 0; i < ARRAY_SIZE(fds); i++)
		async_close(fds[i]);
	wait_until_closed();
	for (unsigned i = 0; i < ARRAY_SIZE(fds); i++)
		assert_false(is_open(fds[i]));
}

/* A socket whose close waits two minutes for the other end to read. */
static int lingering_socket(int *ret_other)
{
	const struct linger linger = {.l_onoff = 1, .l_linger = 120};
	struct sockaddr_in address = {.sin_family = AF_INET};
	socklen_t size = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);
	static char bytes[65536];

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(listener, (struct sockaddr *)&address, size), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, size), 0);
	*ret_other = accept(listener, NULL, NULL);
	close(listener);
	while (send(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
	return fd;
}

static void test_sockets_that_linger(_unused_ void **state)
{
	int64_t began = now_ms();
	int others[100];

	for (unsigned i = 0; i < ARRAY_SIZE(others); i++)
		async_close(lingering_socket(&others[i]));
	wait_until_closed();
	assert_in_range(now_ms() - began, 0, PATIENCE_MS);
	for (unsigned i = 0; i < ARRAY_SIZE(others); i++)
		close(others[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_closes),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_sockets_that_linger),
	};

	return cmocka_run_group_tests_name("async_close", tests, NULL, NULL);
}
