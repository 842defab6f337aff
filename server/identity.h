/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IDENTITY_H
#define IDENTITY_H

#include <sys/types.h>

/*
 * Becomes the user `uid' for good: groups, home directory, no way back. `gid'
 * is taken where the user has no entry; (gid_t)-1: there is none to take. A
 * line in the log has said what failed. 0 or -errno.
 */
int identity_take(uid_t uid, gid_t gid);

#endif
