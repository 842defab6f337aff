/* SPDX-License-Identifier: Apache-2.0 */
#ifndef QUIET_H
#define QUIET_H

/*
 * Quiet calls: driver calls that are made while no client has work on the GPU.
 *
 * Some calls wait for all work on the GPU with the driver's lock held (driver_facts.h). A kernel
 * may wait for a kernel that another client launches later, or may never end. Beside such a kernel,
 * the call would not return, and no client could launch anything meanwhile. So the server waits
 * for the work before it makes the call, without the lock: it closes the GPU, so that workers give
 * it no new work. If the work does not end in time, the server opens the GPU until that work has
 * ended, but for at least three times as long as the GPU was closed. Then it closes the GPU for
 * twice that time. So a client whose call waits for a kernel that never ends waits alone.
 *
 * A quiet call is an exclusive call (blocked_streams.h) as well.
 *
 * Lone work: work beside which no other work may be on the GPU. It goes to the GPU as a quiet call
 * is made, and the GPU stays closed until that work has ended, for ten seconds at most.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "driver.h"

struct device;
struct session;
struct session_room;

/* A session's part. */
struct quiet_post {
	struct session *session;
	struct quiet_post *next; /* in the list of all, under the lock of quiet.c */
	bool is_listed;
	atomic_bool is_on; /* the worker gives kernels to a GPU that it found open */
	bool is_lone;      /* ... or that it has closed itself. The worker's */
};

/* A GPU's part. */
struct quiet {
	_Atomic CUcontext context; /* NULL: not made, or the driver has no events */
	CUevent work;              /* behind all work at the last look */
	unsigned n_closed;   /* calls for which the GPU is closed; under the lock of quiet.c */
	uint64_t lasting_ns; /* how long work has lasted before calls; likewise */
	_Atomic uint64_t closed_until_ns; /* for calls; 0: it is open */
	_Atomic uint64_t lone_until_ns;   /* the same for lone work */
	CUevent lone;                     /* behind the last lone work */
	_Atomic uint64_t lone_number;     /* of lone work that keeps the GPU closed; 0: none */
	_Atomic uint64_t lone_client;     /* its PID, above the number of its session */
};

/* How many GPUs are closed. */
extern atomic_uint quiet_n_closed;

/* Whether any GPU may be closed now; that may change at any time. */
static inline bool quiet_any_closed(void)
{
	return atomic_load(&quiet_n_closed) > 0;
}

/* Reads MPS_QUIET_CALLS, before the first context. */
void quiet_start(void);

/* When the GPU's context has been made and is current. */
void quiet_init(struct device *device, CUcontext context);

/* Before the context ends. No other thread runs. */
void quiet_fini(struct device *device);

/*
 * Around a driver call that waits for all work on that GPU. Without a device: on all GPUs; without
 * a session: for the server itself. False: as exclusive_call_begin(), or the session has begun to
 * end.
 */
bool quiet_call_begin(struct session *session, struct device *device, unsigned most_ms);
void quiet_call_end(struct device *device);

/*
 * Around the launch of lone work. False: the session has begun to end, or the device is lost.
 * Nothing is closed if MPS_QUIET_CALLS=0.
 */
bool quiet_lone_begin(struct session *session, struct device *device);
void quiet_lone_end(struct session *session, struct device *device);

/* What is done for each session: see session_room.h. */
extern const struct session_room quiet_room;

/* Unpins memory that was registered, which is such a call. */
void quiet_unpin(struct session *session, void *memory);

/* Worker, before new work for the GPU: sleeps while it is closed. */
void quiet_wait_open(struct session *session, struct device *device);

/* Worker, when the session has opened a GPU. */
void quiet_join(struct session *session);

/* As quiet_post_begin(), if a GPU is closed. */
bool quiet_post_late(struct quiet_post *post, struct device *device);

/*
 * Worker, around the driver call that gives kernels to the GPU: sleeps while it is closed. Until
 * the end, it does not become quiet. Do not sleep between the two calls. False: do not make the
 * call, because the session has begun to end, or the device is lost, while the GPU is closed.
 */
static inline bool quiet_post_begin(struct quiet_post *post, struct device *device)
{
	atomic_store(&post->is_on, true);
	return likely(!quiet_any_closed()) || quiet_post_late(post, device);
}

static inline void quiet_post_end(struct quiet_post *post)
{
	atomic_store_explicit(&post->is_on, false, memory_order_release);
}

/* `call' gives kernels to the GPU. */
#define QUIET_POST(session, device, call)                                                          \
	({                                                                                         \
		CUresult result_ = CUDA_ERROR_MPS_RPC_FAILURE;                                     \
                                                                                                   \
		if (quiet_post_begin((session)->post, (device)))                                   \
			result_ = (call);                                                          \
		quiet_post_end((session)->post);                                                   \
		result_;                                                                           \
	})

#endif
