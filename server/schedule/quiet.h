/* SPDX-License-Identifier: Apache-2.0 */
#ifndef QUIET_H
#define QUIET_H

/*
 * Quiet calls: driver calls that are made while no client has work on the GPU.
 *
 * Some calls wait for all work on the GPU with the driver's lock held (driver_facts.h). A kernel
 * may wait for a kernel that another client launches later, or may never end. Beside such a kernel,
 * the call would not return, and no client could launch anything meanwhile. So the server waits
 * for the work before it makes the call, without the lock: it closes the GPU (closed_gpu.h). If the
 * work does not end in time, the server opens the GPU until that work has ended, but for at least
 * three times as long as the GPU was closed. Then it closes the GPU for twice that time. So a
 * client whose call waits for a kernel that never ends waits alone.
 *
 * A quiet call is an exclusive call (blocked_streams.h) as well.
 *
 * Lone work: work beside which no other work may be on the GPU. It goes to the GPU as a quiet call
 * is made, and the GPU stays closed until that work has ended, for ten seconds at most.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "server/driver/driver.h"

struct device;
struct session;

/* A GPU's part. */
struct quiet {
	_Atomic CUcontext context;   /* NULL: not made, or the driver has no events */
	CUevent work;                /* behind all work at the last look */
	_Atomic uint64_t lasting_ns; /* how long work has lasted before calls */
};

/*
 * Around a driver call that waits for all work on that GPU. Without a device: on all GPUs; without
 * a session: for the server itself. False: as exclusive_call_begin(), or the session has begun to
 * end.
 */
bool quiet_call_begin(struct session *session, struct device *device, unsigned most_ms);
void quiet_call_end(struct device *device);

/*
 * Around the launch of lone work. False: the session has begun to end, or the device is lost.
 * Nothing is closed with MPS_DISABLE=quiet.
 */
bool quiet_lone_begin(struct session *session, struct device *device);
void quiet_lone_end(struct session *session, struct device *device);

/* Unpins memory that was registered, which is such a call. */
void quiet_unpin(struct session *session, void *memory);

/* Reads MPS_DISABLE, as `quiet_part' does when the server starts. */
void quiet_start(void);

#endif
