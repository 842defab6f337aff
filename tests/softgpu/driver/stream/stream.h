/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STREAM_H
#define STREAM_H

/*
 * A stream: a queue of work and its thread, which starts with the first work.
 * Each piece of work has a ticket. Tickets rise over all streams, so "all work so
 * far" is one number. Work starts when the earlier work of its stream and all its
 * dependencies are done.
 *
 * All under the driver's lock, which the stream's thread releases while it does
 * work. A stream is freed when it is destroyed, its queue is empty and there is no
 * reference to it.
 */

#include <stdatomic.h>

#include "work.h"
#include "tests/softgpu/driver/driver.h"

#define STREAM_PRIORITY_GREATEST (-5)

struct context;
struct capture;
struct green;
struct trigger;

/* Work of another stream that must be done first. */
struct dependency {
	struct stream *stream; /* owns a reference */
	uint64_t ticket;
	struct trigger *trigger; /* owns a reference; if it is pulled, that suffices. NULL: none */
};

struct op {
	struct op *next;
	uint64_t ticket;
	struct work work;
	uint32_t n_dependencies;
	struct dependency *dependencies;
};

/* The attributes of a stream, which have no effect here. */
struct stream_settings {
	CUaccessPolicyWindow window;
	int policy; /* CUsynchronizationPolicy; -1: not set */
	CUlaunchMemSyncDomainMap domains;
	CUlaunchMemSyncDomain domain;
};

struct stream {
	struct object object;
	struct stream *next;     /* context::streams */
	struct context *context; /* not owned */
	uint32_t refs;
	unsigned flags;
	int priority;
	struct stream_settings settings;
	uint64_t id;
	bool is_green;       /* was made in a green context */
	struct green *green; /* its green context; NULL once that has ended. Not owned */
	bool is_per_thread;
	pthread_t owner; /* of a per-thread default stream */
	struct op *head;
	struct op **tail;
	uint64_t submitted; /* ticket of the last work queued */
	uint64_t left;      /* of the last work that a synchronous call queued without waiting */
	uint32_t n_queued;
	unsigned queue; /* the hardware queue of its last work: see queue.h */
	pthread_cond_t wake;
	bool has_thread;
	bool is_closing;         /* destroyed: the thread ends when the queue is empty */
	bool is_dropped;         /* its context is ending: queued work is dropped */
	atomic_bool cancelled;   /* the running kernel has to stop */
	struct capture *capture; /* while it is being captured */
};

/* NULL without memory. The stream is in the context's list, which holds a reference. */
struct stream *stream_new(struct context *context, unsigned flags, int priority);
/* The same in a green context, which may be NULL. */
struct stream *stream_new_in(
	struct context *context, struct green *green, unsigned flags, int priority);
struct stream *stream_ref(struct stream *stream);
void stream_unref(struct stream *stream);

/* The stream of a handle, including default streams; its context exists. */
CUresult stream_get(CUstream handle, struct stream **ret_stream);
bool stream_is_null(const struct stream *stream);

/* Ends the handle; work that is queued is still done. */
void stream_close(struct stream *stream);

/* Queues work behind the stream's last work. Takes `work', on failure too. */
CUresult stream_submit(struct stream *stream, struct work *work);

/* The same, but a stream that is being captured gets a graph node instead. */
CUresult stream_push(struct stream *stream, struct work *work);

/* The next work that is submitted also waits for this stream and ticket. */
CUresult stream_depend(struct stream *stream, struct stream *on, uint64_t ticket);
/* ... or for this trigger; NULL: only for the ticket. */
CUresult stream_depend_early(
	struct stream *stream, struct stream *on, uint64_t ticket, struct trigger *trigger);
/* ... for all streams of a context, which stop at the same ticket. */
CUresult streams_depend(struct stream *stream, struct context *on, uint64_t ticket);

/* The ticket of the work that was submitted last, to any stream. */
uint64_t streams_ticket(void);

/* Whether all its work up to `ticket' is done; and the wait for that. */
bool stream_reached(const struct stream *stream, uint64_t ticket);
CUresult stream_wait(struct stream *stream, uint64_t ticket);
/* Until the trigger, too; NULL: none. */
CUresult stream_wait_early(struct stream *stream, uint64_t ticket, const struct trigger *trigger);

/* The same for the streams of a green context, or for all streams of the context. */
bool streams_reached(const struct context *context, const struct green *green, uint64_t ticket);
CUresult streams_wait_ticket(struct context *context, const struct green *green, uint64_t ticket);

/* Waits for all work that a context has so far. */
CUresult streams_wait(struct context *context);
/* The same for the streams of a green context only. */
CUresult streams_wait_green(struct context *context, const struct green *green);

/* The end of a synchronous call: waits for its work, or records that it did not wait. */
CUresult stream_finish(struct stream *stream, bool is_waited);

/* Waits for the work that such calls did not wait for. */
CUresult streams_catch_up(struct context *context);

/* Ends every stream of a context, drops queued work, and waits for the threads. */
void streams_drop(struct context *context);

/* A fault: drops all queued work of all streams. */
void streams_fault(CUresult fault);

/* CUDA_SUCCESS if a caller may wait for the stream: not during capture. */
CUresult stream_check_sync(struct stream *stream);

#endif
