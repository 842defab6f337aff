/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CGROUP_H
#define CGROUP_H

/* The cgroup of a client, of version 2. Loop thread. */

#include "base.h"

struct conn;

/* Space for a path and the lines of cgroup version 1 before it. */
#define CGROUP_TEXT_MAX 16384

/*
 * The path of the cgroup of the process that connected, in `text'. NULL: it cannot be known, and
 * `ret_why' is the reason.
 */
const char *cgroup_of_client(struct conn *conn, char text[CGROUP_TEXT_MAX], const char **ret_why);

/* How many levels `path' lies below `above', which it begins with. */
unsigned cgroup_depth(const char *above, const char *path);

#endif
