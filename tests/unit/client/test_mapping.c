/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Which file belongs to a mapping: found by descriptor, by name, or not at all. And
 * making pages present, also on a kernel without that advice.
 */

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "client/util/mapping.h"

#define PAGES 8u

static size_t page;
static bool is_old_kernel;

int __real_madvise(void *addr, size_t size, int advice);
int __wrap_madvise(void *addr, size_t size, int advice);

int __wrap_madvise(void *addr, size_t size, int advice)
{
	if (!is_old_kernel)
		return __real_madvise(addr, size, advice);
	errno = EINVAL;
	return -1;
}

static int memory_file(void)
{
	int fd = memfd_create("mapping", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)(PAGES * page)), 0);
	return fd;
}

static uint8_t *map(int fd, int protection, int flags, size_t first, size_t n)
{
	void *p = mmap(NULL, n * page, protection, flags, fd, (off_t)(first * page));

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static uint8_t *map_shared(int fd)
{
	return map(fd, PROT_READ | PROT_WRITE, MAP_SHARED, 0, PAGES);
}

/* The result of mapping_open(); a file must be that of `fd', at `offset'. */
static int look(const void *address, size_t size, int fd, uint64_t offset)
{
	struct mapping mapping;
	struct stat file, found;
	int r = mapping_open((uintptr_t)address, size, &mapping);

	if (r < 0)
		return r;
	assert_int_equal(fstat(mapping.fd, &found), 0);
	assert_int_equal(found.st_ino, mapping.inode);
	assert_int_equal(found.st_dev, mapping.filesystem);
	assert_int_equal(mapping.offset, offset);
	assert_int_equal(fcntl(mapping.fd, F_GETFL) & O_ACCMODE, O_RDWR);
	if (fd >= 0) {
		assert_int_equal(fstat(fd, &file), 0);
		assert_int_equal(file.st_ino, mapping.inode);
	}
	r = mapping.is_owned;
	mapping_close(&mapping);
	return r;
}

static void test_descriptor(void **state)
{
	int fd = memory_file(), other = memory_file();
	uint8_t *p = map_shared(fd), *q = map(fd, PROT_READ | PROT_WRITE, MAP_SHARED, 3, 2);

	(void)state;
	assert_int_equal(look(p, PAGES * page, fd, 0), 0);
	assert_int_equal(look(p + 5, 1, fd, 5), 0);
	assert_int_equal(look(q + 7, page, fd, 3 * page + 7), 0);
	/* Its mapping in several areas that still follow each other. */
	assert_int_equal(madvise(p + page, page, MADV_DONTFORK), 0);
	assert_int_equal(look(p, PAGES * page, fd, 0), 0);
	/* Another file, other bytes, fewer rights in the middle. */
	assert_ptr_equal(mmap(p + 6 * page, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
				 other, (off_t)(6 * page)),
		p + 6 * page);
	assert_int_equal(look(p, 6 * page, fd, 0), 0);
	assert_int_equal(look(p, 6 * page + 1, fd, 0), -EINVAL);
	assert_int_equal(look(p + 6 * page, page, other, 6 * page), 0);
	assert_ptr_equal(mmap(p + 4 * page, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
				 fd, (off_t)(5 * page)),
		p + 4 * page);
	assert_int_equal(look(p, 5 * page, fd, 0), -EINVAL);
	assert_int_equal(mprotect(p + 2 * page, page, PROT_READ), 0);
	assert_int_equal(look(p, 2 * page, fd, 0), 0);
	assert_int_equal(look(p, 3 * page, fd, 0), -EINVAL);
	munmap(p, PAGES * page);
	assert_int_equal(look(p, page, fd, 0), -EINVAL);
	munmap(q, 2 * page);
	close(other);
	close(fd);
}

static void test_nothing_leads_there(void **state)
{
	int fd = memory_file();
	uint8_t *p = map_shared(fd), *anonymous, *own;
	char path[32];
	int reading;

	(void)state;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	reading = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(reading >= 0);
	close(fd);
	assert_int_equal(look(p, page, -1, 0), -EACCES);
	close(reading);
	assert_int_equal(look(p, page, -1, 0), -ENOENT);
	munmap(p, PAGES * page);
	anonymous = map(-1, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, 0, 1);
	assert_int_equal(look(anonymous, page, -1, 0), -ENOENT);
	munmap(anonymous, page);
	own = map(-1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, 0, 1);
	assert_int_equal(look(own, page, -1, 0), -EINVAL);
	munmap(own, page);
}

static void test_private(void **state)
{
	int fd = memory_file();
	uint8_t *p = map(fd, PROT_READ | PROT_WRITE, MAP_PRIVATE, 0, 1);
	uint8_t *read_only = map(fd, PROT_READ, MAP_SHARED, 0, 1);

	(void)state;
	assert_int_equal(look(p, page, fd, 0), -EINVAL);
	assert_int_equal(look(read_only, page, fd, 0), -EINVAL);
	munmap(p, page);
	munmap(read_only, page);
	close(fd);
}

/* Closing any descriptor of a file drops its record locks, so such a file is never opened. */
static bool is_locked(const char *name)
{
	int status = 0;
	pid_t child = fork();

	if (child == 0) {
		struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
		int fd = shm_open(name, O_RDWR, 0);

		_exit(fcntl(fd, F_SETLK, &lock) < 0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return status != 0;
}

static void test_name(void **state)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	char name[64];
	uint8_t *p;
	int fd;

	(void)state;
	snprintf(name, sizeof(name), "/mps mapping %d", (int)getpid());
	fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)(PAGES * page)), 0);
	p = map_shared(fd);
	assert_int_equal(fcntl(fd, F_SETLK, &lock), 0);
	assert_int_equal(look(p, page, fd, 0), 0);
	assert_true(is_locked(name));
	close(fd);
	assert_int_equal(look(p + page, page, -1, page), 1);
	/* Another file with that name. */
	shm_unlink(name);
	assert_int_equal(look(p, page, -1, 0), -ENOENT);
	fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
	assert_true(fd >= 0);
	assert_int_equal(look(p, page, -1, 0), -ENOENT);
	close(fd);
	shm_unlink(name);
	munmap(p, PAGES * page);
}

