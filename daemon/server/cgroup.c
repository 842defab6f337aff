/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Cgroups of clients. Loop thread.
 *
 * Invariant: the files are the kernel's, which answers at once.
 */

#include "cgroup.h"

#include <stdio.h>
#include <string.h>

#include "daemon/text/group_name.h"
#include "daemon/text/kernel_file.h"
#include "daemon/text/process.h"
#include "daemon/conn/conn.h"

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
