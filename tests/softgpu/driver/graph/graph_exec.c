/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executable graphs: the nodes of a graph, in an order that satisfies the
 * dependencies, ready to be copied into a stream.
 *
 * Runs in any thread, under the driver's lock. Launches of one executable
 * graph run one after the other, even in different streams.
 */

#include <string.h>

#include "capture.h"
#include "conditional.h"
#include "graph.h"
#include "graph_memory.h"
#include "tests/softgpu/driver/copy/copy.h"
#include "tests/softgpu/driver/launch/launch.h"
#include "tests/softgpu/driver/memory/memory.h"
#include "tests/softgpu/driver/stream/channels.h"
#include "tests/softgpu/driver/stream/context.h"
#include "tests/softgpu/driver/stream/event.h"
#include "tests/softgpu/driver/stream/stream.h"

#define INSTANTIATE_FLAGS                                                                          \
	(CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |    \
		CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY)

struct exec {
	struct object object;
	cuuint64_t flags;
	struct step *steps;
	size_t n_steps;
	size_t n_branches;
	struct device *device;
	size_t made_stack;          /* the limit of the stack when it was made */
	size_t set_stack;           /* ... and at the first launch after a kernel was set */
	bool is_set;                /* a kernel was set since the last launch */
	struct stream *last_stream; /* of the last launch; owns a reference */
	uint64_t last_ticket;
	struct user_ref *user_refs;
	struct work assign;        /* begins a launch; WORK_NONE without conditions */
	const struct graph *graph; /* of which it was made; only compared */
};

void steps_free(struct step *steps, size_t n)
{
	for (size_t i = 0; i < n; i++)
		work_fini(&steps[i].work);
	free(steps);
}

static void steps_unbind(struct step *steps, size_t n)
{
	for (size_t i = 0; i < n; i++)
		graph_memory_unbind(&steps[i].work);
}

/* An allocation node belongs to one executable graph at a time. */
static bool steps_bind(struct step *steps, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (graph_memory_bind(&steps[i].work))
			continue;
		steps_unbind(steps, i);
		return false;
	}
	return true;
}

/* A node continues the branch of a dependency if no other node does. */
static bool begins_branch(const struct node *node)
{
	for (size_t i = 0; i < node->n_dependencies; i++) {
		if (node->dependencies[i]->is_followed)
			continue;
		node->dependencies[i]->is_followed = true;
		return false;
	}
	return true;
}

static size_t count_branches(struct node *const *nodes, size_t n)
{
	size_t n_branches = 0;

	for (size_t i = 0; i < n; i++)
		nodes[i]->is_followed = false;
	for (size_t i = 0; i < n; i++)
		n_branches += begins_branch(nodes[i]);
	return n_branches;
}

static CUresult step_new(struct node *node, struct step *step)
{
	CUresult result;

	step->node = node;
	step->type = node->type;
	if (node->work.kind == WORK_FILL && !fill_is_in_range(&node->work.fill))
		return CUDA_ERROR_INVALID_VALUE;
	result = work_dup(&node->work, &step->work);
	return result == CUDA_SUCCESS && node->n_bodies > 0
		       ? conditional_bodies_new(node, &step->work.conditional)
		       : result;
}

CUresult steps_new(
	struct graph *graph, struct step **ret_steps, size_t *ret_n, size_t *ret_n_branches)
{
	_cleanup_free_ struct node **nodes = NULL;
	struct step *steps;
	size_t n;
	CUresult result = graph_sort(graph, &nodes, &n);

	if (result != CUDA_SUCCESS)
		return result;
	steps = calloc(n + 1, sizeof(*steps));
	if (!steps)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (size_t i = 0; i < n; i++) {
		result = step_new(nodes[i], &steps[i]);
		if (result != CUDA_SUCCESS) {
			steps_free(steps, i + 1);
			return result;
		}
	}
	*ret_steps = steps;
	*ret_n = n;
	*ret_n_branches = count_branches(nodes, n);
	return CUDA_SUCCESS;
}

