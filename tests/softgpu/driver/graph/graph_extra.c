/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attributes of kernel nodes, objects to which graphs refer, children of
 * executable graphs, and the printing of a graph.
 *
 * Runs in any thread, under the driver's lock. As in driver 580, the destructor of a user
 * object runs in the call that drops the last reference, or in a thread of its own if work
 * has used the object; in both, without the lock.
 */

#include <stdio.h>
#include <string.h>

#include "graph.h"
#include "tests/softgpu/driver/launch/launch.h"
#include "tests/softgpu/driver/module/module.h"
#include "tests/softgpu/driver/stream/context.h"

struct user_object {
	struct object object;
	struct user_object *next; /* in `ended' */
	uint64_t refs;            /* of the program and all graphs */
	void *pointer;
	CUhostFn destroy;
};

static struct node *kernel_node(CUgraphNode handle)
{
	struct node *node = object_find(OBJECT_NODE, handle);

	return node && node->type == CU_GRAPH_NODE_TYPE_KERNEL ? node : NULL;
}

/* As driver 580 on an H100. */
CUresult cuGraphKernelNodeSetAttribute(
	CUgraphNode hNode, CUlaunchAttributeID attr, const CUlaunchAttributeValue *value)
{
	struct kernel_work *kernel;
	struct node *node;
	CUresult result;

	ENTER(CALL_INIT);
	node = kernel_node(hNode);
	if (!node || !value)
		return CUDA_ERROR_INVALID_VALUE;
	kernel = &node->work.kernel;
	switch (attr) {
	case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
		if (value->cooperative && kernel->has_buffer)
			return CUDA_ERROR_INVALID_VALUE;
		kernel->is_cooperative = value->cooperative != 0;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
		if (!value->clusterDim.x != !value->clusterDim.y ||
			!value->clusterDim.x != !value->clusterDim.z)
			return CUDA_ERROR_INVALID_CLUSTER_SIZE;
		kernel->cluster[0] = value->clusterDim.x;
		kernel->cluster[1] = value->clusterDim.y;
		kernel->cluster[2] = value->clusterDim.z;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
		return CUDA_SUCCESS;
	default:
		result = launch_hint(&kernel->hints, attr, value);
		return result == CUDA_ERROR_NOT_FOUND ? CUDA_ERROR_INVALID_VALUE : result;
	}
}

