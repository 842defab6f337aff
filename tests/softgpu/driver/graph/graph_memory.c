/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that graphs allocate: its nodes, its life from launch to free, and how much
 * of it there is.
 *
 * Runs in any thread, under the driver's lock; graph_memory_discard() in streams'
 * threads. A range lives as long as its `struct graph_memory'.
 */

#include "graph_memory.h"

#include <string.h>
#include <sys/mman.h>

#include "graph.h"
#include "tests/softgpu/driver/memory/memory.h"
#include "tests/softgpu/driver/stream/context.h"
#include "tests/softgpu/driver/stream/stream.h"

struct graph_memory {
	uint32_t refs; /* nodes, work, and its life */
	struct device *device;
	const struct context *context; /* only compared */
	CUDA_MEM_ALLOC_NODE_PARAMS params;
	uint64_t owner;          /* graph::id of the node's graph */
	uint64_t launch;         /* the last launch that was checked */
	bool is_bound;           /* an executable graph has its node */
	bool is_live;            /* allocated by a launch, and not freed since */
	bool is_freed_by_owner;  /* a node of its own graph frees it ... */
	bool is_freed_by_others; /* ... or a node of another graph */
	struct stream *stream;   /* of the last work that used it; NULL or owns a reference */
	uint64_t ticket;
};

/* Bytes of a device that are live, and that are charged. */
struct graph_bytes {
	uint64_t used, used_high;
	uint64_t reserved, reserved_high;
};

static struct graph_bytes bytes_of[DEVICES_MAX];

static struct graph_bytes *bytes_on(const struct device *device)
{
	return &bytes_of[device - driver.devices];
}

static struct graph_memory *memory_of(const struct work *work)
{
	return work->kind == WORK_GRAPH_ALLOC || work->kind == WORK_GRAPH_FREE ? work->memory
									       : NULL;
}

struct graph_memory *graph_memory_ref(struct graph_memory *memory)
{
	memory->refs++;
	return memory;
}

void graph_memory_unref(struct graph_memory *memory)
{
	if (!memory || --memory->refs > 0)
		return;
	if (memory->params.dptr)
		memory_free(range_find(memory->params.dptr));
	stream_unref(memory->stream);
	free((void *)memory->params.accessDescs);
	free(memory);
}

/* The device is charged when a launch makes the memory live, not for the address. */
static CUresult range_new(struct graph_memory *memory)
{
	struct range *range;
	CUresult result = memory_alloc(
		memory->device->primary, RANGE_DEVICE, memory->params.bytesize, 0, &range);

	if (result != CUDA_SUCCESS)
		return result;
	device_refund(range->device, range->charged);
	range->charged = 0;
	range->context = NULL;
	range->graph_memory = memory;
	memory->params.dptr = range->start;
	return CUDA_SUCCESS;
}

static CUresult params_check(const CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
	if (!params || params->bytesize == 0 ||
		params->poolProps.allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
		params->poolProps.handleTypes || (params->accessDescCount && !params->accessDescs))
		return CUDA_ERROR_INVALID_VALUE;
	if (params->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_NOT_SUPPORTED;
	return device_get(params->poolProps.location.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult graph_memory_alloc_work(CUDA_MEM_ALLOC_NODE_PARAMS *params, struct work *ret_work)
{
	struct graph_memory *memory;
	CUmemAccessDesc *access;
	CUresult result = params_check(params);

	if (result != CUDA_SUCCESS)
		return result;
	memory = calloc(1, sizeof(*memory));
	access = calloc(params->accessDescCount + 1, sizeof(*access));
	if (!memory || !access) {
		free(memory);
		free(access);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (params->accessDescCount > 0)
		memcpy(access, params->accessDescs, params->accessDescCount * sizeof(*access));
	memory->refs = 1;
	memory->device = device_get(params->poolProps.location.id);
	memory->context = context_current() ? context_current() : memory->device->primary;
	memory->params = *params;
	memory->params.accessDescs = access;
	memory->params.dptr = 0;
	result = range_new(memory);
	if (result != CUDA_SUCCESS) {
		graph_memory_unref(memory);
		return result;
	}
	params->dptr = memory->params.dptr;
	*ret_work = (struct work){.kind = WORK_GRAPH_ALLOC, .memory = memory};
	return CUDA_SUCCESS;
}

CUresult graph_memory_free_work(CUdeviceptr address, struct work *ret_work)
{
	const struct range *range = range_find(address);

	if (!range || range->start != address || !range->graph_memory)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_work = (struct work){
		.kind = WORK_GRAPH_FREE, .memory = graph_memory_ref(range->graph_memory)};
	return CUDA_SUCCESS;
}

/* Either the graph of the allocation frees it, once, or other graphs do. */
CUresult graph_memory_claim(const struct graph *graph, const struct work *work)
{
	struct graph_memory *memory = memory_of(work);
	bool is_own;

	if (!memory)
		return CUDA_SUCCESS;
	if (work->kind == WORK_GRAPH_ALLOC) {
		memory->owner = graph->id;
		return CUDA_SUCCESS;
	}
	is_own = memory->owner == graph->id;
	if (memory->is_freed_by_owner || (is_own && memory->is_freed_by_others))
		return CUDA_ERROR_INVALID_VALUE;
	if (is_own)
		memory->is_freed_by_owner = true;
	else
		memory->is_freed_by_others = true;
	return CUDA_SUCCESS;
}

/* Graphs nest. NOLINTBEGIN(misc-no-recursion) */

bool graph_has_memory(const struct graph *graph)
{
	for (const struct node *node = graph->nodes; node; node = node->next)
		if (memory_of(&node->work) || (node->child && graph_has_memory(node->child)))
			return true;
	return false;
}

/* NOLINTEND(misc-no-recursion) */

bool graph_memory_bind(const struct work *work)
{
	if (work->kind != WORK_GRAPH_ALLOC)
		return true;
	if (work->memory->is_bound)
		return false;
	work->memory->is_bound = true;
	return true;
}

void graph_memory_unbind(const struct work *work)
{
	if (work->kind == WORK_GRAPH_ALLOC)
		work->memory->is_bound = false;
}

CUresult graph_memory_check(const struct work *work, uint64_t launch, bool frees_itself)
{
	struct graph_memory *memory = memory_of(work);

	if (!memory)
		return CUDA_SUCCESS;
	if (work->kind == WORK_GRAPH_ALLOC) {
		memory->launch = launch;
		return memory->is_live && !frees_itself ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
	}
	return memory->is_live || memory->launch == launch ? CUDA_SUCCESS
							   : CUDA_ERROR_INVALID_VALUE;
}

/* Live memory has a reference to itself: it outlives its node. */
static CUresult memory_begin(struct graph_memory *memory)
{
	struct graph_bytes *bytes = bytes_on(memory->device);
	uint64_t used = bytes->used + memory->params.bytesize;

	if (memory->is_live)
		return CUDA_SUCCESS;
	if (used > bytes->reserved) {
		if (device_charge(memory->device, used - bytes->reserved) != CUDA_SUCCESS)
			return CUDA_ERROR_OUT_OF_MEMORY;
		bytes->reserved = used;
	}
	bytes->used = used;
	bytes->used_high = MAX(bytes->used_high, used);
	bytes->reserved_high = MAX(bytes->reserved_high, bytes->reserved);
	memory->is_live = true;
	graph_memory_ref(memory);
	return CUDA_SUCCESS;
}

static void memory_end(struct graph_memory *memory)
{
	if (!memory->is_live)
		return;
	bytes_on(memory->device)->used -= memory->params.bytesize;
	memory->is_live = false;
	graph_memory_unref(memory);
}

static CUresult submit_free(struct graph_memory *memory, struct stream *stream)
{
	struct work work = {.kind = WORK_GRAPH_FREE, .memory = graph_memory_ref(memory)};
	CUresult result = stream_push(stream, &work);

	if (result == CUDA_SUCCESS)
		memory_end(memory);
	return result;
}

CUresult graph_memory_submit(const struct work *work, struct stream *stream)
{
	struct graph_memory *memory = work->memory;
	CUresult result;

	if (work->kind == WORK_GRAPH_FREE)
		return submit_free(memory, stream);
	result = memory_begin(memory);
	if (result == CUDA_SUCCESS && memory->stream && memory->stream != stream)
		result = stream_depend(stream, memory->stream, memory->ticket);
	return result;
}

void graph_memory_used(const struct work *work, struct stream *stream)
{
	struct graph_memory *memory = memory_of(work);

	if (!memory)
		return;
	stream_unref(memory->stream);
	memory->stream = stream_ref(stream);
	memory->ticket = stream->submitted;
}

CUresult graph_memory_free_async(struct graph_memory *memory, struct stream *stream)
{
	struct work work = {.kind = WORK_GRAPH_FREE, .memory = memory};
	CUresult result;

	if (!memory->is_live || memory->is_freed_by_owner)
		return CUDA_ERROR_INVALID_VALUE;
	graph_memory_ref(memory);
	result = submit_free(memory, stream);
	if (result == CUDA_SUCCESS)
		graph_memory_used(&work, stream);
	graph_memory_unref(memory);
	return result;
}

CUresult graph_memory_free(struct graph_memory *memory)
{
	if (!memory->is_live || memory->is_freed_by_owner)
		return CUDA_ERROR_INVALID_VALUE;
	graph_memory_discard(memory);
	memory_end(memory);
	return CUDA_SUCCESS;
}

void graph_memory_end(struct graph_memory *memory, const struct context *context)
{
	if (memory->context == context)
		memory_end(memory);
}

void graph_memory_discard(const struct graph_memory *memory)
{
	madvise((void *)(uintptr_t)memory->params.dptr, memory->params.bytesize, MADV_DONTNEED);
}

/* ---- calls */

CUresult cuGraphMemAllocNodeGetParams(CUgraphNode hNode, CUDA_MEM_ALLOC_NODE_PARAMS *params_out)
{
	const struct node *node;

	ENTER(CALL_INIT);
	node = object_find(OBJECT_NODE, hNode);
	if (!node || node->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC || !params_out)
		return CUDA_ERROR_INVALID_VALUE;
	*params_out = node->work.memory->params;
	return CUDA_SUCCESS;
}

CUresult cuGraphMemFreeNodeGetParams(CUgraphNode hNode, CUdeviceptr *dptr_out)
{
	const struct node *node;

	ENTER(CALL_INIT);
	node = object_find(OBJECT_NODE, hNode);
	if (!node || node->type != CU_GRAPH_NODE_TYPE_MEM_FREE || !dptr_out)
		return CUDA_ERROR_INVALID_VALUE;
	*dptr_out = node->work.memory->params.dptr;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGraphMemTrim(CUdevice device)
{
	struct graph_bytes *bytes;

	ENTER(CALL_ALIVE);
	if (!device_get(device))
		return CUDA_ERROR_INVALID_DEVICE;
	bytes = bytes_on(device_get(device));
	device_refund(device_get(device), bytes->reserved - bytes->used);
	bytes->reserved = bytes->used;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value)
{
	const struct graph_bytes *bytes;
	uint64_t number;

	ENTER(CALL_ALIVE);
	if (!device_get(device))
		return CUDA_ERROR_INVALID_DEVICE;
	bytes = bytes_on(device_get(device));
	switch (attr) {
	case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
		number = bytes->used;
		break;
	case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
		number = bytes->used_high;
		break;
	case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
		number = bytes->reserved;
		break;
	case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
		number = bytes->reserved_high;
		break;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(value, &number, sizeof(number));
	return CUDA_SUCCESS;
}

/* The high marks can be set to 0 only: they begin again at what there is now. */
CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value)
{
	struct graph_bytes *bytes;
	uint64_t number = 1;

	ENTER(CALL_ALIVE);
	if (!device_get(device))
		return CUDA_ERROR_INVALID_DEVICE;
	bytes = bytes_on(device_get(device));
	if (value)
		memcpy(&number, value, sizeof(number));
	if (number != 0)
		return CUDA_ERROR_INVALID_VALUE;
	switch (attr) {
	case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
		bytes->used_high = bytes->used;
		return CUDA_SUCCESS;
	case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
		bytes->reserved_high = bytes->reserved;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}
