/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRIVILEGES_H
#define PRIVILEGES_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Becomes the user `uid' for good: groups, home directory, no way back. `gid'
 * is taken where the user has no entry; (gid_t)-1: there is none to take.
 * `is_multiuser': the process works for other users, and none may look into it.
 * A line in the log has said what failed. 0 or -errno.
 */
int privileges_take(uid_t uid, gid_t gid, bool is_multiuser);

#endif
