/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Cgroups of clients. Loop thread.
 *
 * Invariant: the files are the kernel's, which answers at once.
 */

#include "cgroup.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "frame.h"
#include "limit_text.h"
#include "daemon/text/group_name.h"
#include "daemon/text/kernel_file.h"
#include "daemon/text/process.h"
#include "daemon/config/devices.h"
#include "daemon/state/daemon.h"
#include "daemon/conn/conn.h"

/* One line for each GPU. */
#define DMEM_TEXT_MAX 8192

/* Of the process that connected, even if another process has its PID by now. */
static int read_cgroup(struct conn *conn, char text[CGROUP_TEXT_MAX])
{
	char path[64];
	int r;

	/* The setting may be newer than the connection. */
	if (conn->pidfd == -EBADF)
		conn->pidfd = process_open_peer(conn->fd);
	if (conn->pidfd < 0)
		return conn->pidfd;
	snprintf(path, sizeof(path), "/proc/%d/cgroup", conn->cred.pid);
	r = kernel_file_read(path, text, CGROUP_TEXT_MAX);
	/* The text is of this process only if it has not ended. */
	if (r == -ENOENT || (r == 0 && !process_is_alive(conn->pidfd)))
		return -ESRCH;
	return r;
}

const char *cgroup_of_client(struct conn *conn, char text[CGROUP_TEXT_MAX], const char **ret_why)
{
	int r = read_cgroup(conn, text);
	const char *path = r == 0 ? group_name_of_cgroup(text) : NULL;

	*ret_why = r < 0 ? strerror(-r) : "it has no cgroup of version 2";
	return path;
}

unsigned cgroup_depth(const char *above, const char *path)
{
	size_t length = strlen(above);
	unsigned n = 0;

	while (length > 0 && above[length - 1] == '/')
		length--;
	for (const char *at = path + length; *at; at++)
		n += at[0] == '/' && at[1] && at[1] != '/';
	return n;
}

/* ---- limits of memory */

/* "nvidia/00000000:02:00.0/vidmem": the name of the GPU is in the middle. */
static const struct frame_device *find_region(const struct devices *devices, char *region)
{
	const struct frame_device *device;
	char *name = strchr(region, '/'), *end = name ? strchr(name + 1, '/') : NULL;

	if (!end)
		return NULL;
	*end = '\0';
	return devices_find(devices, name + 1, &device) == 0 ? device : NULL;
}

/* Lowers each limit to what its line says; a line without a number has none. */
static void lower_to_text(char *text, const struct devices *devices, uint64_t limits[DEVICES_MAX])
{
	char *line;

	while ((line = strsep(&text, "\n"))) {
		char *region = strsep(&line, " ");
		const struct frame_device *device = find_region(devices, region);
		uint64_t bytes;

		if (device && line && parse_number(line, UINT64_MAX - 1, &bytes) == 0)
			limits[device->ordinal] = MIN(limits[device->ordinal], bytes);
	}
}

static bool lower_to_file(const char *folder, const char *name, const struct devices *devices,
	uint64_t limits[DEVICES_MAX])
{
	char path[PATH_MAX + 64], text[DMEM_TEXT_MAX];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	if (kernel_file_read(path, text, sizeof(text)) < 0)
		return false;
	lower_to_text(text, devices, limits);
	return true;
}

/* 0 is the kernel's default: nothing is guaranteed, and nothing is borrowed. */
static void lower_soft(struct frame_limits *limits, const uint64_t soft[DEVICES_MAX])
{
	for (unsigned i = 0; i < DEVICES_MAX; i++)
		if (soft[i] > 0)
			limits->soft[i] = MIN(limits->soft[i], soft[i]);
}

/* From the client's own cgroup up to the root. */
static void lower_to_path(
	char *folder, size_t root, const struct devices *devices, struct frame_limits *limits)
{
	uint64_t soft[DEVICES_MAX];
	bool has_soft = false;
	char *slash;

	memset(soft, 0xff, sizeof(soft));
	for (;;) {
		lower_to_file(folder, "dmem.max", devices, limits->memory);
		if (!has_soft)
			has_soft = lower_to_file(folder, "dmem.min", devices, soft);
		slash = strrchr(folder + root, '/');
		if (!slash)
			break;
		*slash = '\0';
	}
	lower_soft(limits, soft);
}

void cgroup_lower_limits(
	struct conn *conn, const struct devices *devices, struct frame_limits *limits)
{
	const char *root = conn->daemon->config.cgroup_root, *why, *path;
	char text[CGROUP_TEXT_MAX], folder[PATH_MAX + 32];

	/* The controller exists if its file in the root does. */
	snprintf(folder, sizeof(folder), "%s/dmem.capacity", root);
	if (access(folder, F_OK) < 0)
		return;
	path = cgroup_of_client(conn, text, &why);
	if (!path || (size_t)snprintf(folder, sizeof(folder), "%s%s", root, path) >= sizeof(folder))
		return;
	lower_to_path(folder, strlen(root), devices, limits);
}
