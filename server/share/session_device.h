/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SESSION_DEVICE_H
#define SESSION_DEVICE_H

/*
 * A session's part of one GPU (`sdev'): its memory there and its NULL stream. session_devices.h
 * makes and ends it. The session's worker only.
 */

#include "arena.h"
#include "cu_limit.h"
#include "elastic_shares.h"
#include "sm_share.h"
#include "server/driver/session_stream.h"
#include "server/device/priority.h"

struct session;

struct session_device {
	struct device *device; /* not owned */
	struct arena arena;
	uint64_t allocations_away; /* bytes, besides arena::away (server/memory/virtual_evict.c) */
	struct device_quota *memory; /* a reference */
	struct priority_range priorities;
	struct sm_share share; /* the SMs of the session, and the context that is current for it */
	struct elastic_shares elastic; /* of a background session */
	struct stream null;
	struct turns turns; /* of the NULL stream and the blocking ones */
	CUstream text;      /* never has work; NULL before the first kernel that prints */
	struct cu_limit_asks asks;
};

/* The session's part of that GPU; NULL if the session has not opened it. */
struct session_device *session_device_get(struct session *session, uint32_t device);

/* The driver's priority for a stream or a kernel with this priority of the program. */
int32_t session_device_priority(const struct session_device *sdev, int32_t priority);

/* Makes the context of the session's SMs on that GPU current for the worker. */
CUresult session_device_enter(struct session *session, struct session_device *sdev);

/* Any context, for driver calls that need one but work with each. */
void session_device_enter_any(struct session *session);

/* Both: CUDA_ERROR_INVALID_CONTEXT if the session has not opened the GPU. */
CUresult session_device_get_entered(
	struct session *session, uint32_t device, struct session_device **ret_sdev);

#endif
