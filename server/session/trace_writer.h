/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRACE_WRITER_H
#define TRACE_WRITER_H

/*
 * The server's traces, and the part of one that a session fills. The loop begins and ends a
 * trace. A worker joins between two runs of messages, and leaves before the trace's memory is
 * closed. There is one trace at a time for each user, and one of all users, which a session
 * prefers.
 */

#include <stdatomic.h>
#include <sys/types.h>

#include "base.h"
#include "session.h"
#include "trace_file.h"

struct trace;

/* Rises with each beginning and each end. */
extern atomic_uint trace_generation;

/* A trace of all users. */
#define TRACE_ALL_USERS UINT32_MAX

/*
 * The loop: begins a trace of that user's clients. Takes `fd'. -EBUSY: there is one, or there
 * are too many.
 */
int trace_begin(uint64_t id, int fd, uint32_t uid);

/* The loop: no more sessions join, and those that have joined leave. False: not found. */
bool trace_end(uint64_t id);

/* The loop: the same for all. Their IDs are 0 from now on. False: there is none. */
bool trace_end_all(void);

/* The loop: whether an ended trace has not been closed yet. */
bool trace_is_ending(void);

/*
 * The loop: closes the memory of an ended trace that all sessions have left. False: there is
 * none.
 */
bool trace_close_memory(uint64_t *ret_id, uint64_t *ret_n_lost);

/* The worker: whether it has to join or leave. */
static inline bool trace_has_changed(const struct session *session)
{
	return atomic_load_explicit(&trace_generation, memory_order_relaxed) !=
	       session->trace_generation;
}

/* The worker: the session follows the last change. True: it stays in its trace. */
bool trace_stay(struct session *session);

/* The worker: whether the session is traced from now on, until trace_leave(). */
bool trace_join(struct session *session);
void trace_leave(struct session *session);

/* What a session has not written yet. */
struct trace_writer {
	struct trace *trace;
	uint32_t index;    /* of the chunk; meaningless if n_chunks is 0 */
	uint32_t n_chunks; /* that the session has filled or begun */
	bool is_full;
	bool is_dirty;       /* `chunk' has something that is not written */
	uint64_t written_ns; /* when it was last written */
	uint16_t known[256]; /* names in `chunk', by hash; 0: none */
	struct trace_chunk chunk;
};

/* The session has joined; `writer' is zeroed. */
void trace_writer_init(struct trace_writer *writer, const struct session *session);

/* Adds an event. `name' may be NULL. If there is no space, it counts as lost. */
void trace_writer_add(
	struct trace_writer *writer, const struct trace_record *record, const char *name);

/* Writes what was added. */
void trace_writer_flush(struct trace_writer *writer);

#endif
