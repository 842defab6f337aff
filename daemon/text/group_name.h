/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GROUP_NAME_H
#define GROUP_NAME_H

/*
 * Names of groups, which may be paths of cgroups. Any thread.
 */

#include "base.h"

#define GROUP_NAME_ACCEPTED "1 to 255 letters, digits and . _ / -"

bool group_name_ok(const char *name);

/* Whether `name' is that path or a directory above it. */
bool group_name_is_above(const char *name, const char *path);

/* The path in the text of /proc/PID/cgroup, for cgroup version 2: a part of `text', or NULL. */
char *group_name_of_cgroup(char *text);

#endif
