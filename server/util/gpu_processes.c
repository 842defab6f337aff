/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Finds the processes that use the GPUs by the device files that they have open. Any thread.
 * Best effort: processes of other users hide their descriptors.
 */

#include "gpu_processes.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base.h"

static void gpu_processes_closedirp(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

/* /dev/nvidia0 and so on. nvidiactl and nvidia-uvm do not count: programs open them to query. */
static bool is_gpu(const char *path)
{
	static const char prefix[] = "/dev/nvidia";
	size_t n = sizeof(prefix) - 1;

	return strncmp(path, prefix, n) == 0 && isdigit((unsigned char)path[n]);
}

static bool has_gpu_open(const char *pid)
{
	_cleanup_(gpu_processes_closedirp) DIR *dir = NULL;
	char path[PATH_MAX], target[64];
	struct dirent *entry;

	snprintf(path, sizeof(path), "/proc/%s/fd", pid);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		ssize_t n = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);

		if (n <= 0)
			continue;
		target[n] = 0;
		if (is_gpu(target))
			return true;
	}
	return false;
}

static void read_name(const char *pid, char *ret_name, size_t size)
{
	_cleanup_close_ int fd = -EBADF;
	char path[PATH_MAX];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%s/comm", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd >= 0 ? read(fd, ret_name, size - 1) : -1;
	ret_name[MAX(n, 0)] = 0;
	for (char *c = ret_name; *c; c++)
		if (!isprint((unsigned char)*c))
			*c = c[1] ? '?' : 0;
}

void gpu_processes_list(char *ret_text, size_t size)
{
	_cleanup_(gpu_processes_closedirp) DIR *proc = opendir("/proc");
	struct dirent *entry;
	size_t used = 0;

	while (proc && used < size && (entry = readdir(proc))) {
		char name[32];

		if (!isdigit((unsigned char)entry->d_name[0]) || !has_gpu_open(entry->d_name))
			continue;
		read_name(entry->d_name, name, sizeof(name));
		used += (size_t)snprintf(ret_text + used, size - used, "%s%.16s (%s)",
			used ? ", " : "", entry->d_name, name);
	}
	if (used == 0)
		snprintf(ret_text, size, "none that this user may see");
}
