/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Processes by descriptor. Any thread.
 *
 * Invariant: no function here opens a file that the process could have chosen,
 * since opening, reading or even closing such a file may block for as long as
 * its owner likes. Of /proc only files are read that do not access the memory
 * of the process.
 */

#include "process.h"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "kernel_file.h"
#include "same_file.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

int process_open(pid_t pid)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	return fd < 0 ? -errno : fd;
}

int process_open_peer(int sock)
{
	struct ucred cred;
	socklen_t size = sizeof(int);
	int fd = -EBADF;

	if (getsockopt(sock, SOL_SOCKET, SO_PEERPIDFD, &fd, &size) == 0)
		return fd;
	/* Linux before 6.5 does not know the option. */
	if (errno != ENOPROTOOPT)
		return -errno;
	size = sizeof(cred);
	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &cred, &size) < 0)
		return -errno;
	return cred.pid > 0 ? process_open(cred.pid) : -ESRCH;
}

bool process_is_alive(int pidfd)
{
	struct pollfd pfd = {.fd = pidfd, .events = POLLIN};

	return poll(&pfd, 1, 0) == 0;
}

int process_signal(int pidfd, int number)
{
	return syscall(SYS_pidfd_send_signal, pidfd, number, NULL, 0) < 0 ? -errno : 0;
}

/* Reads a file of /proc/PID as text. */
static int read_proc_file(pid_t pid, const char *name, char *text, size_t size)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	return kernel_file_read(path, text, size);
}

/* The real, effective, saved and file system's UID. */
#define UIDS 4

/* How many of the UIDs in the line "Uid:" of /proc/PID/status are `uid'. -errno. */
static int count_proc_uids(pid_t pid, uid_t uid)
{
	char text[4096];
	unsigned ids[UIDS];
	const char *line;
	int n = 0, r = read_proc_file(pid, "status", text, sizeof(text));

	if (r < 0)
		return r;
	line = strstr(text, "\nUid:");
	if (!line || sscanf(line, "\nUid: %u %u %u %u", &ids[0], &ids[1], &ids[2], &ids[3]) != UIDS)
		return -EPERM;
	for (size_t i = 0; i < UIDS; i++)
		n += ids[i] == uid;
	return n;
}

bool process_is_of_others(pid_t pid, uid_t uid)
{
	return count_proc_uids(pid, uid) == 0;
}

int process_check(int pidfd, pid_t pid, uid_t uid)
{
	int r = count_proc_uids(pid, uid);

	if (r < 0)
		return r == -ENOENT ? -ESRCH : r;
	if (r < UIDS)
		return -EPERM;
	/* The text is of this process only if it has not exited. */
	return process_is_alive(pidfd) ? 0 : -ESRCH;
}

/* The kernel nests no more user namespaces. */
#define NAMESPACES_MAX 33

/* Climbs from the namespace `fd', which it takes, to the child of `own'. */
static int outermost_owner(int fd, int own, uid_t *ret_uid)
{
	_cleanup_close_ int at = fd;

	for (int i = 0; i < NAMESPACES_MAX; i++) {
		_cleanup_close_ int parent = ioctl(at, NS_GET_PARENT);

		if (parent < 0)
			return -errno;
		if (same_file(parent, own))
			return ioctl(at, NS_GET_OWNER_UID, ret_uid) < 0 ? -errno : 0;
		close(at);
		at = TAKE_FD(parent);
	}
	return -ELOOP;
}

int process_namespace_owner(int pidfd, pid_t pid, uid_t *ret_uid)
{
	_cleanup_close_ int own = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);
	_cleanup_close_ int fd = -EBADF;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (own < 0 || fd < 0)
		return -ESRCH;
	/* The namespace is of this process only if it has not ended. */
	if (!process_is_alive(pidfd))
		return -ESRCH;
	if (!same_file(fd, own))
		return outermost_owner(TAKE_FD(fd), own, ret_uid);
	*ret_uid = 0;
	return 0;
}

int process_start_time(pid_t pid, uint64_t *ret_ticks)
{
	char text[1024];
	const char *at;
	int r = read_proc_file(pid, "stat", text, sizeof(text));

	if (r < 0)
		return r;
	/* Fields are counted after the name, which may hold anything; this is the 22nd. */
	at = strrchr(text, ')');
	for (unsigned field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	if (!at)
		return -EIO;
	*ret_ticks = strtoull(at + 1, NULL, 10);
	return 0;
}
