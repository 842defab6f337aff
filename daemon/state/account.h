/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ACCOUNT_H
#define ACCOUNT_H

/*
 * An account is one user with all UIDs that the user can take: the own UID and
 * the subordinate ones. What all guests share is divided among accounts, since
 * a user has 65 536 subordinate UIDs.
 *
 * Loop thread. An account lives as long as something refers to it.
 */

#include "conn_kind.h"
#include "subordinate.h"
#include "daemon/text/line_limit.h"
#include "daemon/text/list.h"
#include "daemon/text/rate_limit.h"

struct accounts {
	struct list all; /* in the order of their last starts of servers, the oldest first */
	struct account *by_uid[1024];
	struct subordinates subordinates;
	const char *subuid_path; /* not owned */
};

struct account {
	struct list link;     /* in `all' */
	struct account *next; /* in the same hash chain */
	struct accounts *accounts;
	uid_t uid; /* of the owner, or the first of the owner's subordinate UIDs */
	unsigned n_refs;
	struct list tenants;
	unsigned n_tenants, n_conns, n_servers, n_isolated, n_named, n_sessions;
	unsigned n_conns_of[CONN_KINDS]; /* of each kind */
	struct rate_limit starts;
	struct line_limit control_lines, server_lines;
};

void accounts_init(struct accounts *accounts, const char *subuid_path);

/* No account is left. */
void accounts_fini(struct accounts *accounts);

/*
 * The UID of the account that a UID belongs to. `peer_owner' is the owner of
 * the user namespace of a process with that UID; 0: it has no namespace of its
 * own, or the namespace is unknown.
 */
uid_t accounts_owner(struct accounts *accounts, uid_t uid, uid_t peer_owner);

/* Finds or creates the account with that UID. The caller owns a reference; NULL without memory. */
struct account *account_get(struct accounts *accounts, uid_t uid);

struct account *account_ref(struct account *account);

/* NULL is fine. */
void account_unref(struct account *account);

/* Its start of a server is the latest of all accounts. */
void account_note_start(struct account *account);

/*
 * Whether an account that has `n_own' of the `n_all' things of all accounts may
 * have another one. An account may have no more than it leaves to others; the
 * first one only has to be free.
 */
static inline bool account_may_take(unsigned n_own, unsigned n_all, unsigned n_max)
{
	return n_all < n_max && (n_own == 0 || n_own < n_max - n_all);
}

#endif
