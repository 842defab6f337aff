/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LIMIT_H
#define LIMIT_H

/*
 * Limits of a GPU's context that affect kernels: the stack of a thread, the device heap, the
 * buffer of printf. They are the same for all clients.
 */

#include <stdbool.h>
#include <stdint.h>

#include "driver.h"

struct device;
struct session_device;
struct session;

/* CUlimits from 0 on. */
#define LIMITS_RAISED 3

/*
 * The requests of a session on one GPU; part of its session_device. Zero-initialised is no
 * request.
 */
struct limit_asks {
	struct limit_asks *next; /* of the device */
	uint64_t value[LIMITS_RAISED];
	bool is_listed;
	bool is_refusal_logged; /* in the log */
};

/*
 * Makes local memory for a kernel with this many bytes per thread. Otherwise the driver
 * would do that at the launch, waiting for all that is on the GPU with its lock held, also
 * for a blocked stream. A worker.
 */
CUresult limit_cover_local(struct session *session, struct device *device, uint32_t bytes);

/* The session leaves the GPU: limits that only it has requested are lowered later. A worker. */
void limits_forget(struct session_device *sdev, bool device_lost);

/*
 * Lowers limits that no session requests any more. No session has work. A limit that the
 * driver refuses to lower stays until another session leaves. The deferred thread.
 */
void limits_lower(void);

#endif
