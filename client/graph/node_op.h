/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NODE_OP_H
#define NODE_OP_H

/*
 * What a graph node does, with copies of all its parameters. Checked when it is
 * made, and kept until the node changes or ends. node_op.c and graph.c call each other,
 * because an op may own graphs, and a graph owns the ops of its nodes. Any thread.
 */

#include "client/copy/box.h"
#include "client/copy/fill.h"
#include "client/launch/launch.h"

struct context;
struct event;
struct graph;
struct graph_memory;

/* Parameters that the program passed in one buffer come back so. */
struct param_buffer {
	size_t size;
	void *extra[5]; /* names and values: the size, the buffer, the end */
};

struct node_op_kernel {
	struct kernel *kernel;
	const struct context *context; /* on whose SMs it runs */
	struct launch launch;
	struct launch_hints hints;
	uint8_t *params; /* owned */
	uint32_t params_size;
	void **pointers;             /* owned: to each parameter in `params', for queries */
	struct param_buffer *buffer; /* owned; NULL: the program passed such pointers */
};

struct node_op_copy {
	struct box box; /* its ends may be the program's own memory; a size may be 0 */
	CUDA_MEMCPY3D desc;
};

struct node_op_host {
	CUhostFn function;
	void *data;
};

struct node_op_memory_ops {
	struct memory_op *ops;            /* owned */
	CUstreamBatchMemOpParams *params; /* owned: as the program passed them */
	uint32_t n_ops;
	CUcontext context;
};

struct node_op_event {
	struct event *event; /* may have ended, and its slot be reused: compare the serial */
	uint64_t serial;
};

struct node_op_conditional {
	CUgraphConditionalHandle handle; /* the number of the condition, from 1 on */
	CUgraphConditionalNodeType type;
	struct graph **bodies; /* owned, like the graphs; the program sees it as handles */
	uint32_t n_bodies;
};

struct node_op {
	CUgraphNodeType type;
	union {
		struct node_op_kernel kernel;
		struct node_op_copy copy;
		struct fill fill;
		struct node_op_host host;
		struct node_op_memory_ops memory_ops;
		struct node_op_event event;
		struct graph *child; /* owned */
		struct node_op_conditional conditional;
		struct graph_memory *memory; /* a reference: what the node allocates or frees */
	};
};

static inline bool node_op_is_memory(const struct node_op *op)
{
	return op->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || op->type == CU_GRAPH_NODE_TYPE_MEM_FREE;
}

static inline void node_op_copy_attributes(struct node_op *to, const struct node_op *from)
{
	to->kernel.launch.attrs = from->kernel.launch.attrs;
	to->kernel.hints = from->kernel.hints;
}

void node_op_fini(struct node_op *op);
CUresult node_op_dup(const struct node_op *from, struct node_op *ret_op);

/* From the work of streams, which has been checked. */
CUresult node_op_of_kernel(const struct context *context, const struct launch *launch,
	struct kernel *kernel, const uint8_t *params, struct node_op *ret_op);
CUresult node_op_set_buffer(struct node_op *op, size_t size); /* on failure, the op is empty */
CUresult node_op_of_memory_ops(const struct memory_op *ops, uint32_t n_ops, struct node_op *ret_op);
void node_op_of_event(CUgraphNodeType type, struct event *event, struct node_op *ret_op);

/* The context that a call names for a copy or a fill; NULL: none. It may not have ended. */
CUresult node_op_context(CUcontext handle);

/* From the driver's descriptions, in the current context (node_op_params.c). */
CUresult node_op_kernel(const CUDA_KERNEL_NODE_PARAMS_v2 *params, struct node_op *ret_op);
CUresult node_op_copy(const CUDA_MEMCPY3D *params, struct node_op *ret_op);
CUresult node_op_fill(const CUDA_MEMSET_NODE_PARAMS *params, struct node_op *ret_op);
CUresult node_op_host(const CUDA_HOST_NODE_PARAMS *params, struct node_op *ret_op);
CUresult node_op_memory_ops(const CUDA_BATCH_MEM_OP_NODE_PARAMS *params, struct node_op *ret_op);
CUresult node_op_event(CUgraphNodeType type, CUevent event, struct node_op *ret_op);
CUresult node_op_memory_alloc(const CUDA_MEM_ALLOC_NODE_PARAMS *params, struct node_op *ret_op);
CUresult node_op_memory_free(CUdeviceptr address, struct node_op *ret_op);

/* From the description that the call for that type has (node_calls.h). */
CUresult node_op_make(CUgraphNodeType type, const void *params, struct node_op *ret_op);

/* Any of these, an empty node, or a child graph; not a conditional node (conditional.h). */
CUresult node_op_any(const CUgraphNodeParams *params, struct node_op *ret_op);

/* The attributes of kernels. CUDA_ERROR_INVALID_VALUE: a node cannot have the attribute. */
CUresult node_op_set_attribute(
	struct node_op *op, CUlaunchAttributeID name, const CUlaunchAttributeValue *value);
CUresult node_op_get_attribute(
	const struct node_op *op, CUlaunchAttributeID name, CUlaunchAttributeValue *ret_value);

#endif
