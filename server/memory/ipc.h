/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IPC_H
#define IPC_H

/*
 * Memory that clients of this server share. A handle is a token that nobody can
 * guess; whoever has it gets the same pointer. The memory stays until the last of
 * those who know it has let go. Workers.
 */

struct arena_sharing;
struct session;
struct session_room;

/* Lets go of what was closed before work that is done now. */
void ipc_poll(struct session *session);

/* What is done for each session: see session_room.h. */
extern const struct session_room ipc_room;

/* ... and for arenas: see arena.h. */
extern const struct arena_sharing ipc_sharing;

#endif