/* A mapping of the program's own file, which is not written. */
static void test_disk(void **state)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	char path[] = "/var/tmp/mapping-XXXXXX";
	uint8_t *p;

	(void)state;
	close(fd);
	fd = mkstemp(path);
	if (fd < 0)
		skip();
	assert_int_equal(ftruncate(fd, (off_t)(PAGES * page)), 0);
	p = map_shared(fd);
	assert_int_equal(look(p, page, fd, 0), -ENOTSUP);
	close(fd);
	assert_int_equal(look(p, page, -1, 0), -ENOTSUP);
	unlink(path);
	munmap(p, PAGES * page);
}

static unsigned count_present(uint8_t *p)
{
	unsigned char present[PAGES];
	unsigned n = 0;

	assert_int_equal(mincore(p, PAGES * page, present), 0);
	for (unsigned i = 0; i < PAGES; i++)
		n += present[i] & 1;
	return n;
}

static void populate(bool is_old)
{
	int fd = memory_file();
	uint8_t *p = map_shared(fd);

	is_old_kernel = is_old;
	assert_int_equal(mapping_populate((uintptr_t)p + page + 1, 2 * page), 0);
	assert_int_equal(count_present(p), 3);
	p[1] = 7;
	assert_int_equal(mapping_populate((uintptr_t)p, PAGES * page), 0);
	assert_int_equal(count_present(p), PAGES);
	assert_int_equal(p[1], 7);
	/* Past the file's end: an error, and no signal. */
	assert_int_equal(ftruncate(fd, (off_t)page), 0);
	assert_int_equal(mapping_populate((uintptr_t)p, page), 0);
	assert_int_equal(mapping_populate((uintptr_t)p, page + 1), -EFAULT);
	is_old_kernel = false;
	munmap(p, PAGES * page);
	close(fd);
}

static void test_populate(void **state)
{
	(void)state;
	populate(false);
	populate(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_descriptor),
		cmocka_unit_test(test_nothing_leads_there),
		cmocka_unit_test(test_private),
		cmocka_unit_test(test_name),
		cmocka_unit_test(test_disk),
		cmocka_unit_test(test_populate),
	};

	page = (size_t)sysconf(_SC_PAGESIZE);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
