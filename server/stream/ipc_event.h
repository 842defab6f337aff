/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IPC_EVENT_H
#define IPC_EVENT_H

/*
 * Events that clients of this server share, by an unguessable token. Each stays until the
 * last session drops it. Workers.
 */

#include <stdbool.h>

struct event;

/* An event ends. False: it is not shared. */
bool ipc_event_end(struct event *event, bool device_lost);

#endif
