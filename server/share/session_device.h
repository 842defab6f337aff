/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SESSION_DEVICE_H
#define SESSION_DEVICE_H

/*
 * A session's part of one GPU (`sdev'): its memory there and its NULL stream. Made by
 * device_open, ends with the session. The session's worker only.
 */

#include "arena.h"
#include "cu_limit.h"
#include "sm_share.h"
#include "server/driver/session_stream.h"
#include "server/device/priority.h"

struct session;
struct session_part;

struct session_device {
	struct device *device; /* not owned */
	struct arena arena;
	struct device_quota *memory; /* a reference */
	struct priority_range priorities;
	struct sm_share share; /* the SMs of the session, and the context that is current for it */
	struct stream null;
	struct turns turns; /* of the NULL stream and the blocking ones */
	CUstream text;      /* never has work; NULL before the first kernel that prints */
	struct cu_limit_asks asks;
};

/* The session's part of that GPU; NULL if the session has not opened it. */
struct session_device *session_device_get(struct session *session, uint32_t device);

/* The same; opens the GPU if needed. */
CUresult session_device_open(
	struct session *session, uint32_t device, struct session_device **ret_sdev);

/* The driver's priority for a stream or a kernel with this priority of the program. */
int32_t session_device_priority(const struct session_device *sdev, int32_t priority);

/* Makes the context of the session's SMs on that GPU current for the worker. */
CUresult session_device_enter(struct session *session, struct session_device *sdev);

/*
 * A driver stream without work, for the session's SMs. Sleeps as stream_pool_take() does.
 * Give it back only when it is at rest and has no attribute except this priority; a
 * discarded one ends when it is at rest.
 */
CUresult session_device_take_stream(
	struct session *session, struct session_device *sdev, int32_t priority, CUstream *ret_real);
void session_device_give_stream(struct session_device *sdev, CUstream real, int32_t priority);
void session_device_discard_stream(struct session_device *sdev, CUstream real);

/* Any context, for driver calls that need one but work with each. */
void session_device_enter_any(struct session *session);

/* Both: CUDA_ERROR_INVALID_CONTEXT if the session has not opened the GPU. */
CUresult session_device_get_entered(
	struct session *session, uint32_t device, struct session_device **ret_sdev);

/* Gives back what the session keeps unused. No work of it is on a GPU. */
void session_devices_trim(struct session *session);

/* Asks every session to do that: memory is short. */
void session_devices_reclaim(void);

/* Whether memory was requested since this session last had nothing unused. */
bool session_devices_reclaim_wanted(const struct session *session);

/* What is done for each session: see session_part.h. */
extern const struct session_part timeline_part;
extern const struct session_part session_devices_part;

#endif
