/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRACE_FILE_H
#define TRACE_FILE_H

/*
 * The memory of a trace: what the streams of a server's clients did, and when. The daemon
 * makes the memory with a fixed size, a server fills it by chunks, and the daemon reads it,
 * also after the server has ended. A chunk has events of one client and is complete in
 * itself. The daemon checks each byte: a server is a process of a user.
 */

#include <stdint.h>

/*
 * 8 MiB, about 180 000 events. One client gets half of it, so that it cannot fill the trace
 * alone.
 */
#define TRACE_CHUNK_SIZE 65536u
#define TRACE_CHUNKS 128u
#define TRACE_CLIENT_CHUNKS 64u
#define TRACE_SIZE ((uint64_t)TRACE_CHUNKS * TRACE_CHUNK_SIZE)

/* "mpst" */
#define TRACE_MAGIC 0x7473706du

enum trace_kind {
	TRACE_LAUNCH = 1, /* `count' kernels in one call or one batch */
	TRACE_GRAPH,      /* an executable graph */
	TRACE_COPY_IN,    /* `size' bytes, as the counters of enum counter */
	TRACE_COPY_OUT,
	TRACE_COPY_WITHIN,
	TRACE_FILL,
	TRACE_WAIT,  /* a thread of the client begins to sleep until the stream has come so far */
	TRACE_FAULT, /* a GPU fault has ended the work of the client */
	TRACE_END,   /* the client has ended */
	/* Levels, from now on; `stream' is that of the GPU: */
	TRACE_SHARE,    /* a background client has `size' SMs */
	TRACE_SLOWDOWN, /* another client's work takes `size' thousandths of its time */
	TRACE_KINDS,
};

/* Kinds up to here are work, which has a duration; others are a point in time. */
#define TRACE_WORK_MAX TRACE_FILL

/* The times are unknown: `start_ns' is when the server gave the work to the driver. */
#define TRACE_UNTIMED 1u
/* The work had not ended when the trace, or the client's context, ended. */
#define TRACE_UNFINISHED 2u
/* The driver refused it. */
#define TRACE_REFUSED 4u
/* The batch has other kernels, too. */
#define TRACE_MIXED 8u

/* Longer names of kernels are cut; the NUL is included. */
#define TRACE_NAME_MAX 256u

struct trace_record {
	uint64_t start_ns; /* CLOCK_MONOTONIC */
	uint64_t duration_ns;
	uint64_t size;
	uint32_t stream; /* its ID; below DEVICES_MAX: the NULL stream of that GPU */
	uint32_t count;
	uint16_t kind;
	uint16_t flags;
	uint32_t name; /* offset in `names'; 0: none */
};

#define TRACE_COMMAND_MAX 88u
#define TRACE_GROUP_MAX 256u

struct trace_head {
	uint32_t magic; /* 0: the chunk is unused */
	uint32_t n_records;
	uint32_t names_size;
	uint32_t session;
	int32_t pid;
	uint32_t uid;
	uint64_t n_lost;  /* events of this client for which there was no space */
	uint64_t full_ns; /* when the first of them was lost */
	char command[TRACE_COMMAND_MAX];
	char group[TRACE_GROUP_MAX]; /* its name; empty: none */
};

#define TRACE_NAMES 8192u
#define TRACE_RECORDS                                                                              \
	((TRACE_CHUNK_SIZE - sizeof(struct trace_head) - TRACE_NAMES) / sizeof(struct trace_record))

struct trace_chunk {
	struct trace_head head;
	char names[TRACE_NAMES]; /* each ends with NUL; the first byte is NUL */
	struct trace_record records[TRACE_RECORDS];
};

_Static_assert(sizeof(struct trace_head) == 384, "no padding");
_Static_assert(sizeof(struct trace_record) == 40, "no padding");
_Static_assert(sizeof(struct trace_chunk) <= TRACE_CHUNK_SIZE, "fits");

#endif
