/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LIMIT_H
#define LIMIT_H

/*
 * Limits of a GPU's context that kernels feel: the stack of a thread, the device
 * heap, the buffer of printf. They are the same for all clients.
 */

#include <stdbool.h>
#include <stdint.h>

#include "driver.h"

struct device;
struct session_device;
struct session;

/* CUlimits from 0 on. */
#define LIMITS_RAISED 3

/* What a session asks for on one GPU; part of its session_device. Zero-initialised is nothing. */
struct limit_asks {
	struct limit_asks *next; /* of the device's */
	uint64_t value[LIMITS_RAISED];
	bool is_listed;
	bool is_refusal_logged; /* in the log */
};

/*
 * Makes the GPU have local memory for a kernel with so many bytes a thread. The
 * driver would do that at the launch, and wait for all that is on the GPU with
 * its lock held, for a stream that is blocked too. A worker.
 */
CUresult limit_cover_local(struct session *session, struct device *device, uint32_t bytes);

/* The session leaves the GPU: limits that only it has asked for are lowered later. A worker. */
void limits_forget(struct session_device *sdev, bool device_lost);

/*
 * Lowers limits that no session asks for any more, as no session has work. What the
 * driver refuses is left until another session leaves. The deferred thread.
 */
void limits_lower(void);

#endif
