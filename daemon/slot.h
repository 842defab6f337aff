/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLOT_H
#define SLOT_H

/*
 * A slot is what one server process fills, and those who wait for that server.
 * The programs of a tenant share one; an isolated program (quarantine.h) has one
 * of its own. With -M one slot serves the programs of all tenants.
 *
 * Loop thread.
 */

#include <sys/types.h>

#include "bounds.h"
#include "list.h"
#include "error_message.h"

struct daemon;
struct conn;
struct server;
struct tenant;

struct slot {
	struct list link;      /* in its tenant's slots */
	struct tenant *tenant; /* whose rights the server has */
	bool is_isolated;      /* it serves this program of this user alone: */
	uint32_t program;
	uid_t uid;
	struct server *server; /* NULL while there is none */
	struct list clients;   /* connections that wait to be handed over */
	struct list starters;  /* connections whose start_server waits */

	/* The end of the server before, if it was a bad one: */
	bool has_failed;
	struct error_message error;
	uint64_t restarts_ms[RESTARTS_MAX]; /* when, oldest first */
	unsigned n_restarts;
};

/* The tenant's shared one. */
void slot_init(struct slot *slot, struct tenant *tenant);

/* Finds or makes the isolated one of a program; NULL without memory. */
struct slot *slot_get_isolated(struct tenant *tenant, uid_t uid, uint32_t program);

/*
 * The slot that serves a client, by its HELLO. NULL with a reason: the user has
 * too many isolated programs, or there is no memory.
 */
struct slot *slot_choose(struct conn *client, struct error_message *error);

/* Where the server of that UID is; NULL without memory. */
struct slot *slot_shared(struct daemon *daemon, uid_t uid);

/* Frees the isolated ones that are of no more use; all of them. */
void slots_sweep(struct tenant *tenant);
void slots_free(struct tenant *tenant);

/* Whether one of them has a server, or somebody waits for it. */
bool slots_are_needed(const struct tenant *tenant);

/* No server, nobody waits, and a new slot would be the same. */
bool slot_is_unused(struct slot *slot);

/* Whether clients or starters wait. */
bool slot_is_waiting(const struct slot *slot);

/* Of those who wait, the number of the one that came first; UINT64_MAX if nobody waits. */
uint64_t slot_first_waiting(const struct slot *slot);

/* A client has introduced itself: it waits, is handed over, or refused. */
void slot_add_client(struct slot *slot, struct conn *conn);

/* A client that was handed over and did not arrive waits again. */
void slot_requeue(struct slot *slot, struct conn *conn);

/* The connection waits until the server is ready, or for the reason why it isn't; then it is
 * resumed. */
void slot_add_starter(struct slot *slot, struct conn *conn);

/* Does what can be done now: starts a server, hands clients over, tells who waits. */
void slot_progress(struct slot *slot);

/* Does that for each slot: there is room again, or time has passed. */
void slots_progress(struct daemon *daemon);

/* GPUs turned out to admit one process: each client that now waits for its turn is told. */
void slots_notify_turns(struct daemon *daemon);

/* Its turn has come (turns.h): those who wait have all their patience for the start. */
void slot_on_turn(struct slot *slot);

/* Tells all who wait why they wait in vain. */
void slot_refuse_all(struct slot *slot, uint32_t result, const struct error_message *error);

void slot_on_server_end(struct slot *slot, bool is_clean, const struct error_message *error);

/* A client or starter has waited for long. */
void slot_on_client_deadline(struct conn *conn);
void slot_on_starter_deadline(struct conn *conn);

#endif
