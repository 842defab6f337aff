/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Descriptors in a program that may use all numbers as it likes. Any thread of the application;
 * note_standard() also runs when the library is loaded.
 *
 * Invariant: this library writes to no file that it has not opened itself, except to what standard
 * output and error were when it was loaded.
 */

#include "descriptor.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "quiet.h"

#define FIRST_FREE (STDERR_FILENO + 1)

static struct descriptor standard[FIRST_FREE];
static atomic_bool is_noted;

int descriptor_raise(int fd)
{
	int raised;

	if (fd < 0 || fd >= FIRST_FREE)
		return fd < 0 ? -errno : fd;
	raised = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FREE);
	if (raised < 0)
		raised = -errno;
	close(fd);
	return raised;
}

/* By number: fstat() is a symbol only in newer libraries. */
static bool look(int fd, struct stat *ret)
{
	return fd >= 0 && syscall(SYS_fstat, fd, ret) == 0;
}

static void note_file(struct descriptor *descriptor, const struct stat *file)
{
	descriptor->filesystem = file->st_dev;
	descriptor->inode = file->st_ino;
}

void descriptor_note(struct descriptor *descriptor, int fd)
{
	struct stat file;

	descriptor->fd = look(fd, &file) ? fd : -EBADF;
	if (descriptor->fd >= 0)
		note_file(descriptor, &file);
}

bool descriptor_is_same(const struct descriptor *descriptor)
{
	struct stat file;

	return look(descriptor->fd, &file) && file.st_dev == descriptor->filesystem &&
	       file.st_ino == descriptor->inode;
}

int descriptor_replace(struct descriptor *descriptor, int fd)
{
	struct stat file;

	if (!look(fd, &file) || !descriptor_is_same(descriptor))
		return -EBADF;
	if (dup3(fd, descriptor->fd, O_CLOEXEC) < 0)
		return -errno;
	note_file(descriptor, &file);
	return 0;
}

void descriptor_close(struct descriptor *descriptor)
{
	if (descriptor_is_same(descriptor))
		close(descriptor->fd);
	descriptor->fd = -EBADF;
}

int descriptor_write(const struct descriptor *descriptor, const void *bytes, size_t size)
{
	const char *at = bytes;
	struct quiet quiet;
	int r = 0;

	if (!descriptor_is_same(descriptor))
		return -EBADF;
	quiet_begin(&quiet);
	while (size > 0 && r == 0) {
		/* Not write(), which is a cancellation point. */
		long n = syscall(SYS_write, descriptor->fd, at, size);

		if (n >= 0) {
			at += n;
			size -= (size_t)n;
		} else if (errno != EINTR) {
			r = -errno;
		}
	}
	quiet_end(&quiet);
	return r;
}

/* No other thread of the program can use this library yet. */
__attribute__((constructor)) static void note_standard(void)
{
	int saved = errno;

	if (!atomic_exchange(&is_noted, true))
		for (int fd = 0; fd < FIRST_FREE; fd++)
			descriptor_note(&standard[fd], fd);
	errno = saved;
}

const struct descriptor *descriptor_standard(int fd)
{
	/* Another library's constructor may call this library before its own constructor. */
	note_standard();
	return &standard[fd];
}

bool descriptor_has_space(void)
{
	_cleanup_close_ int fd = open("/", O_PATH | O_CLOEXEC);

	return fd >= 0 || (errno != EMFILE && errno != ENFILE);
}
