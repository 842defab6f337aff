/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Node ops: copying, freeing, and making them from the work of streams. Any thread
 * of the application.
 *
 * Invariant: node ops share no memory.
 */

#include "node_op.h"

#include <string.h>

#include "graph_memory.h"
#include "wire.h"
#include "client/stream/event.h"
#include "client/memory/memory.h"

static void *copy_of(const void *bytes, size_t size)
{
	/* A size of 0 is valid, and the result must differ from the one for "out of memory". */
	void *copy = malloc(MAX(size, 1u));

	if (copy && size > 0)
		memcpy(copy, bytes, size);
	return copy;
}

void node_op_fini(struct node_op *op)
{
	switch (op->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		free(op->kernel.params);
		free(op->kernel.pointers);
		free(op->kernel.buffer);
		break;
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		free(op->memory_ops.ops);
		free(op->memory_ops.params);
		break;
	case CU_GRAPH_NODE_TYPE_GRAPH:
		graph_free(op->child);
		break;
	case CU_GRAPH_NODE_TYPE_CONDITIONAL:
		for (uint32_t i = 0; i < op->conditional.n_bodies; i++)
			graph_free(op->conditional.bodies[i]);
		free(op->conditional.bodies);
		break;
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		graph_memory_unref(op->memory);
		break;
	default:
		break;
	}
	*op = (struct node_op){.type = CU_GRAPH_NODE_TYPE_EMPTY};
}

CUresult node_op_of_kernel(const struct context *context, const struct launch *launch,
	struct kernel *kernel, const uint8_t *params, struct node_op *ret_op)
{
	struct node_op_kernel *made = &ret_op->kernel;

	*ret_op = (struct node_op){.type = CU_GRAPH_NODE_TYPE_KERNEL};
	made->kernel = kernel;
	made->context = context;
	made->launch = *launch;
	made->launch.attrs.attr_mask &= WIRE_NODE_ATTR_ALL;
	made->launch.events = NULL;
	made->launch.hints = NULL;
	made->hints = launch->hints ? *launch->hints : LAUNCH_HINTS_NONE;
	made->params_size = kernel->param_bytes;
	made->params = copy_of(params, kernel->param_bytes);
	made->pointers = calloc(kernel->n_params + 1, sizeof(void *));
	if (!made->params || !made->pointers) {
		node_op_fini(ret_op);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	for (uint32_t i = 0; i < kernel->n_params; i++)
		made->pointers[i] = made->params + kernel->params[i].offset;
	return CUDA_SUCCESS;
}

static CUresult set_buffer(struct node_op_kernel *kernel, size_t size)
{
	struct param_buffer *buffer = malloc(sizeof(*buffer));

	kernel->buffer = buffer;
	if (!buffer)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*buffer = (struct param_buffer){
		size, {CU_LAUNCH_PARAM_BUFFER_SIZE, &buffer->size, CU_LAUNCH_PARAM_BUFFER_POINTER,
			      kernel->params, CU_LAUNCH_PARAM_END}};
	return CUDA_SUCCESS;
}

CUresult node_op_set_buffer(struct node_op *op, size_t size)
{
	CUresult result = set_buffer(&op->kernel, size);

	if (result != CUDA_SUCCESS)
		node_op_fini(op);
	return result;
}

static CUstreamBatchMemOpParams params_of(const struct memory_op *op)
{
	CUstreamBatchMemOpParams params = {0};

	params.operation = (CUstreamBatchMemOpType)op->operation;
	if (op->operation == CU_STREAM_MEM_OP_BARRIER) {
		params.memoryBarrier.flags = op->flags;
		return params;
	}
	/* Waits and writes have the same members at the same offsets. */
	params.waitValue.address = op->address;
	params.waitValue.value64 = op->value;
	params.waitValue.flags = op->flags;
	return params;
}

CUresult node_op_of_memory_ops(const struct memory_op *ops, uint32_t n_ops, struct node_op *ret_op)
{
	struct node_op_memory_ops *made = &ret_op->memory_ops;

	*ret_op = (struct node_op){.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP};
	made->n_ops = n_ops;
	made->context = (CUcontext)context_current;
	made->ops = copy_of(ops, n_ops * sizeof(*ops));
	made->params = calloc(n_ops + 1, sizeof(*made->params));
	if (!made->ops || !made->params) {
		node_op_fini(ret_op);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	for (uint32_t i = 0; i < n_ops; i++)
		made->params[i] = params_of(&ops[i]);
	return CUDA_SUCCESS;
}

void node_op_of_event(CUgraphNodeType type, struct event *event, struct node_op *ret_op)
{
	*ret_op = (struct node_op){
		.type = type,
		.event = {event, event->serial},
	};
}

static CUresult dup_kernel(const struct node_op_kernel *from, struct node_op_kernel *made)
{
	size_t n = 0;

	made->params = copy_of(from->params, from->params_size);
	while (from->pointers[n])
		n++;
	made->pointers = calloc(n + 1, sizeof(void *));
	if (!made->params || !made->pointers)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (size_t i = 0; i < n; i++)
		made->pointers[i] = made->params + ((uint8_t *)from->pointers[i] - from->params);
	return from->buffer ? set_buffer(made, from->buffer->size) : CUDA_SUCCESS;
}

static CUresult dup_memory_ops(
	const struct node_op_memory_ops *from, struct node_op_memory_ops *made)
{
	made->ops = copy_of(from->ops, from->n_ops * sizeof(*from->ops));
	made->params = copy_of(from->params, from->n_ops * sizeof(*from->params));
	return made->ops && made->params ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* On failure, node_op_fini() frees the bodies that were made. */
static CUresult dup_conditional(
	const struct node_op_conditional *from, struct node_op_conditional *made)
{
	CUresult result = CUDA_SUCCESS;

	made->n_bodies = 0;
	made->bodies = calloc(from->n_bodies, sizeof(struct graph *));
	if (!made->bodies)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (uint32_t i = 0; i < from->n_bodies && result == CUDA_SUCCESS; i++) {
		result = graph_clone(from->bodies[i], &made->bodies[i]);
		made->n_bodies += result == CUDA_SUCCESS;
	}
	return result;
}

CUresult node_op_dup(const struct node_op *from, struct node_op *ret_op)
{
	CUresult result = CUDA_SUCCESS;

	*ret_op = *from;
	if (from->type == CU_GRAPH_NODE_TYPE_KERNEL) {
		ret_op->kernel.params = NULL;
		ret_op->kernel.pointers = NULL;
		ret_op->kernel.buffer = NULL;
		result = dup_kernel(&from->kernel, &ret_op->kernel);
	} else if (from->type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP) {
		ret_op->memory_ops.ops = NULL;
		ret_op->memory_ops.params = NULL;
		result = dup_memory_ops(&from->memory_ops, &ret_op->memory_ops);
	} else if (from->type == CU_GRAPH_NODE_TYPE_GRAPH) {
		ret_op->child = NULL;
		result = graph_clone(from->child, &ret_op->child);
	} else if (from->type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
		result = dup_conditional(&from->conditional, &ret_op->conditional);
	} else if (node_op_is_memory(from)) {
		graph_memory_ref(from->memory);
	}
	if (result != CUDA_SUCCESS)
		node_op_fini(ret_op);
	return result;
}
