/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Mappings and their files, from /proc/self. Any thread of the application.
 *
 * Invariant: this file never opens and closes a descriptor of a file that the
 * program has open, because closing any descriptor of a file drops the program's
 * record locks on that file.
 */

#include "mapping.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/vfs.h>

#include "number.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* Pages that one call reads if the kernel lacks this advice. */
#define READ_PAGES 512u

static void closedir_p(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

/* Skips `c' if it is next, and returns whether it was. */
static bool skip_char(const char **at, char c)
{
	bool is_there = **at == c;

	*at += is_there;
	return is_there;
}

/* start-end rwxs offset major:minor inode  path */
bool area_parse(const char *line, struct area *ret_area)
{
	unsigned major_number;
	const char *flags;

	ret_area->start = number_read(&line, 16);
	if (!skip_char(&line, '-'))
		return false;
	ret_area->end = number_read(&line, 16);
	flags = line + 1;
	if (!skip_char(&line, ' ') || strnlen(flags, 5) < 5)
		return false;
	ret_area->is_usable = flags[0] == 'r' && flags[1] == 'w' && flags[3] == 's';
	ret_area->is_private =
		flags[0] == 'r' && flags[1] == 'w' && flags[2] == '-' && flags[3] == 'p';
	line = flags + 4;
	if (!skip_char(&line, ' '))
		return false;
	ret_area->offset = number_read(&line, 16);
	if (!skip_char(&line, ' '))
		return false;
	major_number = (unsigned)number_read(&line, 16);
	if (!skip_char(&line, ':'))
		return false;
	ret_area->filesystem = makedev(major_number, (unsigned)number_read(&line, 16));
	if (!skip_char(&line, ' '))
		return false;
	ret_area->inode = number_read(&line, 10);
	ret_area->path = line + strspn(line, " ");
	return true;
}

/* Whether `next' continues `area' in memory and in the file. */
static bool area_follows(const struct area *area, const struct area *next)
{
	return next->is_usable && next->start == area->end &&
	       next->filesystem == area->filesystem && next->inode == area->inode &&
	       next->offset == area->offset + (area->end - area->start);
}

/* The area at `address', extended by the areas that continue it until it covers `size' bytes. */
static int find_area(
	uint64_t address, uint64_t size, struct area *ret_area, char ret_path[PATH_MAX])
{
	_cleanup_fclose_ FILE *maps = fopen("/proc/thread-self/maps", "re");
	_cleanup_free_ char *line = NULL;
	struct area area, whole = {0};
	size_t line_size = 0;
	ssize_t n;

	while (maps && (n = getline(&line, &line_size, maps)) > 0) {
		line[n - 1] = 0;
		if (!area_parse(line, &area) || area.end <= address)
			continue;
		if (whole.end == 0) {
			if (area.start > address || !area.is_usable)
				return -EINVAL;
			whole = area;
			snprintf(ret_path, PATH_MAX, "%s", area.path);
			whole.path = ret_path;
		} else if (area_follows(&whole, &area)) {
			whole.end = area.end;
		} else {
			return -EINVAL;
		}
		if (whole.end - address >= size) {
			*ret_area = whole;
			return 0;
		}
	}
	return -EINVAL;
}

/* By system call number: fstat() is a symbol only in newer libraries. */
static bool is_file(int fd, const struct area *area)
{
	struct stat file;

	return syscall(SYS_fstat, fd, &file) == 0 && S_ISREG(file.st_mode) &&
	       file.st_dev == area->filesystem && file.st_ino == area->inode;
}

static bool is_in_memory(int fd)
{
	struct statfs space;

	return fstatfs(fd, &space) == 0 &&
	       (space.f_type == TMPFS_MAGIC || space.f_type == HUGETLBFS_MAGIC);
}

/* A descriptor of the program for this file. -ENOENT: there is none; -EACCES: none is writable. */
static int find_descriptor(const struct area *area)
{
	_cleanup_(closedir_p) DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	int r = -ENOENT;

	while (dir && (entry = readdir(dir))) {
		const char *name = entry->d_name;
		int fd = (int)number_read(&name, 10);

		if (*name || fd == dirfd(dir) || !is_file(fd, area))
			continue;
		if ((fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR)
			return fd;
		r = -EACCES;
	}
	return r;
}

/* The program has no descriptor of this file, so no record locks on it, and opening it is safe. */
static int open_path(const struct area *area)
{
	_cleanup_close_ int named = open(area->path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	char link[32];
	int fd;

	/* Check without opening first: the path may name a device by now. */
	if (named < 0 || !is_file(named, area))
		return -ENOENT;
	if (!is_in_memory(named))
		return -ENOTSUP;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", named);
	fd = open(link, O_RDWR | O_CLOEXEC);
	return fd < 0 ? -EACCES : fd;
}

int mapping_open(uint64_t address, uint64_t size, struct mapping *ret_mapping)
{
	char path[PATH_MAX];
	struct area area;
	int r;

	*ret_mapping = (struct mapping){.fd = -EBADF};
	r = find_area(address, size, &area, path);
	if (r < 0)
		return r;
	r = find_descriptor(&area);
	if (r == -ENOENT) {
		r = open_path(&area);
		ret_mapping->is_owned = r >= 0;
	} else if (r >= 0 && !is_in_memory(r)) {
		r = -ENOTSUP;
	}
	if (r < 0)
		return r;
	ret_mapping->fd = r;
	ret_mapping->filesystem = area.filesystem;
	ret_mapping->inode = area.inode;
	ret_mapping->offset = area.offset + (address - area.start);
	return 0;
}

int mapping_file(struct mapping *mapping)
{
	struct stat file;

	if (syscall(SYS_fstat, mapping->fd, &file) < 0)
		return -errno;
	mapping->filesystem = file.st_dev;
	mapping->inode = file.st_ino;
	return 0;
}

void mapping_close(struct mapping *mapping)
{
	if (mapping->is_owned)
		closep(&mapping->fd);
	*mapping = (struct mapping){.fd = -EBADF};
}

/*
 * For kernels before 5.14: the kernel reads one byte of each page, and sends no
 * signal if it cannot.
 */
static int read_each(uint64_t start, uint64_t end, uint64_t page)
{
	struct iovec theirs[READ_PAGES];
	uint8_t bytes[READ_PAGES];
	struct iovec ours = {.iov_base = bytes};

	for (uint64_t at = start; at < end;) {
		unsigned n = 0;

		for (; at < end && n < READ_PAGES; at += page)
			theirs[n++] = (struct iovec){(void *)(uintptr_t)at, 1};
		ours.iov_len = n;
		if (process_vm_readv(getpid(), &ours, 1, theirs, n, 0) != (ssize_t)n)
			return -EFAULT;
	}
	return 0;
}

int mapping_populate(uint64_t address, uint64_t size)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t start = address & ~(page - 1), end = ALIGN_UP(address + size, page);

	if (madvise((void *)(uintptr_t)start, end - start, MADV_POPULATE_WRITE) == 0)
		return 0;
	return errno == EINVAL ? read_each(start, end, page) : -errno;
}
