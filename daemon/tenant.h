/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TENANT_H
#define TENANT_H

/*
 * A tenant is one UID: its connections, the server process that works for it,
 * everybody who waits for that server, and how much of each allowance is used.
 *
 * Loop thread. A tenant without connection and server is freed once its
 * allowances are whole again: a new one would be the same.
 */

#include <sys/types.h>

#include "bounds.h"
#include "bucket.h"
#include "list.h"
#include "reason.h"

struct daemon;
struct peer;
struct server;

struct tenant {
	struct list link;    /* in the daemon's tenants */
	struct tenant *next; /* of the same hash */
	struct daemon *daemon;
	uid_t uid;
	gid_t gid; /* of the client that came first */
	bool has_gid;
	struct list peers; /* its connections, the oldest first */
	unsigned n_peers;
	struct server *server; /* NULL while there is none */
	struct list clients;   /* peers that wait to be handed over */
	struct list starters;  /* peers whose start_server waits */

	/* What it has used of its allowances: see allowances.h. */
	struct bucket control_lines, server_lines, starts;
	unsigned long n_control_lines_left_out, n_server_lines_left_out;

	/* Programs whose clients caused GPU faults: see start.h. */
	struct faulty {
		uint32_t program;
		unsigned n_faults; /* 0: none */
		uint64_t last_ms;
	} faulty[8];

	/* The end of the server before, if it was a bad one: */
	bool has_failed;
	struct reason reason;
	uint64_t restarts_ms[RESTARTS_MAX]; /* when, oldest first */
	unsigned n_restarts;
};

/* NULL if there is none of that UID. */
struct tenant *tenant_find(struct daemon *daemon, uid_t uid);

/* Finds or makes it; NULL without memory, or where too many are known already. */
struct tenant *tenant_get(struct daemon *daemon, uid_t uid);

/* Frees those that are of no more use. */
void tenants_sweep(struct daemon *daemon);

/* Does for each what can be done now: there is room again, or time has passed. */
void tenants_progress(struct daemon *daemon);

/* A client has introduced itself: it waits, is handed over, or refused. */
void tenant_add_client(struct tenant *tenant, struct peer *peer);

/* A client that was handed over and did not arrive waits again. */
void tenant_take_back(struct tenant *tenant, struct peer *peer);

/* The peer waits until the server is ready, or for the reason why it isn't; then it is resumed. */
void tenant_add_starter(struct tenant *tenant, struct peer *peer);

/* A process says that it is this tenant's server. */
void tenant_add_server(struct tenant *tenant, struct peer *peer);

/* The same, but of another build. Closes the peer. */
void tenant_on_foreign_server(struct peer *peer, uint32_t version, uint64_t spec_hash);

/* Whether clients or starters wait. */
bool tenant_is_waiting(const struct tenant *tenant);

/* Does what can be done now: starts a server, hands clients over, tells who waits. */
void tenant_progress(struct tenant *tenant);

/* Tells all who wait why they wait in vain. */
void tenant_refuse_all(struct tenant *tenant, uint32_t result, const struct reason *reason);

void tenant_on_server_end(struct tenant *tenant, bool is_clean, const struct reason *reason);

/* A client or starter has waited for too long. */
void tenant_on_client_deadline(struct peer *peer);
void tenant_on_starter_deadline(struct peer *peer);

#endif
