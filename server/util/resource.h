/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RESOURCE_H
#define RESOURCE_H

/*
 * What all sessions of a server share, apart from GPUs: host memory, and the entries of tables
 * that have a fixed size. Each resource has a chain of quotas (quota.h), and all chains have
 * the same links: session, process, user, server. A server of one user has no quotas of users.
 *
 * One rule holds for each resource: no process and no user may have more than it leaves to
 * the others, but each may always have its own part. A table is larger than the limit of the
 * server's quota by the own parts of RESOURCE_NEWCOMERS processes or users. So after one user
 * or process has taken what it can, the next one can have half of that, and when nothing is
 * left to share, newcomers still have their own parts.
 *
 * The store of evicted memory is divided between users only. Processes of a user take their part of
 * it in the order of use: what is there has left a GPU because another one of them needed it.
 *
 * Any thread.
 */

#include "quota.h"

enum resource {
	RESOURCE_HOST_MEMORY,    /* bytes */
	RESOURCE_DEVICE_WINDOWS, /* VA windows of the device space */
	RESOURCE_HOST_WINDOWS,   /* VA windows of the host space */
	RESOURCE_MAPPINGS,       /* in this process: of images, and of registered files */
	RESOURCE_GRAPHS,         /* executable graphs, also those whose end is deferred */
	RESOURCE_GRAPH_NODES,    /* in them */
	RESOURCE_BODY_NODES,     /* of these, in bodies of conditional nodes */
	RESOURCE_GREENS,         /* green contexts that clients have made */
	RESOURCE_SESSIONS,
	RESOURCE_STORE, /* bytes of evicted memory (server/share/host_store.h) */
	RESOURCES,
};

/* The last one is the server's. */
enum resource_level {
	RESOURCE_OF_SESSION,
	RESOURCE_OF_PROCESS,
	RESOURCE_OF_USER,
};

struct resource_quotas {
	struct quota of[RESOURCES];
};

#define RESOURCE_NEWCOMERS 16u

/* What each process may always have of the host memory: enough for a small program. */
#define RESOURCE_HOST_MEMORY_OWN ((uint64_t)16 << 20)
/* All sessions of a server share the memory of the machine, or of its cgroup, divided by this. */
#define RESOURCE_HOST_MEMORY_PART 2u

/* Zeroed quotas of a session, a process or a user. `parent': the next link; NULL: the server. */
void resource_quotas_init(
	struct resource_quotas *quotas, enum resource_level level, struct resource_quotas *parent);

/* The server's quota. Tests change its limit. */
struct quota *resource_of_server(enum resource resource);

/* What is counted, for the log: "VA windows of the device space". */
const char *resource_name(enum resource resource);

#endif
