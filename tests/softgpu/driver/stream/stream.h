/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STREAM_H
#define STREAM_H

/*
 * A stream: a queue of work and the thread that does it, started with the
 * first piece. Each piece of work has a ticket; tickets rise over all streams,
 * so "all work so far" is one number. A piece starts when the stream's earlier
 * ones and all that it depends on are done.
 *
 * All under the driver's lock, which the stream's thread gives away while it
 * does a piece of work. A stream is freed when it is destroyed, its queue is
 * empty and nobody refers to it any more.
 */

#include "tests/softgpu/driver/driver.h"
#include "work.h"

#define STREAM_PRIORITY_GREATEST (-5)

struct context;
struct capture;
struct green;

/* Work of another stream that has to be done first. */
struct dependency {
	struct stream *stream; /* owns a reference */
	uint64_t ticket;
};

struct op {
	struct op *next;
	uint64_t ticket;
	struct work work;
	uint32_t n_dependencies;
	struct dependency *dependencies;
};

struct stream {
	struct object object;
	struct stream *next;     /* context::streams */
	struct context *context; /* not owned */
	uint32_t refs;
	unsigned flags;
	int priority;
	uint64_t id;
	bool is_green;       /* was made in a green context */
	struct green *green; /* which one; NULL once that has ended. Not owned */
	bool is_per_thread;
	pthread_t owner; /* of a per-thread default stream */
	struct op *head;
	struct op **tail;
	uint64_t submitted; /* ticket of the last work queued */
	uint64_t left;      /* of the last that a synchronous call queued and did not wait for */
	uint32_t n_queued;
	unsigned queue; /* of the hardware, where its last work went: see queue.h */
	pthread_cond_t wake;
	bool has_thread;
	bool is_closing;         /* destroyed: the thread ends when the queue is empty */
	bool is_dropped;         /* its context is going: what is queued is not done */
	volatile bool cancelled; /* the kernel that runs now is to stop */
	struct capture *capture; /* while it is being captured */
};

/* NULL without memory. The stream is in the context's list, which holds a reference. */
struct stream *stream_new(struct context *context, unsigned flags, int priority);
/* The same in a green context, which may be NULL. */
struct stream *stream_new_in(
	struct context *context, struct green *green, unsigned flags, int priority);
struct stream *stream_ref(struct stream *stream);
void stream_unref(struct stream *stream);

/* The stream that a handle names, default streams included; its context is alive. */
CUresult stream_get(CUstream handle, struct stream **ret_stream);
bool stream_is_null(const struct stream *stream);

/* The handle is of no use any more; what the stream has is still done. */
void stream_close(struct stream *stream);

/* Queues work behind what the stream has. Takes `work', on failure too. */
CUresult stream_submit(struct stream *stream, struct work *work);

/* The same, but a stream that is being captured gets a graph node instead. */
CUresult stream_push(struct stream *stream, struct work *work);

/* The next piece of work that is submitted also waits for this one. */
CUresult stream_depend(struct stream *stream, struct stream *on, uint64_t ticket);

/* Whether all its work up to `ticket' is done; the wait for that. */
bool stream_reached(const struct stream *stream, uint64_t ticket);
CUresult stream_wait(struct stream *stream, uint64_t ticket);

/* Waits for all work of a context so far. */
CUresult streams_wait(struct context *context);
/* The same for the streams of a green context alone. */
CUresult streams_wait_green(struct context *context, const struct green *green);

/* The end of a synchronous call: the wait for its work, or a note that there was none. */
CUresult stream_finish(struct stream *stream, bool is_waited);

/* Waits for what such calls have left undone. */
CUresult streams_catch_up(struct context *context);

/* Ends every stream of a context, dropping what is queued, and waits for their threads. */
void streams_drop(struct context *context);

/* A fault: nothing queued anywhere is done any more. */
void streams_fault(CUresult fault);

/* CUDA_SUCCESS if the stream may be waited for: not while it is captured. */
CUresult stream_check_sync(struct stream *stream);

#endif
