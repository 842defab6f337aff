/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IPC_H
#define IPC_H

/*
 * Memory that clients of this server share. A handle is a token that nobody can
 * guess; whoever has it gets the same pointer. The memory stays until the last of
 * those who know it has let go. Workers.
 */

#include "server/driver/arena.h"

struct session;
struct session_room;

/* Whether another session has some of these bytes open. Any thread. */
bool ipc_is_open(uint64_t address, uint64_t size);

/* Work of `device' may touch what the session has open of others. */
CUresult ipc_admit(const struct session *session, const struct device *device);

/* Lets go of what was closed before work that is done now. */
void ipc_poll(struct session *session);

/* Takes an arena whose session has ended, and keeps of it what others have open. */
void ipc_keep_arena(struct arena *arena);

/* What is done for each session: see session_room.h. */
extern const struct session_room ipc_room;

#endif