/* The nodes of the graph as steps, and the conditions that they use. */
static CUresult exec_fill(struct exec *exec, struct graph *graph)
{
	CUresult result = steps_new(graph, &exec->steps, &exec->n_steps, &exec->n_branches);

	if (result == CUDA_SUCCESS)
		result = condition_assign_new(graph, NULL, &exec->assign);
	if (result == CUDA_SUCCESS)
		result = user_refs_copy(graph->user_refs, &exec->user_refs);
	if (result == CUDA_SUCCESS && !steps_bind(exec->steps, exec->n_steps))
		result = CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		steps_attach(exec->steps, exec->n_steps, exec->assign.assign.values);
	return result;
}

static CUresult instantiate(CUgraphExec *ret_exec, CUgraph handle, cuuint64_t flags,
	CUgraphInstantiateResult *ret_detail)
{
	struct graph *graph = object_find(OBJECT_GRAPH, handle);
	struct exec *exec;
	CUresult result;

	if (!ret_exec || !graph || graph->is_moved)
		return CUDA_ERROR_INVALID_VALUE;
	if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)
		return graph_is_conditional(graph) ? CUDA_ERROR_INVALID_VALUE
						   : CUDA_ERROR_NOT_SUPPORTED;
	if (flags & ~(cuuint64_t)INSTANTIATE_FLAGS)
		return CUDA_ERROR_INVALID_VALUE;
	result = conditional_check(graph, ret_detail);
	if (result == CUDA_SUCCESS && graph->exec)
		result = CUDA_ERROR_NOT_SUPPORTED;
	if (result != CUDA_SUCCESS)
		return result;
	exec = calloc(1, sizeof(*exec));
	if (!exec)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = exec_fill(exec, graph);
	if (result != CUDA_SUCCESS) {
		user_refs_drop(&exec->user_refs, false);
		work_fini(&exec->assign);
		steps_free(exec->steps, exec->n_steps);
		free(exec);
		return result;
	}
	exec->flags = flags;
	exec->graph = graph;
	if (graph_is_conditional(graph))
		graph->exec = exec;
	exec->device = context_current()->device;
	exec->made_stack = context_current()->limits[CU_LIMIT_STACK_SIZE];
	channels_take(exec->device, exec->n_branches, exec->n_steps);
	object_add(&exec->object, OBJECT_EXEC);
	stat_add(STAT_GRAPH_EXECS, 1);
	*ret_exec = (CUgraphExec)exec;
	return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(
	CUgraphExec *phGraphExec, CUgraph hGraph, unsigned long long flags)
{
	CUgraphInstantiateResult detail;

	ENTER(CALL_CONTEXT);
	return instantiate(phGraphExec, hGraph, flags, &detail);
}

CUresult cuGraphInstantiate_v2(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode,
	char *logBuffer, size_t bufferSize)
{
	CUgraphInstantiateResult detail;

	ENTER(CALL_CONTEXT);
	if (phErrorNode)
		*phErrorNode = NULL;
	if (logBuffer && bufferSize > 0)
		*logBuffer = '\0';
	return instantiate(phGraphExec, hGraph, 0, &detail);
}

CUresult cuGraphInstantiate(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode,
	char *logBuffer, size_t bufferSize)
{
	return cuGraphInstantiate_v2(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize);
}

static CUresult instantiate_with_params(
	CUgraphExec *ret_exec, CUgraph handle, CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
	CUgraphInstantiateResult detail = CUDA_GRAPH_INSTANTIATE_ERROR;
	CUresult result;

	if (!params)
		return CUDA_ERROR_INVALID_VALUE;
	params->hErrNode_out = NULL;
	result = instantiate(ret_exec, handle, params->flags, &detail);
	params->result_out = result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : detail;
	return result;
}

CUresult cuGraphInstantiateWithParams(
	CUgraphExec *phGraphExec, CUgraph hGraph, CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
	ENTER(CALL_CONTEXT);
	return instantiate_with_params(phGraphExec, hGraph, instantiateParams);
}

CUresult cuGraphInstantiateWithParams_ptsz(
	CUgraphExec *phGraphExec, CUgraph hGraph, CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
	ENTER(CALL_CONTEXT);
	return instantiate_with_params(phGraphExec, hGraph, instantiateParams);
}

/* Its graph may be instantiated again. The graph's address may be another graph's by now. */
static void exec_release(const struct exec *exec)
{
	struct graph *graph = object_find(OBJECT_GRAPH, exec->graph);

	if (graph && graph->exec == exec)
		graph->exec = NULL;
}

