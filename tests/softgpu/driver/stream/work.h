/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WORK_H
#define WORK_H

/*
 * One piece of a stream's work. Work in a queue and in a graph node is the same; a
 * launch copies a node's work into a queue.
 *
 * Work owns what it points at (parameters, staged bytes, references). A stream's
 * thread calls work_run() without the driver's lock; everything else runs with it.
 */

#include "tests/softgpu/driver/driver.h"
#include "tests/softgpu/driver/sms.h"

struct body;
struct condition_values;
struct ptx_kernel;
struct event;
struct event_share;
struct graph_memory;
struct module;
struct stamp;
struct stream;
struct trigger;

enum work_kind {
	WORK_NONE, /* only waits for its dependencies */
	WORK_KERNEL,
	WORK_COPY,
	WORK_FILL,
	WORK_STAMP,        /* the record of an event */
	WORK_WAIT_EVENT,   /* only in graphs: becomes a dependency at launch */
	WORK_RECORD_EVENT, /* only in graphs: becomes a stamp at launch */
	WORK_WAIT_SHARED,  /* for a record of another process */
	WORK_HOST,
	WORK_CALLBACK,
	WORK_MEMOPS,
	WORK_FREE,        /* of a stream-ordered allocation */
	WORK_GRAPH_ALLOC, /* only in graphs: makes memory live at launch */
	WORK_GRAPH_FREE,
	WORK_CONDITIONAL,
	WORK_ASSIGN, /* of conditions, at the beginning of a launch */
};

/* Attributes of kernels that have no effect here; for queries of graph nodes. */
struct kernel_hints {
	CUaccessPolicyWindow window;
	CUlaunchMemSyncDomainMap domains;
	bool has_domains; /* else the usual ones */
	CUlaunchMemSyncDomain domain;
	CUclusterSchedulingPolicy policy;
	int priority;
	unsigned carveout;
};

struct kernel_work {
	struct module *module; /* owns a reference */
	const struct ptx_kernel *kernel;
	CUfunction function; /* for queries of graph nodes */
	CUkernel handle;     /* the same; NULL: of a module without a library */
	CUcontext context;   /* its context, which may have ended since */
	struct sm_set sms;   /* the SMs on which it runs */
	uint32_t grid[3];
	uint32_t cluster[3]; /* blocks of a cluster; 0: not set */
	uint32_t block[3];
	uint32_t shared_dynamic; /* bytes */
	size_t graph_stack;      /* the limit of the stack with which its graph was made */
	bool is_cooperative;
	struct kernel_hints hints;
	bool has_buffer; /* its parameters came as one buffer: a node with it cannot be made
			    cooperative */
	void *params;    /* packed */
	size_t params_size;
	struct condition_values *conditions; /* of its graph, or NULL; owns a reference */
	bool is_serialized;      /* has programmatic stream serialization; only in captures */
	struct trigger *trigger; /* of its completion event, or NULL; owns a reference */
};

/* A box of bytes; height and depth are 1 for a plain copy. */
struct copy_work {
	uint64_t dst, src;
	size_t dst_pitch, src_pitch; /* bytes from row to row */
	size_t dst_slice, src_slice; /* bytes from layer to layer */
	size_t width, height, depth;
	bool is_dst_device, is_src_device; /* else pageable: not checked */
	bool is_dst_array, is_src_array;   /* array of a device; checked at the call */
	void *staged;                      /* the source, if it was pageable and small */
	CUDA_MEMCPY3D desc;                /* for queries of graph nodes */
};

struct fill_work {
	uint64_t dst;
	size_t pitch, width, height; /* bytes, bytes, rows */
	uint32_t value;
	uint32_t unit; /* bytes: 1, 2 or 4 */
};

struct host_work {
	CUhostFn fn;
	CUstreamCallback callback; /* of a WORK_CALLBACK; called after a fault too */
	CUstream handle;
	void *user;
};

struct memop_work {
	uint32_t n_ops;
	CUstreamBatchMemOpParams *ops;
};

struct shared_work {
	struct event_share *share; /* owns a reference */
	uint64_t number;           /* of the record that is waited for */
};

/* A conditional node; in a graph it has neither values nor bodies. */
struct conditional_work {
	CUgraphConditionalNodeType type;
	CUgraphConditionalHandle handle;
	CUcontext context;               /* only compared */
	struct condition_values *values; /* owns a reference */
	struct body *bodies;
	uint32_t n_bodies;
};

/* Of one condition: its default value, and whether a launch assigns that. */
struct assignment {
	uint32_t value;
	bool is_assigned;
};

struct assign_work {
	struct condition_values *values; /* owns a reference */
	struct assignment *assignments;
	uint32_t n;
};

struct work {
	enum work_kind kind;
	union {
		struct kernel_work kernel;
		struct copy_work copy;
		struct fill_work fill;
		struct host_work host;
		struct memop_work memops;
		struct shared_work shared;
		struct conditional_work conditional;
		struct assign_work assign;
		struct stamp *stamp;         /* owns a reference */
		struct event *event;         /* owns a reference */
		struct graph_memory *memory; /* owns a reference */
		uint64_t address;
	};
};

/* CUDA_SUCCESS or a fault. */
CUresult work_run(struct work *work, struct stream *stream);

/* Passes the error to a callback whose stream or GPU has died. */
void work_abort(struct work *work, CUresult result);

void work_fini(struct work *work);
CUresult work_dup(const struct work *from, struct work *ret_work);

/* copy.c: run by work_run() for copies and fills. */
CUresult copy_run(const struct copy_work *copy);
CUresult fill_run(const struct fill_work *fill);

/* memop.c: checks and copies `ops'; run by work_run(). */
#define MEMOPS_MAX 256
CUresult memops_new(const CUstreamBatchMemOpParams *ops, uint32_t n, struct work *ret_work);
CUresult memops_run(const struct memop_work *memops, const struct stream *stream);

/* launch.c */
CUresult kernel_run(const struct kernel_work *kernel, const struct stream *stream);

/* guard.c: runs `work'; a host page fault in it becomes a fault of the GPU. */
void guard_init(void);
CUresult guard_run(CUresult (*fn)(struct work *work, struct stream *stream), struct work *work,
	struct stream *stream);

#endif
