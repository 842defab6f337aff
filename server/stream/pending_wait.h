/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENDING_WAIT_H
#define PENDING_WAIT_H

/*
 * Gates: where a stream on the GPU waits for a word: for one of the client's
 * device memory in a stream memory operation, for one of the ring's that says
 * that a host function of a graph has returned, or of a stream that could not be
 * held (hold.h). Either may come never; so what is waited for is remembered, and
 * opened when the session ends. The session's worker only, but for one.
 */

#include "bounds.h"
#include "server/driver/driver.h"

struct place;
struct session;
struct session_room;
struct stream;

/* Waits for device memory that a session may have ahead of it. */
#define GATES_MAX (1u << 16)

struct gate {
	uint64_t serial; /* page->passed of its stream comes to this behind it */
	uint64_t address, value;
	struct place *place; /* not owned */
	uint32_t stream;
	bool is_64;
	bool is_host; /* its word lies in the host space: here at the same address */
};

/* Zero-initialised is none. */
struct gates {
	/* Changed by the worker, under session::gates_lock. */
	struct gate *list; /* oldest first */
	uint32_t n, n_max;

	uint64_t last_serial;
	uint64_t n_opened;          /* gates that were passed while we opened */
	bool may_be_closed;         /* a stream may stand still, or be held */
	CUdeviceptr done;           /* of ring_control->done, for the GPU; 0: not pinned */
	CUstream keys[DEVICES_MAX]; /* the streams that open gates; NULL: not made */
};

/* Opens what is closed now, as the session ends. More may be behind: call it until all is still. */
void gates_open(struct session *session);

/* Writes what ends the wait, on the GPU. */
void gates_open_one(struct session *session, const struct gate *gate);

/*
 * Any thread: the same as gates_open() without the driver, as far as that goes, which is words of
 * host memory. Somebody may have the driver's lock and wait for just these gates, and the worker
 * for him.
 */
void gates_open_here(struct session *session);

/* Before host memory goes that they may have been in. */
void gates_forget_passed(struct session *session);

/*
 * Around a graph with waits, or a wait for a stream that may stand still: as of
 * any other wait, standing.c has to know when it was passed. False: the session ends.
 */
bool gates_begin_wait(struct session *session, struct stream *stream);
void gates_end_wait(struct session *session, struct stream *stream, CUstream real);

/* Room for `n' more in the list. */
CUresult gates_make_room(struct session *session, uint32_t n);

/* What the GPU does behind a wait: it notes that the gates up to `serial' are passed. */
CUstreamBatchMemOpParams gates_passed_op(
	const struct session *session, const struct stream *stream, uint64_t serial);

/* Puts the same on the stream, for the last serial. */
void gates_note_passed(struct session *session, const struct stream *stream, CUstream real);

/* The GPU waits for the stream's host function of that ticket. */
CUresult gates_wait_for_call(struct session *session, struct stream *stream, uint64_t ticket);

/* A stream may stand still from now on until the client does something. */
void gates_note_closed(struct session *session);

/* What a host node of a graph does on the GPU; `call' is the number of its words. */
#define GATES_CALL_OPS 4
CUresult gates_graph_call(struct session *session, uint32_t call,
	CUstreamBatchMemOpParams ret_params[GATES_CALL_OPS]);

/* No work of the session is left on any GPU, for now. */
void gates_are_passed(struct session *session);

/* What is done for each session: see session_room.h. */
extern const struct session_room gates_room;

#endif
