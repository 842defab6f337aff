/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TENANT_H
#define TENANT_H

/*
 * A tenant is one UID: its connections, and the slots of the servers that have
 * its rights. Its account has the use of each allowance (allowances.h).
 *
 * Four files call each other: a tenant has slots and remembers faulty programs,
 * those count in the sums of users (usage.h), and sums are forgotten of users
 * without a tenant only.
 *
 * Loop thread. A tenant without connection and server is freed once it equals
 * a new one, when its allowances are full again.
 */

#include <sys/types.h>

#include "account.h"
#include "slot.h"
#include "daemon/text/list.h"

struct daemon;

struct tenant {
	struct list link;    /* in the daemon's tenants */
	struct tenant *next; /* in the same hash chain */
	struct daemon *daemon;
	struct account *account; /* owns a reference */
	struct list link_in_account;
	uid_t uid;
	gid_t gid; /* of its first client */
	bool has_gid;
	struct list conns; /* its connections, the oldest first */
	unsigned n_conns;
	struct list slots;  /* `shared' is the first */
	struct slot shared; /* for all programs that are not isolated */

	/* Programs whose clients caused GPU faults: see quarantine.h. */
	struct faulty {
		uint32_t program;
		unsigned n_faults; /* 0: none */
		uint64_t last_ms;
		bool is_quarantined;
	} faulty[8];
};

/* NULL if the UID is not known. */
struct tenant *tenant_find(struct daemon *daemon, uid_t uid);

/*
 * Finds or creates it; NULL without memory, or if too many are known already.
 * `peer' is a socket of a process with that UID, or negative.
 */
struct tenant *tenant_get(struct daemon *daemon, uid_t uid, int peer);

/* Frees unused tenants and slots. */
void tenants_sweep(struct daemon *daemon);

#endif
