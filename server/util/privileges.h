/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRIVILEGES_H
#define PRIVILEGES_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Becomes the user `uid' permanently: groups, home directory, all IDs. `gid' is used if the
 * user has no entry; (gid_t)-1: no group was given, and the user gets the one without rights.
 * `is_multiuser': the process works for several users, so no user may inspect it. 0 or -errno; the
 * reason is in the log.
 */
int privileges_take(uid_t uid, gid_t gid, bool is_multiuser);

#endif