CUresult cuGraphExecDestroy(CUgraphExec hGraphExec)
{
	struct exec *exec;

	ENTER(CALL_ALIVE);
	exec = object_find(OBJECT_EXEC, hGraphExec);
	if (!exec)
		return CUDA_ERROR_INVALID_VALUE;
	object_remove(&exec->object);
	/* The real driver sometimes does this. */
	if (exec->last_stream)
		device_wait(exec->last_stream->context->device);
	channels_leave(exec->device, exec->n_branches, exec->n_steps);
	steps_unbind(exec->steps, exec->n_steps);
	exec_release(exec);
	steps_free(exec->steps, exec->n_steps);
	work_fini(&exec->assign);
	user_refs_drop(&exec->user_refs, exec->last_stream != NULL);
	stream_unref(exec->last_stream);
	free(exec);
	stat_add(STAT_GRAPH_EXECS, -1);
	return CUDA_SUCCESS;
}

CUresult cuGraphExecGetFlags(CUgraphExec hGraphExec, cuuint64_t *flags)
{
	const struct exec *exec;

	ENTER(CALL_ALIVE);
	exec = object_find(OBJECT_EXEC, hGraphExec);
	if (!exec || !flags)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = exec->flags;
	return CUDA_SUCCESS;
}

static struct step *step_of(const struct exec *exec, CUgraphNode node)
{
	return exec ? steps_find(exec->steps, exec->n_steps, (const struct node *)node) : NULL;
}

static struct step *step_find(CUgraphExec handle, CUgraphNode node)
{
	return step_of(object_find(OBJECT_EXEC, handle), node);
}

static bool is_mapped(uint64_t address)
{
	const struct range *range = range_find(address);

	return range && range->kind == RANGE_MAPPED;
}

/* As driver 580: neither the types of memory nor whether it is mapped by cuMemMap() change. */
static bool copy_can_be(const struct copy_work *old, const struct copy_work *copy)
{
	return old->desc.dstMemoryType == copy->desc.dstMemoryType &&
	       old->desc.srcMemoryType == copy->desc.srcMemoryType &&
	       is_mapped(old->dst) == is_mapped(copy->dst) &&
	       is_mapped(old->src) == is_mapped(copy->src);
}

/* As driver 580: the node keeps its SMs, and its attributes. */
static CUresult kernel_can_be(const struct kernel_work *old, struct kernel_work *kernel)
{
	if (kernel->context != old->context)
		return CUDA_ERROR_INVALID_VALUE;
	kernel->is_cooperative = old->is_cooperative;
	memcpy(kernel->cluster, old->cluster, sizeof(kernel->cluster));
	return launch_fits(kernel);
}

