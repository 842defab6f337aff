/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRUST_H
#define TRUST_H

/*
 * Whether a program may trust the process that listens on `control': it belongs to
 * root, to the program's own user, or to the user in MPS_TRUST_UID. In a user
 * namespace where the host's root has no UID, root appears under the overflow UID.
 * So does every other unknown user, and the user of the namespace who has that
 * UID; therefore that UID is trusted only if the socket's directory is a separate
 * mount, which the container's creator made.
 *
 * Any thread. `why' gets the reason against it, and what to do.
 */

#include "base.h"

/*
 * Checks the owners of the socket and of its directory before connecting, and that
 * other users cannot write to the directory. 0, also if nothing is there; -EPERM.
 */
int trust_path(const char *socket_path, char *why, size_t why_size);

/* Checks which user listens at the other end of a connection. 0, -EPERM or -errno. */
int trust_peer(int sock, const char *socket_path, char *why, size_t why_size);

#endif
