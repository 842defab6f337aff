/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLOT_H
#define SLOT_H

/*
 * A slot holds one server process, and the connections that wait for it. The
 * programs of a tenant share a slot; an isolated program (quarantine.h) has
 * its own. With -M one slot serves the programs of all tenants. A named slot
 * (server create) serves the programs that connect in its directory.
 *
 * Loop thread.
 */

#include <sys/types.h>

#include "bounds.h"
#include "server_name.h"
#include "daemon/text/error_message.h"
#include "daemon/text/list.h"

struct daemon;
struct conn;
struct server;
struct tenant;

struct slot {
	struct list link;        /* in its tenant's slots */
	struct tenant *tenant;   /* the user whose rights the server has */
	struct account *account; /* that it serves; owns a reference */
	bool is_isolated;        /* it serves only this program of this user: */
	uint32_t program;
	uid_t uid;
	char name[SERVER_NAME_MAX]; /* of a named slot; else "" */
	char *devices;              /* its GPUs, as CUDA_VISIBLE_DEVICES takes them; NULL: all */
	bool is_new;                /* named, and its server has not been ready yet */
	bool is_deleted;            /* named, and freed when its server has ended */
	struct list namespaces;     /* of protocol 3 (namespaces.h) */
	unsigned n_partitions;      /* ... of its server (partitions.h) */
	struct server *server;      /* NULL while there is none */
	unsigned n_processes;       /* that one, and others that take its place or end */
	struct list clients;        /* connections that wait to be handed over */
	struct list starters;       /* connections whose start_server waits */
	struct list enders;         /* connections whose server delete waits */

	/* The end of the previous server, if it failed: */
	bool has_failed;
	bool is_hopeless; /* another server would end in the same way: refuse those that wait */
	struct error_message error;
	uint64_t restarts_ms[RESTARTS_MAX]; /* when, oldest first */
	unsigned n_restarts;
};

/* Initialises the shared slot of a tenant. */
void slot_init(struct slot *slot, struct tenant *tenant);

/* NULL if there is none. */
struct slot *slot_find_isolated(const struct tenant *tenant, uid_t uid, uint32_t program);

/* The name of its server in protocol 3: its own, or uid_1000. */
void slot_name(const struct slot *slot, char name[SERVER_NAME_MAX]);

/* The named slot of that name; NULL if there is none. */
struct slot *slot_find_named(const struct daemon *daemon, const char *name);

/* Creates a named slot; takes `devices'. NULL without memory. */
struct slot *slot_new_named(struct tenant *tenant, const char *name, char *devices);

/* Frees a named slot without a server, a namespace and waiting connections. */
void slot_free_named(struct slot *slot);

/* Finds or creates the isolated slot of a program; NULL without memory. */
struct slot *slot_get_isolated(struct tenant *tenant, uid_t uid, uint32_t program);

/* The tenant whose slots serve the user: with -M that of the server's user; NULL without memory. */
struct tenant *slots_tenant(struct daemon *daemon, uid_t uid);

/* The slot of that UID's shared server; NULL without memory. */
struct slot *slot_shared(struct daemon *daemon, uid_t uid);

/* Frees the unused isolated slots; frees all slots. */
void slots_sweep(struct tenant *tenant);
void slots_free(struct tenant *tenant);

/* Whether a slot of the tenant has a server or waiting connections. */
bool slots_are_needed(const struct tenant *tenant);

/* The number of recent restarts after failures. */
unsigned slot_count_restarts(struct slot *slot);

/* Whether it has no server, no waiting connections, and equals a new slot. */
bool slot_is_unused(struct slot *slot);

/* Whether clients or starters wait. */
bool slot_is_waiting(const struct slot *slot);

/* A client has completed its handshake: it waits, is handed over, or is refused. */
void slot_add_client(struct slot *slot, struct conn *conn);

/* A client that was handed over and did not arrive waits again. */
void slot_requeue(struct slot *slot, struct conn *conn);

/* The connection waits until the server is ready, or for the error; then it is resumed. */
void slot_add_starter(struct slot *slot, struct conn *conn);

/*
 * WANT_PROGRESS: does for each slot what is possible now: starts a server, hands clients over,
 * answers waiting connections.
 */
void slots_progress(struct daemon *daemon);

/* WANT_TURN_NOTICES: GPUs turned out to admit one process: notifies clients that now wait. */
void slots_notify_turns(struct daemon *daemon);

/* Refuses all waiting connections with that error. */
void slot_refuse_all(struct slot *slot, uint32_t result, const struct error_message *error);

#endif
