/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SYNC_CALLS_H
#define SYNC_CALLS_H

/*
 * For sync_matrix.c: the kinds of memory, and a table of the calls that copy, set, prefetch or
 * advise, with the kinds that each accepts. There are two tables: one with the plain symbols,
 * one with those of per-thread default streams.
 */

#include <cuda.h>
#include <stdbool.h>

/* More than 64 KiB, for which the driver may copy in another way. */
enum {
	WIDTH = 512,
	HEIGHT = 256,
	SIZE = WIDTH * HEIGHT,
};

enum kind {
	PAGEABLE,
	REGISTERED, /* private memory, registered */
	SHARED,     /* a shared mapping, registered */
	PINNED,
	COMBINED, /* write-combined */
	MAPPED,   /* pinned; calls name it by its device pointer where possible */
	MANAGED,
	DEVICE,
	SYNCED, /* pinned, with CU_POINTER_ATTRIBUTE_SYNC_MEMOPS */
	POOL,
	VIRTUAL,
	PEER,  /* of a second GPU */
	ARRAY, /* of two dimensions */
	LINE,  /* an array of one */
	KINDS,
};

#define SET_OF(kind) (1u << (kind))
#define LOCKED                                                                                     \
	(SET_OF(REGISTERED) | SET_OF(SHARED) | SET_OF(PINNED) | SET_OF(COMBINED) | SET_OF(MAPPED))
#define HOSTS (SET_OF(PAGEABLE) | LOCKED)
#define GPUS (SET_OF(DEVICE) | SET_OF(POOL) | SET_OF(VIRTUAL) | SET_OF(PEER))

struct memory {
	enum kind kind;
	CUcontext context;
	void *host;         /* NULL: the host cannot read it */
	CUdeviceptr device; /* 0: the GPU cannot reach it */
	CUarray array;
};

struct transfer {
	const struct memory *dst, *src;
	CUstream stream;
	unsigned char value; /* the value that a set writes */
};

enum rule {
	RULE_SET,
	RULE_SET_ALWAYS, /* including cuPointerSetAttribute(), which waits for it */
	RULE_COPY,
	RULE_BATCH,        /* a copy on an explicit stream */
	RULE_BATCH_DURING, /* the same; reads its source before it returns */
	RULE_BATCH_ANY,    /* the same; reads its source at any time */
	RULE_HINT,         /* moves no data that the test could see */
	RULE_ADVICE,       /* the same, without a stream */
};

struct sync_call {
	const char *name;
	CUresult (*run)(const struct transfer *transfer);
	enum rule rule;
	bool is_sync;                  /* not an Async function: its stream is the default stream */
	unsigned dst, src;             /* sets of kinds */
	unsigned dst_named, src_named; /* the kinds that it names as the device's */
	bool names_host;               /* the type of one end is a host pointer */
	bool has_boxes;                /* of a batch: copies of boxes, else of lines */
	bool (*is_there)(void);        /* NULL: every driver has it */
};

extern const struct sync_call sync_calls[], sync_calls_ptds[];
extern const unsigned n_sync_calls;

#endif
