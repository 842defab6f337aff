/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SYNC_CALLS_H
#define SYNC_CALLS_H

/*
 * What sync_matrix.c is made of: the kinds of memory, and one table of the calls
 * that copy, set, prefetch or advise, each with the kinds that it takes. The
 * table exists twice, once with the plain symbols and once with those of
 * per-thread default streams.
 */

#include <cuda.h>
#include <stdbool.h>

/* More than 64 KiB, which the driver may copy in another way. */
enum {
	WIDTH = 512,
	HEIGHT = 256,
	SIZE = WIDTH * HEIGHT,
};

enum kind {
	PAGEABLE,
	REGISTERED, /* private memory, registered */
	SHARED,     /* the same of a shared mapping */
	PINNED,
	COMBINED, /* write-combined */
	MAPPED,   /* pinned, which calls name by its device pointer where they can */
	MANAGED,
	DEVICE,
	SYNCED, /* the same with CU_POINTER_ATTRIBUTE_SYNC_MEMOPS */
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
	void *host;         /* NULL: the host cannot look there */
	CUdeviceptr device; /* 0: the GPU does not reach it */
	CUarray array;
};

struct transfer {
	const struct memory *dst, *src;
	CUstream stream;
	unsigned char value; /* that a set writes */
};

enum rule {
	RULE_SET,
	RULE_SET_ALWAYS, /* and cuPointerSetAttribute(), which waits for it */
	RULE_COPY,
	RULE_BATCH,        /* a copy on a stream that is named */
	RULE_BATCH_DURING, /* the same, which reads its source before it returns */
	RULE_BATCH_ANY,    /* the same, which reads its source at any time */
	RULE_HINT,         /* moves nothing that the test could see */
	RULE_ADVICE,       /* the same, and names no stream */
};

struct sync_call {
	const char *name;
	CUresult (*run)(const struct transfer *transfer);
	enum rule rule;
	bool is_sync;                  /* not an Async function: its stream is the default one */
	unsigned dst, src;             /* sets of kinds */
	unsigned dst_named, src_named; /* of them, those that it names as the device's */
	bool names_host;               /* the type of one end is a host pointer */
	bool has_boxes;                /* of a batch: its copies are boxes, else lines */
	bool (*is_there)(void);        /* NULL: in every driver */
};

extern const struct sync_call sync_calls[], sync_calls_ptds[];
extern const unsigned n_sync_calls;

#endif
