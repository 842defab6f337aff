/* SPDX-License-Identifier: Apache-2.0 */
#ifndef USAGE_H
#define USAGE_H

/*
 * What each user's clients have done, and what has happened to the user, since the daemon
 * began. It outlives the tenant, which is freed when the user has no connection. Loop thread.
 */

#include <sys/types.h>

#include "counts.h"

struct daemon;

/*
 * Users whose sums are kept. At the limit the user that was active longest ago is forgotten,
 * and counts from 0 again; users with connections or servers are never forgotten.
 */
#define USAGES_MAX 256

enum usage_event {
	USAGE_SERVER_START,
	USAGE_SERVER_FAILURE, /* a server ended by itself, other than by a client's fault */
	USAGE_FAULT,          /* a GPU fault has ended a server */
	USAGE_PROBATION,      /* a program was put on probation */
	USAGE_QUARANTINE,     /* a program was quarantined */
	USAGE_CLIENT,         /* a client came to a server */
	USAGE_REFUSAL,        /* a client was refused */
	USAGE_EVENTS,
};

struct usage {
	uid_t uid;
	uint64_t last_ms;    /* of its last event, by the loop's clock */
	struct counts ended; /* the sum of its clients that have ended */
	uint64_t events[USAGE_EVENTS];
};

struct usages {
	struct usage *items[USAGES_MAX];
	unsigned n;
	uint64_t events[USAGE_EVENTS]; /* of all users, also of those that are forgotten */
};

/* NULL: nothing is known of the user. */
struct usage *usage_find(const struct usages *usages, uid_t uid);

/* Counts an event of the user. */
void usage_count(struct daemon *daemon, uid_t uid, enum usage_event event);

/* A client of the user has ended. */
void usage_add_ended(struct daemon *daemon, uid_t uid, const struct counts *counts);

void usages_fini(struct usages *usages);

#endif
