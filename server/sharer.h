/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHARER_H
#define SHARER_H

/*
 * Sharers of the resources of a server (resource.h): the processes of its clients and, if it
 * works for all users (-M), the users. A session counts for its process, and a process for its
 * user. Loop thread.
 */

#include "server/util/resource.h"

struct frame_client;
struct server;
struct sharer;

/* Adds a session to the process of the client. 0, -EUSERS or -ENOMEM. */
int sharer_add_session(
	struct server *server, const struct frame_client *client, struct sharer **ret_process);

/* A session has gone. NULL is fine. */
void sharer_remove_session(struct sharer *process);

/* The parents of the quotas of the process's sessions. */
struct resource_quotas *sharer_quotas(struct sharer *process);

/* No session is left. */
void sharers_free(struct server *server);

#endif
