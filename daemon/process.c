/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Processes by descriptor. Loop thread.
 *
 * Invariant: nothing here opens a file that its process could have chosen,
 * since opening, reading or even closing one may block for as long as its
 * owner likes.
 */

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include "process.h"

int process_open_child(pid_t pid)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	return fd < 0 ? -errno : fd;
}

int process_signal(int pidfd, int number)
{
	return syscall(SYS_pidfd_send_signal, pidfd, number, NULL, 0) < 0 ? -errno : 0;
}

/* The four ids of the line "Uid:" of /proc/PID/status. */
static int has_uid(pid_t pid, uid_t uid)
{
	_cleanup_close_ int fd = -EBADF;
	char path[64], text[4096];
	unsigned ids[4];
	const char *line;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = read(fd, text, sizeof(text) - 1);
	if (n < 0)
		return -errno;
	text[n] = '\0';
	line = strstr(text, "\nUid:");
	if (!line || sscanf(line, "\nUid: %u %u %u %u", &ids[0], &ids[1], &ids[2], &ids[3]) != 4)
		return -EPERM;
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
		if (ids[i] != uid)
			return -EPERM;
	return 0;
}

int process_open(pid_t pid, uid_t uid)
{
	_cleanup_close_ int fd = -EBADF;
	struct pollfd pfd;
	int r;

	if (pid <= 0)
		return -ESRCH;
	fd = process_open_child(pid);
	if (fd < 0)
		return fd;
	r = has_uid(pid, uid);
	if (r < 0)
		return r;
	/* It is still the one that was looked at only if it has not ended. */
	pfd = (struct pollfd){.fd = fd, .events = POLLIN};
	if (poll(&pfd, 1, 0) != 0)
		return -ESRCH;
	return TAKE_FD(fd);
}

int process_open_output(pid_t pid)
{
	_cleanup_close_ int found = -EBADF;
	char path[64], target[64];
	ssize_t n;
	int fd;

	/* O_PATH pins what is there without opening it: it may be anything. */
	snprintf(path, sizeof(path), "/proc/%d/fd/2", pid);
	found = open(path, O_PATH | O_CLOEXEC);
	if (found < 0)
		return -errno;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", found);
	n = readlink(path, target, sizeof(target) - 1);
	if (n < 0)
		return -errno;
	target[n] = '\0';
	if (strncmp(target, "pipe:[", strlen("pipe:[")) != 0)
		return -ENOTSUP;
	fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}
