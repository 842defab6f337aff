/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The directories of the daemon's files. Loop thread, and main() before the
 * loop runs.
 *
 * Invariant: nothing is opened through a link that another user could have
 * placed there.
 */

#include "directory.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

static int refuse_directory(
	struct error_message *error, int r, const char *path, const char *variable)
{
	struct stat st;

	if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode))
		return error_message_set(error, r,
			"%s is a symbolic link: set %s to the directory itself", path, variable);
	if (r == -ENOENT)
		return error_message_set(error, r,
			"Cannot create the directory %s: its parent directory does not exist: "
			"create the parent, or set %s to another directory",
			path, variable);
	return error_message_set(error, r,
		"Cannot use the directory %s: %s: set %s to a directory that UID %u can write",
		path, strerror(-r), variable, geteuid());
}

int directory_open(const char *path, const char *variable, struct error_message *error)
{
	_cleanup_close_ int dir = -EBADF;
	struct stat st;

	if (mkdir(path, 0755) < 0 && errno != EEXIST) {
		int r = -errno;

		/* A read-only file system reports this error even for directories that exist. */
		if (access(path, F_OK) < 0)
			return refuse_directory(error, r, path, variable);
	}
	dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return refuse_directory(error, -errno, path, variable);
	if (fstat(dir, &st) < 0)
		return refuse_directory(error, -errno, path, variable);
	if (st.st_uid != geteuid() && st.st_uid != 0)
		return error_message_set(error, -EPERM,
			"The directory %s belongs to UID %u, but the daemon runs as UID %u: remove "
			"the directory (rm -r %s) and have it created at boot, before other users "
			"can (man mps-control, FILES), or set %s to a directory in a place where "
			"other users cannot write, such as /run",
			path, st.st_uid, geteuid(), path, variable);
	return TAKE_FD(dir);
}

int directory_check_private(
	int dir, const char *path, const char *variable, struct error_message *error)
{
	struct stat st;

	if (fstat(dir, &st) < 0)
		return refuse_directory(error, -errno, path, variable);
	if (st.st_mode & (S_IWGRP | S_IWOTH))
		return error_message_set(error, -EPERM,
			"Other users can write to the directory %s (mode %04o) and could replace "
			"the daemon's socket: forbid that (chmod go-w %s), or set %s to another "
			"directory",
			path, (unsigned)(st.st_mode & 07777), path, variable);
	return 0;
}

int directory_open_log(int dir, const char *name, bool is_private)
{
	_cleanup_close_ int fd = -EBADF;
	struct stat st;

	/* Without O_NONBLOCK a FIFO of that name would block the daemon for ever. */
	fd = openat(dir, name,
		O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
		is_private ? 0640 : 0644);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if (st.st_uid != geteuid() && st.st_uid != 0)
		return -EPERM;
	if (is_private && (st.st_mode & S_IRWXO))
		fchmod(fd, st.st_mode & 07777 & ~(mode_t)S_IRWXO);
	return TAKE_FD(fd);
}

void directory_own(char path[PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);
	char *slash;

	path[MAX(n, (ssize_t)0)] = '\0';
	slash = strrchr(path, '/');
	if (slash)
		*slash = '\0';
}

bool directory_find_beside(const char *const *names, char path[PATH_MAX])
{
	char folder[PATH_MAX], place[PATH_MAX + 64];

	directory_own(folder);
	for (size_t i = 0; names[i]; i++) {
		snprintf(place, sizeof(place), "%s/%s", folder, names[i]);
		if (realpath(place, path))
			return true;
	}
	snprintf(path, PATH_MAX, "%.*s/%s", PATH_MAX - 64, folder, names[0]);
	return false;
}
