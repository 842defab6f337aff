/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PEER_UID_H
#define PEER_UID_H

/*
 * The user at the other end of a TCP connection, if that end is on this machine and in this
 * network namespace. Any thread.
 */

#include <sys/types.h>

/* 0 or -errno: -ENOENT if the other end is elsewhere, or has been closed. */
int peer_uid(int sock, uid_t *ret_uid);

#endif