CUresult exec_set(CUgraphExec handle, CUgraphNode node, CUgraphNodeType type, struct work *work)
{
	struct exec *exec = object_find(OBJECT_EXEC, handle);
	struct step *step = step_of(exec, node);
	CUresult result = CUDA_SUCCESS;

	if (!step || step->type != type || type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
		type == CU_GRAPH_NODE_TYPE_MEM_FREE) {
		work_fini(work);
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (type == CU_GRAPH_NODE_TYPE_MEMCPY && !copy_can_be(&step->work.copy, &work->copy)) {
		work_fini(work);
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (type == CU_GRAPH_NODE_TYPE_KERNEL)
		result = kernel_can_be(&step->work.kernel, &work->kernel);
	if (result != CUDA_SUCCESS) {
		work_fini(work);
		return result;
	}
	if (type == CU_GRAPH_NODE_TYPE_KERNEL) {
		exec->is_set = true;
		work->kernel.conditions = condition_values_ref(step->work.kernel.conditions);
	}
	work_fini(&step->work);
	step->work = *work;
	return CUDA_SUCCESS;
}

/* Only nodes of these types can be disabled. */
static bool step_has_switch(const struct step *step)
{
	return step->type == CU_GRAPH_NODE_TYPE_KERNEL || step->type == CU_GRAPH_NODE_TYPE_MEMCPY ||
	       step->type == CU_GRAPH_NODE_TYPE_MEMSET;
}

CUresult cuGraphNodeSetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int isEnabled)
{
	struct step *step;

	ENTER(CALL_ALIVE);
	step = step_find(hGraphExec, hNode);
	if (!step || !step_has_switch(step))
		return CUDA_ERROR_INVALID_VALUE;
	step->is_disabled = !isEnabled;
	return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int *isEnabled)
{
	const struct step *step;

	ENTER(CALL_ALIVE);
	step = step_find(hGraphExec, hNode);
	if (!step || !isEnabled || !step_has_switch(step))
		return CUDA_ERROR_INVALID_VALUE;
	*isEnabled = !step->is_disabled;
	return CUDA_SUCCESS;
}

/* The nodes of the original graph continue to name its nodes. */
static CUresult exec_take(struct exec *exec, const struct graph *graph, struct step *steps)
{
	struct condition_values *values = exec->assign.assign.values;
	struct work assign;
	CUresult result = condition_assign_new(graph, values, &assign);

	if (result != CUDA_SUCCESS)
		return result;
	steps_exchange(exec->steps, steps, exec->n_steps);
	steps_attach(exec->steps, exec->n_steps, values);
	work_fini(&exec->assign);
	exec->assign = assign;
	return CUDA_SUCCESS;
}

/* An update keeps the shape: nodes of the same kinds in the same order. */
static CUresult update(
	CUgraphExec exec_handle, CUgraph graph_handle, CUgraphExecUpdateResult *ret_result)
{
	struct exec *exec = object_find(OBJECT_EXEC, exec_handle);
	struct graph *graph = object_find(OBJECT_GRAPH, graph_handle);
	CUgraphInstantiateResult detail;
	struct step *steps;
	size_t n, n_branches;
	CUresult result;

	if (!exec || !graph || graph->is_moved)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_result = CU_GRAPH_EXEC_UPDATE_ERROR;
	/* Memory keeps its address. */
	if (graph_has_memory(graph))
		return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
	result = conditional_check(graph, &detail);
	if (result == CUDA_SUCCESS)
		result = steps_new(graph, &steps, &n, &n_branches);
	if (result != CUDA_SUCCESS)
		return result;
	*ret_result = steps_compare(exec->steps, exec->n_steps, steps, n);
	result = *ret_result == CU_GRAPH_EXEC_UPDATE_SUCCESS ? exec_take(exec, graph, steps)
							     : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
	steps_free(steps, n);
	return result;
}

CUresult cuGraphExecUpdate_v2(
	CUgraphExec hGraphExec, CUgraph hGraph, CUgraphExecUpdateResultInfo *resultInfo)
{
	CUgraphExecUpdateResult detail = CU_GRAPH_EXEC_UPDATE_ERROR;
	CUresult result;

	ENTER(CALL_ALIVE);
	if (!resultInfo)
		return CUDA_ERROR_INVALID_VALUE;
	result = update(hGraphExec, hGraph, &detail);
	*resultInfo = (CUgraphExecUpdateResultInfo){.result = detail};
	return result;
}

CUresult cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode *hErrorNode_out,
	CUgraphExecUpdateResult *updateResult_out)
{
	CUgraphExecUpdateResult detail = CU_GRAPH_EXEC_UPDATE_ERROR;
	CUresult result;

	ENTER(CALL_ALIVE);
	if (!updateResult_out)
		return CUDA_ERROR_INVALID_VALUE;
	result = update(hGraphExec, hGraph, &detail);
	*updateResult_out = detail;
	if (hErrorNode_out)
		*hErrorNode_out = NULL;
	return result;
}

static CUresult step_submit(const struct step *step, const struct exec *exec, struct stream *stream)
{
	struct work work;
	CUresult result;

	if (step->is_disabled || step->work.kind == WORK_NONE)
		return CUDA_SUCCESS;
	if (step->work.kind == WORK_WAIT_EVENT)
		return event_await(step->work.event, stream);
	if (step->work.kind == WORK_RECORD_EVENT)
		return event_record(step->work.event, stream);
	if (step->work.kind == WORK_GRAPH_ALLOC || step->work.kind == WORK_GRAPH_FREE)
		return graph_memory_submit(&step->work, stream);
	result = work_dup(&step->work, &work);
	if (result == CUDA_SUCCESS && work.kind == WORK_KERNEL)
		work.kernel.graph_stack = MAX(exec->made_stack, exec->set_stack);
	return result == CUDA_SUCCESS ? stream_push(stream, &work) : result;
}

