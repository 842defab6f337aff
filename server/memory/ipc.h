/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IPC_H
#define IPC_H

/*
 * Memory and events that clients of this server share. A handle is a token
 * that nobody can guess; whoever has it gets the same pointer, or the same
 * event. Both stay until the last of those who know them has let go. Workers.
 */

#include "server/driver/arena.h"

struct session;
struct event;

/* Whether another session has some of these bytes open. Any thread. */
bool ipc_is_open(uint64_t address, uint64_t size);

/* Work of `device' may touch what the session has open of others. */
CUresult ipc_admit(const struct session *session, const struct device *device);

/* Lets go of what was closed before work that is done now. */
void ipc_poll(struct session *session);

/* The session's end: its work is done, and nobody can open anything of it any more. */
void ipc_end(struct session *session, bool is_lost);

/* Takes an arena whose session has ended, and keeps of it what others have open. */
void ipc_keep_arena(struct arena *arena);

/* Of an event that goes; false: it is not shared. */
bool ipc_event_end(struct event *event, bool is_lost);

#endif
