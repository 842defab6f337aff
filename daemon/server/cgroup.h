/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CGROUP_H
#define CGROUP_H

/*
 * The cgroup of a client, of version 2, and the limits of GPU memory that the kernel has for it.
 * They are read once, when the client comes, and never written. Loop thread.
 */

#include "base.h"

struct conn;
struct devices;
struct frame_limits;

/* Space for a path and the lines of cgroup version 1 before it. */
#define CGROUP_TEXT_MAX 16384

/*
 * The path of the cgroup of the process that connected, in `text'. NULL: it cannot be known, and
 * `ret_why' is the reason.
 */
const char *cgroup_of_client(struct conn *conn, char text[CGROUP_TEXT_MAX], const char **ret_why);

/* How many levels `path' lies below `above', which it begins with. */
unsigned cgroup_depth(const char *above, const char *path);

/*
 * Lowers the limits of the client to dmem.max of its cgroup and of all above it, and its soft
 * limits to dmem.min of the nearest cgroup that has that file. Without the controller: nothing.
 */
void cgroup_lower_limits(
	struct conn *conn, const struct devices *devices, struct frame_limits *limits);

#endif
