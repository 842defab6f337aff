/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENDING_WAIT_H
#define PENDING_WAIT_H

/*
 * Pending waits: where a stream waits on the GPU for a semaphore. The semaphore lies in
 * device memory or pinned memory of the client (stream memory operation), or in the ring
 * memory, where it says that a host function has returned: one of a graph, or one of a
 * stream that could not be parked (park.h). The value may never come. So the server
 * remembers the waits, and ends them with the session. The session's worker only, except
 * for one function.
 */

#include "bounds.h"
#include "server/driver/driver.h"

struct session_device;
struct session;
struct stream;

/* The most waits for device memory that a session may have queued. */
#define PENDING_WAITS_MAX (1u << 16)

struct pending_wait {
	uint64_t serial; /* page->passed of the stream reaches this value after the wait */
	uint64_t address, value;
	struct session_device *sdev; /* not owned */
	uint32_t stream;
	bool is_64;
	bool is_host; /* the semaphore lies in the host space: at the same address in the server */
};

/* Zero-initialised is empty. */
struct pending_waits {
	/* Changed by the worker, under session::pending_waits_lock. */
	struct pending_wait *list; /* oldest first */
	uint32_t n, n_max;

	uint64_t last_serial;
	uint64_t n_released; /* pending waits that were passed while they were released */
	bool may_be_closed;  /* a stream may be blocked, or parked */
	CUdeviceptr done;    /* of ring_control->done, for the GPU; 0: not pinned */
	CUstream release_streams[DEVICES_MAX]; /* the streams that release pending waits; NULL: not
						  made */
};

/*
 * Releases the current waits, as the session ends. More may follow: call it until no work is
 * left.
 */
void pending_waits_release(struct session *session);

/* Writes the value that ends the wait, on the GPU. */
void pending_waits_release_one(struct session *session, const struct pending_wait *pending_wait);

/*
 * Any thread: pending_waits_release() without the driver, as far as possible, which is
 * semaphores in host memory. A thread may hold the driver's lock and wait for just these
 * pending waits, and the worker for that thread.
 */
void pending_waits_release_here(struct session *session);

/* Before host memory ends that may contain semaphores. */
void pending_waits_forget_passed(struct session *session);

/*
 * Around a graph with waits, or a wait for a stream that may be blocked: blocked_streams.c
 * must know when this wait, like any other, was passed. False: the session ends.
 */
bool pending_waits_begin(struct session *session, struct stream *stream);
void pending_waits_end(struct session *session, struct stream *stream, CUstream real);

/* Makes space for `n' more in the list. */
CUresult pending_waits_reserve(struct session *session, uint32_t n);

/* The operation behind a wait: notes that the pending waits up to `serial' are passed. */
CUstreamBatchMemOpParams pending_waits_passed_op(
	const struct session *session, const struct stream *stream, uint64_t serial);

/* Puts that operation on the stream, for the last serial. */
void pending_waits_note_passed(struct session *session, const struct stream *stream, CUstream real);

/* The GPU waits for the stream's host function of that ticket. */
CUresult pending_waits_for_call(struct session *session, struct stream *stream, uint64_t ticket);

/* From now on a stream may be blocked until the client acts. */
void pending_waits_note_new(struct session *session);

/* What a host node of a graph does on the GPU; `call' is the number of its semaphores. */
#define PENDING_WAIT_CALL_OPS 4
CUresult pending_waits_graph_call(struct session *session, uint32_t call,
	CUstreamBatchMemOpParams ret_params[PENDING_WAIT_CALL_OPS]);

/* No work of the session is left on any GPU, for now. */
void pending_waits_are_passed(struct session *session);

#endif
