/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLOSED_GPU_H
#define CLOSED_GPU_H

/*
 * Closed GPUs. Workers give a closed GPU no new work: it is closed for quiet calls and for lone
 * work (quiet.h). It opens by itself when its time is over.
 *
 * A GPU is closed for other programs during the turn of a program on probation (probation.h), too.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base.h"
#include "launching.h"
#include "server/driver/driver.h"

struct device;
struct session;

/* A GPU's part. Zero-initialised is open. */
struct closed_gpu {
	unsigned n;                     /* calls and lone work; under the lock of closed_gpu.c */
	_Atomic uint64_t until_ns;      /* closed for calls until then; 0: open */
	_Atomic uint64_t lone_until_ns; /* the same for lone work */
	CUevent lone;                   /* behind the last lone work. Made by quiet.c */
	_Atomic uint64_t lone_number;   /* of lone work that keeps the GPU closed; 0: none */
	_Atomic uint64_t lone_client;   /* its PID, above the number of its session */
};

/* For how long a GPU is closed at most. */
#define CLOSED_MAX_NS UINT64_C(10000000000)

/* Whether any GPU may be closed now; that may change at any time. */
static inline bool closed_any(void)
{
	return atomic_load(&launching_n_reasons) > 0;
}

/*
 * Closes the GPU for a call, until `until_ns' at the latest. 0: counts the call, and does not close
 * the GPU. Each closed_begin() is paired with a closed_end().
 */
void closed_begin(struct closed_gpu *closed, uint64_t until_ns);
void closed_end(struct closed_gpu *closed);

/*
 * Around the launch of lone work on a GPU that is closed for a call. closed_keep() keeps the GPU
 * closed for CLOSED_MAX_NS. False: the GPU was open for a moment, so it is open again.
 * closed_launched() follows the launch and the record of `lone': the GPU opens when that event has
 * passed.
 */
bool closed_keep(struct closed_gpu *closed);
void closed_launched(struct closed_gpu *closed, const struct session *session);

/*
 * Opens the GPU after the lone work of that number. 0: the work was not launched. False: the GPU
 * was open.
 */
bool closed_end_lone(struct closed_gpu *closed, uint64_t number);

/*
 * Whether the GPU is closed for a call now. For copies of the server's own: probation and loops do
 * not hold those up.
 */
bool closed_for_call(const struct closed_gpu *closed);

/* Worker, before new work for the GPU: sleeps while it is closed. */
void closed_wait(struct session *session, struct device *device);

/*
 * The same once the mark of the work is published (at_work.h): a worker that looks for work now
 * sees the mark, or this one finds the GPU closed.
 */
void closed_wait_again(struct session *session, struct device *device);

/* The second half of launching_begin(), if a GPU is closed. */
bool launching_begin_late(struct launching *launching, struct device *device);

/*
 * Worker, around the driver call that gives kernels to the GPU: sleeps while the GPU is closed. No
 * quiet call begins until launching_end(), so do not sleep between the two calls. False: do not
 * make the driver call, because the session has begun to end, or the device is lost, while the GPU
 * is closed.
 */
static inline bool launching_begin(struct launching *launching, struct device *device)
{
	atomic_store(&launching->is_on, true);
	return likely(!closed_any()) || launching_begin_late(launching, device);
}

static inline void launching_end(struct launching *launching)
{
	atomic_store_explicit(&launching->is_on, false, memory_order_release);
}

/*
 * `call' gives kernels to the GPU. CUDA_ERROR_MPS_RPC_FAILURE: it was not made, because of a fault
 * or the session's end.
 */
#define LAUNCHING(session, device, call)                                                           \
	({                                                                                         \
		CUresult result_;                                                                  \
                                                                                                   \
		if (launching_begin((session)->launching, (device)))                               \
			result_ = (call);                                                          \
		else                                                                               \
			result_ = CUDA_ERROR_MPS_RPC_FAILURE;                                      \
		launching_end((session)->launching);                                               \
		result_;                                                                           \
	})

#endif
