/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RANGES_H
#define RANGES_H

/*
 * The memory outside its VA windows that a session may touch: variables of its libraries.
 * Sorted by address, without overlaps. A worker.
 */

#include "account.h"

enum range_bytes {
	RANGE_CHANGED, /* the session has named the range since they were kept */
	RANGE_KEPT,
	RANGE_NOT_KEPT, /* there was no memory, or the driver has refused */
};

struct range {
	uint64_t address, size; /* as the client knows them */
	uint64_t real;          /* where it lies now; another address after a move */
	const void *owner;      /* the object with which it goes; compared, never dereferenced */
	uint32_t id, device;    /* of the owner, for the file that adds it */

	/* Of a variable: a copy of its bytes (server/module/constants.h). */
	bool is_variable;
	bool is_in_graph; /* a launch of a graph may change them */
	enum range_bytes state;
	uint64_t kept_at; /* session::n_messages then */
	uint8_t *bytes;   /* owned */
};

/* Zero-initialised is empty. */
struct ranges {
	struct account *account; /* not owned: pays for the list */
	struct range *list;
	uint32_t n, n_max;
};

void ranges_fini(struct ranges *ranges);

/* Adding a range again is fine. 0, -ENOMEM, -EEXIST (it overlaps another range). */
int ranges_add(struct ranges *ranges, const struct range *range);

/* Removes all ranges of `owner'. */
void ranges_remove(struct ranges *ranges, const void *owner);

/* The address by which the session knows what lies at `real'; 0: the owner has no such range. */
uint64_t ranges_address_of(const struct ranges *ranges, const void *owner, uint64_t real);

/* A node of a graph names the range with that byte, if there is one. */
void ranges_note_graph(struct ranges *ranges, uint64_t address);

/*
 * Where these bytes lie now, if all of them lie in one range; 0: they do not. The caller may be
 * about to write them.
 */
uint64_t ranges_find(const struct ranges *ranges, uint64_t address, uint64_t size);

#endif
