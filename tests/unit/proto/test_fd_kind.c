/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The kind of file that a descriptor refers to.
 */

#include <fcntl.h>
#include <linux/memfd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "base.h"
#include "fd_kind.h"

/* Also closes it. */
static enum fd_kind kind_of(int fd)
{
	enum fd_kind kind;

	assert_true(fd >= 0);
	kind = fd_kind(fd);
	close(fd);
	return kind;
}

static void test_memory(_unused_ void **state)
{
	char path[] = "/dev/shm/mps-test-XXXXXX";
	int fd = mkstemp(path);

	assert_int_equal(kind_of(memfd_create("test", 0)), FD_MEMORY);
	assert_int_equal(kind_of(memfd_create("test", MFD_ALLOW_SEALING)), FD_MEMORY);
	if (fd < 0)
		return;
	unlink(path);
	assert_int_equal(kind_of(fd), FD_MEMORY);
}

static void test_devices(_unused_ void **state)
{
	assert_int_equal(kind_of(open("/dev/null", O_RDWR)), FD_DEVICE);
	assert_int_equal(kind_of(eventfd(0, 0)), FD_DEVICE);
	assert_int_equal(kind_of(epoll_create1(0)), FD_DEVICE);
}

static void test_others(_unused_ void **state)
{
	int pair[2], pipes[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	assert_int_equal(pipe(pipes), 0);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(kind_of(pair[i]), FD_OTHER);
		assert_int_equal(kind_of(pipes[i]), FD_OTHER);
	}
	assert_int_equal(kind_of(open("/proc/self/exe", O_RDONLY)), FD_OTHER);
	assert_int_equal(kind_of(open("/", O_RDONLY)), FD_OTHER);
	assert_int_equal(kind_of(open("/", O_PATH)), FD_OTHER);
	assert_int_equal(fd_kind(-1), FD_OTHER);
	assert_int_equal(fd_kind(12345), FD_OTHER);
}

/* As fstat() says, which may ask the file system. */
static void assert_facts(int fd, uint64_t page)
{
	struct fd_facts facts;
	struct stat file;

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)(3 * page)), 0);
	assert_int_equal(fstat(fd, &file), 0);
	assert_int_equal(fd_facts(fd, &facts), 0);
	assert_int_equal(facts.filesystem, file.st_dev);
	assert_int_equal(facts.inode, file.st_ino);
	assert_int_equal(facts.size, 3 * page);
	assert_int_equal(facts.page, page);
	close(fd);
}

static void test_facts(_unused_ void **state)
{
	char path[] = "/dev/shm/mps-test-XXXXXX";
	struct fd_facts facts;
	int fd = mkstemp(path), huge = memfd_create("test", MFD_HUGETLB | MFD_HUGE_2MB);

	assert_facts(memfd_create("test", 0), (uint64_t)sysconf(_SC_PAGESIZE));
	if (fd >= 0) {
		unlink(path);
		assert_facts(fd, (uint64_t)sysconf(_SC_PAGESIZE));
	}
	if (huge >= 0)
		assert_facts(huge, 2 << 20);
	assert_int_equal(fd_facts(-1, &facts), -EBADF);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_devices),
		cmocka_unit_test(test_others),
		cmocka_unit_test(test_facts),
	};

	return cmocka_run_group_tests_name("fd_kind", tests, NULL, NULL);
}
