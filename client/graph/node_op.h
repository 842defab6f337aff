/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NODE_OP_H
#define NODE_OP_H

/*
 * What a node of a graph does, with copies of all that it needs: checked when
 * it is made, kept until its node changes or goes. Any thread.
 */

#include "client/copy/box.h"
#include "client/copy/fill.h"
#include "client/launch/launch.h"

struct context;
struct event;
struct graph;
struct graph_memory;

struct task_kernel {
	struct kernel *kernel;
	CUfunction function;           /* as the program named it, or ... */
	CUkernel handle;               /* ... so */
	const struct context *context; /* on whose SMs it runs */
	struct launch launch;
	uint8_t *params; /* owned */
	uint32_t params_size;
	void **pointers; /* owned: to each in `params', for who asks */
};

struct task_copy {
	struct box box; /* its ends may be the program's own memory; a size may be 0 */
	CUDA_MEMCPY3D desc;
};

struct task_host {
	CUhostFn function;
	void *data;
};

struct task_memory_ops {
	struct memory_op *ops;            /* owned */
	CUstreamBatchMemOpParams *params; /* owned: as the program has them */
	uint32_t n_ops;
	CUcontext context;
};

struct task_event {
	struct event *event; /* may have ended, and be another's: see the serial */
	uint64_t serial;
};

struct task {
	CUgraphNodeType type;
	union {
		struct task_kernel kernel;
		struct task_copy copy;
		struct fill fill;
		struct task_host host;
		struct task_memory_ops memory_ops;
		struct task_event event;
		struct graph *child;         /* owned */
		struct graph_memory *memory; /* a reference: allocated, or freed */
	};
};

static inline bool task_is_memory(const struct task *task)
{
	return task->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
	       task->type == CU_GRAPH_NODE_TYPE_MEM_FREE;
}

void task_fini(struct task *task);
CUresult task_dup(const struct task *from, struct task *ret_task);

/* From what streams are given; each is checked already. */
CUresult task_of_kernel(const struct context *context, const struct launch *launch,
	struct kernel *kernel, const uint8_t *params, struct task *ret_task);
CUresult task_of_memory_ops(const struct memory_op *ops, uint32_t n_ops, struct task *ret_task);
void task_of_line(uint64_t dst, uint64_t src, uint64_t size, struct task *ret_task);
void task_of_event(CUgraphNodeType type, struct event *event, struct task *ret_task);

/* From the driver's descriptions, in the current context (task_params.c). */
CUresult task_kernel(const CUDA_KERNEL_NODE_PARAMS_v2 *params, struct task *ret_task);
CUresult task_copy(const CUDA_MEMCPY3D *params, struct task *ret_task);
CUresult task_fill(const CUDA_MEMSET_NODE_PARAMS *params, struct task *ret_task);
CUresult task_host(const CUDA_HOST_NODE_PARAMS *params, struct task *ret_task);
CUresult task_memory_ops(const CUDA_BATCH_MEM_OP_NODE_PARAMS *params, struct task *ret_task);
CUresult task_event(CUgraphNodeType type, CUevent event, struct task *ret_task);
CUresult task_memory_alloc(const CUDA_MEM_ALLOC_NODE_PARAMS *params, struct task *ret_task);
CUresult task_memory_free(CUdeviceptr address, struct task *ret_task);

/* Any of those, an empty one, or a child graph. */
CUresult task_any(const CUgraphNodeParams *params, struct task *ret_task);

/* Kernels have attributes besides; CUDA_ERROR_INVALID_VALUE: none that a node has. */
CUresult task_set_attribute(
	struct task *task, CUlaunchAttributeID name, const CUlaunchAttributeValue *value);
CUresult task_get_attribute(
	const struct task *task, CUlaunchAttributeID name, CUlaunchAttributeValue *ret_value);

#endif
