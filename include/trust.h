/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRUST_H
#define TRUST_H

/*
 * Whether a program may believe the process that listens on `control': root,
 * the program's own user, or the user that MPS_TRUST_UID names. In a user
 * namespace where the host's root has no UID, that UID is the overflow UID; it
 * is also every stranger's, and is trusted only where the socket's directory is
 * a mount of its own, which whoever made the container has put there.
 *
 * Any thread. `why' says what speaks against it, and what to do.
 */

#include "base.h"

/*
 * Looks at the names alone, before anybody is asked: whose the socket and its
 * directory are, and that others cannot write there. 0, also where nothing is;
 * -EPERM.
 */
int trust_path(const char *socket_path, char *why, size_t why_size);

/* Looks who listens at the other end of a connection. 0, -EPERM or -errno. */
int trust_peer(int sock, const char *socket_path, char *why, size_t why_size);

#endif
