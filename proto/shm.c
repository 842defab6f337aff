/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Sealed memfds. Any thread.
 *
 * Invariant: memory that this file maps cannot shrink any more, so an access to
 * it never raises SIGBUS.
 */

#include "shm.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#ifndef F_ADD_SEALS
#define F_ADD_SEALS 1033
#define F_GET_SEALS 1034
#define F_SEAL_SEAL 1
#define F_SEAL_SHRINK 2
#define F_SEAL_GROW 4
#define F_SEAL_WRITE 8
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 16
#endif

#define SEALS_SIZE (F_SEAL_SHRINK | F_SEAL_GROW)

/* By number: glibc has the function since 2.27, which the client library must not need. */
static int memfd(const char *name)
{
	const unsigned cloexec = 1, allow_sealing = 2;
	long fd = syscall(SYS_memfd_create, name, cloexec | allow_sealing);

	return fd < 0 ? -errno : (int)fd;
}

static int file_size(int fd, size_t *ret_size)
{
	off_t end = lseek(fd, 0, SEEK_END);

	if (end < 0)
		return -errno;
	*ret_size = (size_t)end;
	return 0;
}

int shm_create(const char *name, size_t size, enum shm_kind kind, int *ret_fd, __shm void **ret_map)
{
	int seals = SEALS_SIZE | F_SEAL_SEAL | (kind == SHM_OURS ? F_SEAL_FUTURE_WRITE : 0);
	_cleanup_close_ int fd = memfd(name);
	void *map;

	if (fd < 0)
		return fd;
	if (ftruncate(fd, (off_t)size) < 0)
		return -errno;
	map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	/* After mapping: FUTURE_WRITE does not affect existing mappings. */
	if (fcntl(fd, F_ADD_SEALS, seals) < 0) {
		int r = -errno;

		munmap(map, size);
		return r;
	}
	*ret_fd = TAKE_FD(fd);
	*ret_map = (__shm void *)(uintptr_t)map;
	return 0;
}

static int check_sealed(int fd, size_t size, int wanted)
{
	int seals = fcntl(fd, F_GET_SEALS);
	size_t actual = 0;
	int r;

	if (seals < 0 || (seals & wanted) != wanted)
		return -EBADMSG;
	r = file_size(fd, &actual);
	if (r < 0)
		return r;
	return actual == size ? 0 : -EBADMSG;
}

int shm_map(int fd, size_t size, enum shm_kind kind, __shm void **ret_map)
{
	int prot = PROT_READ | (kind == SHM_THEIRS ? PROT_WRITE : 0);
	int r = check_sealed(fd, size, SEALS_SIZE);
	void *map;

	if (r < 0)
		return r;
	map = mmap(NULL, size, prot, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	/* A forked child must not write a ring that its parent still uses. */
	if (madvise(map, size, MADV_DONTFORK) < 0 || madvise(map, size, MADV_DONTDUMP) < 0) {
		r = -errno;
		munmap(map, size);
		return r;
	}
	*ret_map = (__shm void *)(uintptr_t)map;
	return 0;
}

/* Neither moves nor replaces anything: the address is a hint, which the kernel follows if it can.
 */
int shm_map_part(int fd, uint64_t offset, uint64_t address, size_t size)
{
	void *wanted = (void *)(uintptr_t)address;
	void *map = mmap(wanted, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd,
		(off_t)offset);

	if (map == MAP_FAILED)
		return -errno;
	if (map == wanted)
		return 0;
	munmap(map, size);
	return -EEXIST;
}

int shm_create_at(const char *name, uint64_t address, size_t size, int *ret_fd)
{
	_cleanup_close_ int fd = memfd(name);
	int r;

	if (fd < 0)
		return fd;
	if (ftruncate(fd, (off_t)size) < 0 || fcntl(fd, F_ADD_SEALS, SEALS_SIZE | F_SEAL_SEAL) < 0)
		return -errno;
	r = shm_map_part(fd, 0, address, size);
	if (r == 0)
		*ret_fd = TAKE_FD(fd);
	return r;
}

int shm_check(int fd, size_t size)
{
	return check_sealed(fd, size, SEALS_SIZE);
}

int shm_map_image(int fd, size_t size, void **ret_map)
{
	int r = check_sealed(fd, size, SEALS_SIZE | F_SEAL_WRITE);
	void *map;

	if (r < 0)
		return r;
	if (size == 0)
		return -EBADMSG;
	map = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	*ret_map = map;
	return 0;
}

static int write_all(int fd, const uint8_t *data, size_t size)
{
	while (size > 0) {
		ssize_t n = write(fd, data, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		data += n;
		size -= (size_t)n;
	}
	return 0;
}

int shm_create_image(const char *name, const void *data, size_t size, int *ret_fd)
{
	_cleanup_close_ int fd = memfd(name);
	int r;

	if (fd < 0)
		return fd;
	r = write_all(fd, data, size);
	if (r < 0)
		return r;
	if (fcntl(fd, F_ADD_SEALS, SEALS_SIZE | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
		return -errno;
	*ret_fd = TAKE_FD(fd);
	return 0;
}
