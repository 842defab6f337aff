/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SESSION_DEVICE_H
#define SESSION_DEVICE_H

/*
 * A session's place on one GPU: its memory there and its NULL stream. Made by
 * device_open, gone with the session. The session's worker only.
 */

#include "arena.h"
#include "limit.h"
#include "priority.h"
#include "session_stream.h"
#include "sm_share.h"

struct session;
struct session_room;

struct place {
	struct device *device; /* not owned */
	struct arena arena;
	struct device_quota *memory; /* a reference */
	struct priority_range priorities;
	struct sm_share share; /* the SMs that it has, and the context that is current for it */
	struct stream null;
	struct turns turns; /* of the NULL stream and the blocking ones */
	CUstream text;      /* never with work; NULL before the first kernel that prints */
	struct limit_asks asks;
};

/* The session's place on that GPU, NULL if it has not opened it. */
struct place *place_get(struct session *session, uint32_t device);

/* The same, which is opened at need. */
CUresult place_open(struct session *session, uint32_t device, struct place **ret_place);

/* Of the driver's, for a stream or a kernel that the program gave this priority. */
int32_t place_priority(const struct place *place, int32_t priority);

/* Makes the context of the session's SMs on that GPU the worker's, unless it is already. */
CUresult place_enter(struct session *session, struct place *place);

/*
 * A stream of the driver's for work on the session's SMs, without work. Naps as stream_pool_take()
 * does. It is given back when it has come to rest, and has no attribute but this priority; a
 * discarded one ends when it has.
 */
CUresult place_take_stream(
	struct session *session, struct place *place, int32_t priority, CUstream *ret_real);
void place_give_stream(struct place *place, CUstream real, int32_t priority);
void place_discard_stream(struct place *place, CUstream real);

/* Some context, where the driver wants one and no matter which. */
void place_enter_any(struct session *session);

/* Both: CUDA_ERROR_INVALID_CONTEXT if the session has not opened the GPU. */
CUresult place_get_entered(struct session *session, uint32_t device, struct place **ret_place);

/* Gives back what the session keeps and does not use, as no work of it is on a GPU. */
void places_trim(struct session *session);

/* Asks every session to do so: memory is short. */
void session_devices_reclaim(void);

/* Whether somebody asked since this session last had nothing to spare. */
bool session_devices_reclaim_wanted(const struct session *session);

/* What is done for each session: see session_room.h. */
extern const struct session_room timeline_room;
extern const struct session_room places_room;

#endif
