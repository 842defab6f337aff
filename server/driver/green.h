/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GREEN_H
#define GREEN_H

/*
 * Green contexts of a session: some of a GPU's SMs, for the streams that are
 * made in them. The session's worker only, until one is kept for others. Those of
 * shares are no session's: see sm_share.h.
 */

#include "deferred.h"
#include "wire.h"

struct session_device;
struct session;
struct session_room;

/* Which SMs: equal ones have the same. */
struct green_key {
	struct device *device;
	uint64_t of; /* 0: the whole GPU was divided; else a hash of the key of what was */
	uint32_t flags, count, n_groups;
	uint32_t n_parts;
	uint64_t parts[WIRE_SM_GROUPS_MAX / 64 + 1]; /* a bit each */
};

struct green {
	struct deferred deferred;
	struct green *next; /* among those that are kept */
	struct green_key key;
	uint32_t id;
	struct session_device *sdev; /* not owned; NULL: it is kept, or belongs to no session */
	CUgreenCtx real;
	uint32_t refs; /* the id's and its streams'; or those of shares, under their lock */
	atomic_uint n_streams;
	atomic_uint n_channels; /* that the driver has for them, at least */
};

/*
 * One that belongs to no session, of parts of its GPU as the key has them: a kept one, or it is
 * made, for which the session sleeps.
 */
CUresult green_take(struct session *session, const struct green_key *key, CUdevResource *parts,
	struct green **ret_green);

/* Kept though its id has gone, until its last stream has. */
struct green *green_ref(struct green *green);
/*
 * A stream of the driver's that has its SMs; the caller's, who gives it back. Where the driver has
 * no room for another, sleeps while streams are blocked.
 */
CUresult green_take_stream(
	struct session *session, struct green *green, int32_t priority, CUstream *ret_real);
/* It ends after what work it has. */
void green_give_stream(struct green *green, CUstream real);
void green_unref(struct green *green, bool device_lost); /* NULL is fine */

/* How many are kept for others, that nobody has. */
unsigned greens_kept(void);

/* They are gone: all contexts are. */
void greens_forget(void);

/* What is done for each session: see session_room.h. */
extern const struct session_room greens_room;

#endif
