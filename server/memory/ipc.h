/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IPC_H
#define IPC_H

/*
 * Memory that clients of this server share. A handle is an unguessable token, and every
 * client that opens it gets the same pointer. The memory stays until the last client has
 * closed it. Workers.
 */

struct arena_sharing;
struct session;
struct session_part;

/* What is done for each session: see session_part.h. */
extern const struct session_part ipc_part;

/* ... and for arenas: see arena.h. */
extern const struct arena_sharing ipc_sharing;

#endif
