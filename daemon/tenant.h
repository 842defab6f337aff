/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TENANT_H
#define TENANT_H

/*
 * A tenant is one UID: its connections, the slots of the servers that have its
 * rights, and how much of each allowance is used.
 *
 * Loop thread. A tenant without connection and server is freed once its
 * allowances are whole again: a new one would be the same.
 */

#include <sys/types.h>

#include "bounds.h"
#include "rate_limit.h"
#include "line_limit.h"
#include "list.h"
#include "slot.h"

struct daemon;
struct conn;

struct tenant {
	struct list link;    /* in the daemon's tenants */
	struct tenant *next; /* of the same hash */
	struct daemon *daemon;
	uid_t uid;
	gid_t gid; /* of the client that came first */
	bool has_gid;
	struct list conns; /* its connections, the oldest first */
	unsigned n_conns;
	struct list slots;  /* `shared' is the first */
	struct slot shared; /* for all programs that are not isolated */

	/* What it has used of its allowances: see allowances.h. */
	struct line_limit control_lines, server_lines;
	struct rate_limit starts;

	/* Programs whose clients caused GPU faults: see quarantine.h. */
	struct faulty {
		uint32_t program;
		unsigned n_faults; /* 0: none */
		uint64_t last_ms;
		bool is_quarantined;
	} faulty[8];
};

/* NULL if there is none of that UID. */
struct tenant *tenant_find(struct daemon *daemon, uid_t uid);

/* Finds or makes it; NULL without memory, or where too many are known already. */
struct tenant *tenant_get(struct daemon *daemon, uid_t uid);

/* Frees those that are of no more use, and slots. */
void tenants_sweep(struct daemon *daemon);

#endif
