/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IPC_EVENT_H
#define IPC_EVENT_H

/*
 * Events that clients of this server share, by a token that nobody can guess. Each stays until
 * the last of those who have it has let go. Workers.
 */

#include <stdbool.h>

struct event;

/* Of an event that goes; false: it is not shared. */
bool ipc_event_end(struct event *event, bool device_lost);

#endif
