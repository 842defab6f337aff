/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GREEN_H
#define GREEN_H

/*
 * Green contexts of a session: some SMs of a GPU, for the streams that are made in them. The
 * session's worker only, until one is kept for others. Those of shares belong to no session:
 * see sm_share.h.
 */

#include "wire.h"
#include "server/schedule/deferred.h"

struct session_device;
struct session;

/* Which SMs: equal keys have the same SMs. */
struct green_key {
	struct device *device;
	uint64_t of; /* 0: the whole GPU was divided; else a hash of the divided key */
	uint32_t flags, count, n_groups;
	uint32_t n_parts;
	uint64_t parts[WIRE_SM_GROUPS_MAX / 64 + 1]; /* a bit each */
};

struct green {
	struct deferred deferred;
	struct green *next; /* in the list of kept ones */
	struct green_key key;
	uint32_t id;
	struct session_device *sdev; /* not owned; NULL: kept, or of no session */
	CUgreenCtx real;
	uint32_t refs; /* of the ID and the streams; or of shares, under their lock */
	atomic_uint n_streams;
	atomic_uint n_channels; /* channels that the driver has for its streams, at least */
};

/*
 * A green context of no session, with the parts of its GPU that the key names: a kept one or
 * a new one. It counts for this session until its last user drops it. `has_channels': all streams
 * of its users are in it, so it gets channels for them. Making one sleeps.
 */
CUresult green_take(struct session *session, const struct green_key *key, CUdevResource *parts,
	bool has_channels, struct green **ret_green);

/* Keeps it until its last stream has ended, also after the ID has ended. */
struct green *green_ref(struct green *green);
/*
 * A driver stream on its SMs, which the caller gives back. If the driver has no channel
 * left, sleeps while streams are blocked.
 */
CUresult green_take_stream(
	struct session *session, struct green *green, int32_t priority, CUstream *ret_real);
/* The same, but never sleeps: CUDA_ERROR_NOT_READY if the driver may have no channel left. */
CUresult green_try_stream(
	struct session *session, struct green *green, int32_t priority, CUstream *ret_real);
/* The stream ends after the work that it has. */
void green_give_stream(struct green *green, CUstream real);
void green_unref(struct green *green, bool device_lost); /* NULL is fine */

/* How many are kept for others, unused. */
unsigned greens_kept(void);

#endif
