/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EVICTION_H
#define EVICTION_H

/*
 * The order in which connections of guests are closed when there are too many.
 * Any thread.
 */

#include "base.h"

/* What the peer has done. The least merit goes first. */
enum eviction_merit {
	MERIT_SILENT,
	MERIT_PARTLY_READ, /* or it is between two commands */
	MERIT_WAITING,     /* for its server */
	MERIT_ANSWERED,    /* waits for the end of its command */
	MERIT_NEVER,       /* is not closed: of a server, or on its way to one */
};

struct eviction_candidate {
	enum eviction_merit merit;
	unsigned n_conns; /* of its account */
	uint64_t number;  /* rises with each connection */
};

/*
 * An account that has this many connections or fewer loses none while another
 * account has more.
 */
#define EVICTION_OWN_CONNS 4

/*
 * Whether `one' is closed rather than `other'. First come connections of
 * accounts that have more than their own part, then those of less merit, then
 * those of larger accounts, then older ones.
 */
bool eviction_precedes(
	const struct eviction_candidate *one, const struct eviction_candidate *other);

#endif
