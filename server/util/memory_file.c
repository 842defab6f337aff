/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Files of memory. Any thread.
 *
 * Invariant: no such file is mapped.
 */

#include "memory_file.h"

#include <sys/mman.h>

#include "fd_kind.h"

int memory_file_new(const char *name)
{
	int fd = memfd_create(name, MFD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

bool memory_file_ok(int fd, uint64_t size)
{
	struct fd_facts facts;

	return fd >= 0 && fd_kind(fd) == FD_MEMORY && fd_facts(fd, &facts) == 0 &&
	       facts.size == size;
}

int memory_file_write(int fd, const void *bytes, uint64_t size, uint64_t at)
{
	const uint8_t *from = bytes;

	while (size > 0) {
		ssize_t n = pwrite(fd, from, size, (off_t)at);

		if (n <= 0)
			return n < 0 ? -errno : -ENOMEM;
		from += n;
		at += (uint64_t)n;
		size -= (uint64_t)n;
	}
	return 0;
}

int memory_file_read(int fd, void *bytes, uint64_t size, uint64_t at)
{
	uint8_t *to = bytes;

	while (size > 0) {
		ssize_t n = pread(fd, to, size, (off_t)at);

		if (n <= 0)
			return n < 0 ? -errno : -EBADMSG;
		to += n;
		at += (uint64_t)n;
		size -= (uint64_t)n;
	}
	return 0;
}