static CUresult hint_get(const struct kernel_hints *hints, CUlaunchAttributeID attr,
	CUlaunchAttributeValue *ret_value)
{
	static const CUlaunchMemSyncDomainMap usual = {.remote = 1};

	switch (attr) {
	case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
		ret_value->accessPolicyWindow = hints->window;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
		ret_value->clusterSchedulingPolicyPreference = hints->policy;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_PRIORITY:
		ret_value->priority = hints->priority;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
		ret_value->memSyncDomainMap = hints->has_domains ? hints->domains : usual;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
		ret_value->memSyncDomain = hints->domain;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		ret_value->sharedMemCarveout = hints->carveout;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
		ret_value->deviceUpdatableKernelNode.deviceUpdatable = 0;
		ret_value->deviceUpdatableKernelNode.devNode = NULL;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult cuGraphKernelNodeGetAttribute(
	CUgraphNode hNode, CUlaunchAttributeID attr, CUlaunchAttributeValue *value_out)
{
	const struct kernel_work *kernel;
	const struct node *node;

	ENTER(CALL_INIT);
	node = kernel_node(hNode);
	if (!node || !value_out)
		return CUDA_ERROR_INVALID_VALUE;
	kernel = &node->work.kernel;
	switch (attr) {
	case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
		value_out->cooperative = kernel->is_cooperative;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
		value_out->clusterDim.x = kernel->cluster[0];
		value_out->clusterDim.y = kernel->cluster[1];
		value_out->clusterDim.z = kernel->cluster[2];
		return CUDA_SUCCESS;
	default:
		return hint_get(&kernel->hints, attr, value_out);
	}
}

void kernel_copy_attributes(struct kernel_work *to, const struct kernel_work *from)
{
	to->is_cooperative = from->is_cooperative;
	to->hints = from->hints;
	memcpy(to->cluster, from->cluster, sizeof(to->cluster));
}

CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode dst, CUgraphNode src)
{
	const struct node *from;
	struct node *to;

	ENTER(CALL_INIT);
	from = kernel_node(src);
	to = kernel_node(dst);
	if (!from || !to)
		return CUDA_ERROR_INVALID_VALUE;
	kernel_copy_attributes(&to->work.kernel, &from->work.kernel);
	return CUDA_SUCCESS;
}

/* ---- user objects */

static _Thread_local struct user_object *ended; /* by the call of this thread */

static void user_object_destroy(struct user_object *object)
{
	call_forbid(true);
	object->destroy(object->pointer);
	call_forbid(false);
	free(object);
}

static void *destroy_thread(void *arg)
{
	user_object_destroy(arg);
	return NULL;
}

void user_objects_destroy(void)
{
	while (ended) {
		struct user_object *object = ended;

		ended = object->next;
		user_object_destroy(object);
	}
}

static void user_object_unref(struct user_object *object, uint64_t count, bool is_worked)
{
	pthread_t thread;

	object->refs -= count;
	if (object->refs > 0)
		return;
	object_remove(&object->object);
	if (is_worked && pthread_create(&thread, NULL, destroy_thread, object) == 0) {
		pthread_detach(thread);
		return;
	}
	object->next = ended;
	ended = object;
}

void user_refs_drop(struct user_ref **refs, bool is_worked)
{
	while (*refs) {
		struct user_ref *ref = *refs;

		*refs = ref->next;
		user_object_unref(ref->object, ref->count, is_worked);
		free(ref);
	}
}

static CUresult user_ref_add(struct user_ref **refs, struct user_object *object, uint64_t count)
{
	struct user_ref *ref = malloc(sizeof(*ref));

	if (!ref)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*ref = (struct user_ref){*refs, object, count};
	*refs = ref;
	return CUDA_SUCCESS;
}

CUresult user_refs_copy(const struct user_ref *from, struct user_ref **to)
{
	CUresult result = CUDA_SUCCESS;

	for (; from && result == CUDA_SUCCESS; from = from->next) {
		result = user_ref_add(to, from->object, from->count);
		if (result == CUDA_SUCCESS)
			from->object->refs += from->count;
	}
	return result;
}

CUresult cuUserObjectCreate(CUuserObject *object_out, void *ptr, CUhostFn destroy,
	unsigned int initialRefcount, unsigned int flags)
{
	struct user_object *object;

	ENTER(CALL_INIT);
	if (!object_out || !destroy || initialRefcount == 0 || initialRefcount > INT32_MAX ||
		flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
		return CUDA_ERROR_INVALID_VALUE;
	object = calloc(1, sizeof(*object));
	if (!object)
		return CUDA_ERROR_OUT_OF_MEMORY;
	object->refs = initialRefcount;
	object->pointer = ptr;
	object->destroy = destroy;
	object_add(&object->object, OBJECT_USER);
	*object_out = (CUuserObject)object;
	return CUDA_SUCCESS;
}

CUresult cuUserObjectRetain(CUuserObject handle, unsigned int count)
{
	struct user_object *object;

	ENTER(CALL_INIT);
	object = object_find(OBJECT_USER, handle);
	if (!object || count == 0 || count > INT32_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	object->refs += count;
	return CUDA_SUCCESS;
}

CUresult cuUserObjectRelease(CUuserObject handle, unsigned int count)
{
	struct user_object *object;

	ENTER(CALL_INIT);
	object = object_find(OBJECT_USER, handle);
	if (!object || count == 0 || count > object->refs)
		return CUDA_ERROR_INVALID_VALUE;
	user_object_unref(object, count, false);
	return CUDA_SUCCESS;
}

CUresult cuGraphRetainUserObject(
	CUgraph hGraph, CUuserObject handle, unsigned int count, unsigned int flags)
{
	struct user_object *object;
	struct graph *graph;
	CUresult result;

	ENTER(CALL_INIT);
	object = object_find(OBJECT_USER, handle);
	graph = object_find(OBJECT_GRAPH, hGraph);
	if (!object || !graph || count == 0 || count > INT32_MAX ||
		(flags & ~(unsigned)CU_GRAPH_USER_OBJECT_MOVE))
		return CUDA_ERROR_INVALID_VALUE;
	result = user_ref_add(&graph->user_refs, object, count);
	if (result == CUDA_SUCCESS && !(flags & CU_GRAPH_USER_OBJECT_MOVE))
		object->refs += count;
	return result;
}

CUresult cuGraphReleaseUserObject(CUgraph hGraph, CUuserObject handle, unsigned int count)
{
	struct user_object *object;
	struct user_ref **link;
	struct graph *graph;

	ENTER(CALL_INIT);
	object = object_find(OBJECT_USER, handle);
	graph = object_find(OBJECT_GRAPH, hGraph);
	if (!object || !graph || count == 0)
		return CUDA_ERROR_INVALID_VALUE;
	link = &graph->user_refs;
	while (*link && ((*link)->object != object || (*link)->count < count))
		link = &(*link)->next;
	if (!*link)
		return CUDA_ERROR_INVALID_VALUE;
	(*link)->count -= count;
	if ((*link)->count == 0) {
		struct user_ref *ref = *link;

		*link = ref->next;
		free(ref);
	}
	user_object_unref(object, count, false);
	return CUDA_SUCCESS;
}

/* ---- the rest */

/* The nodes of the existing child name its nodes; the new nodes pair with them in order. */
CUresult cuGraphExecChildGraphNodeSetParams(
	CUgraphExec hGraphExec, CUgraphNode hNode, CUgraph childGraph)
{
	const struct graph *child;
	const struct node *node, *to;
	CUresult result = CUDA_SUCCESS;

	ENTER(CALL_ALIVE);
	node = object_find(OBJECT_NODE, hNode);
	child = object_find(OBJECT_GRAPH, childGraph);
	if (!node || !node->child || !child || child->n_nodes != node->child->n_nodes)
		return CUDA_ERROR_INVALID_VALUE;
	to = node->child->nodes;
	for (const struct node *from = child->nodes; from && result == CUDA_SUCCESS;
		from = from->next, to = to->next) {
		struct work work;

		if (from->type != to->type || from->n_dependencies != to->n_dependencies ||
			from->child)
			return CUDA_ERROR_INVALID_VALUE;
		result = work_dup(&from->work, &work);
		if (result == CUDA_SUCCESS)
			result = exec_set(hGraphExec, (CUgraphNode)to, from->type, &work);
	}
	return result;
}

CUresult cuGraphDebugDotPrint(CUgraph hGraph, const char *path, unsigned int flags)
{
	const struct graph *graph;
	FILE *file;

	ENTER(CALL_INIT);
	(void)flags;
	graph = object_find(OBJECT_GRAPH, hGraph);
	if (!graph || !path)
		return CUDA_ERROR_INVALID_VALUE;
	file = fopen(path, "we");
	if (!file)
		return CUDA_ERROR_OPERATING_SYSTEM;
	fprintf(file, "digraph dot {\n");
	for (const struct node *node = graph->nodes; node; node = node->next) {
		fprintf(file, "\"%p\" [label=\"%d\"];\n", (const void *)node, node->type);
		for (size_t i = 0; i < node->n_dependencies; i++)
			fprintf(file, "\"%p\" -> \"%p\";\n", (void *)node->dependencies[i],
				(const void *)node);
	}
	fprintf(file, "}\n");
	return fclose(file) == 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}