/* In this case, driver 580 waits for the whole graph. */
static bool copies_on_host(const struct exec *exec)
{
	for (size_t i = 0; i < exec->n_steps; i++)
		if (exec->steps[i].work.kind == WORK_COPY && !exec->steps[i].is_disabled &&
			copy_is_on_host(&exec->steps[i].work.copy))
			return true;
	return false;
}

static CUresult assign_submit(const struct exec *exec, struct stream *stream)
{
	struct work work;
	CUresult result;

	if (exec->assign.kind == WORK_NONE)
		return CUDA_SUCCESS;
	result = work_dup(&exec->assign, &work);
	return result == CUDA_SUCCESS ? stream_push(stream, &work) : result;
}

static bool is_disabled_row(const struct step *step)
{
	return step->is_disabled && step->work.kind == WORK_FILL && step->work.fill.height == 1;
}

/*
 * As driver 580: what is behind a disabled fill of one row does not wait for what is before the
 * fill. Here it comes first.
 */
static size_t find_first(const struct exec *exec)
{
	for (size_t i = exec->n_steps; i-- > 0;)
		if (is_disabled_row(&exec->steps[i]))
			return i;
	return 0;
}

static CUresult steps_submit(const struct exec *exec, struct stream *stream)
{
	const bool frees_itself = exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
	const uint64_t launch = ++driver.last_id;
	const size_t first = find_first(exec);
	CUresult result = CUDA_SUCCESS;

	for (size_t i = 0; i < exec->n_steps && result == CUDA_SUCCESS; i++)
		result = graph_memory_check(&exec->steps[i].work, launch, frees_itself);
	for (size_t i = 0; i < exec->n_steps && result == CUDA_SUCCESS; i++)
		result = step_submit(&exec->steps[(first + i) % exec->n_steps], exec, stream);
	for (size_t i = 0; i < exec->n_steps && result == CUDA_SUCCESS; i++)
		graph_memory_used(&exec->steps[i].work, stream);
	return result;
}

/* Kernels that were set get the limit that holds at the next launch. */
static void note_stack(struct exec *exec, const struct context *context)
{
	if (exec->is_set)
		exec->set_stack = context->limits[CU_LIMIT_STACK_SIZE];
	exec->is_set = false;
}

static CUresult graph_launch(CUgraphExec handle, CUstream stream_handle)
{
	struct exec *exec = object_find(OBJECT_EXEC, handle);
	struct stream *stream;
	CUresult result = stream_get(stream_handle, &stream);

	if (!exec)
		return CUDA_ERROR_INVALID_VALUE;
	/* As driver 580: a graph cannot be launched into a capture. */
	if (result == CUDA_SUCCESS && stream->capture)
		return capture_forbid(stream);
	if (result == CUDA_SUCCESS && exec->last_stream && exec->last_stream != stream)
		result = stream_depend(stream, exec->last_stream, exec->last_ticket);
	if (result == CUDA_SUCCESS)
		note_stack(exec, stream->context);
	if (result == CUDA_SUCCESS)
		result = assign_submit(exec, stream);
	if (result == CUDA_SUCCESS)
		result = steps_submit(exec, stream);
	if (result != CUDA_SUCCESS)
		return result;
	stream_unref(exec->last_stream);
	exec->last_stream = stream_ref(stream);
	exec->last_ticket = stream->submitted;
	return copies_on_host(exec) ? stream_finish(stream, true) : CUDA_SUCCESS;
}

ENTER_STREAM(cuGraphLaunch, (CUgraphExec exec, CUstream stream), graph_launch(exec, stream))

static CUresult upload(CUgraphExec exec, CUstream handle)
{
	struct stream *stream;

	if (!object_find(OBJECT_EXEC, exec))
		return CUDA_ERROR_INVALID_VALUE;
	return stream_get(handle, &stream);
}

ENTER_STREAM(cuGraphUpload, (CUgraphExec exec, CUstream stream), upload(exec, stream))
