/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FIXTURE_H
#define FIXTURE_H

/*
 * The arguments of the matrix: each function makes a new object of the context that is current,
 * `owner', and keeps nothing. One thread of a worker process makes all arguments.
 *
 * Invariant: fixture_failed() says whether a driver call failed since fixture_begin().
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda_api.h"

/* A driver call, and how to make its arguments in the memory of make_zeros(). */
struct call {
	const char *symbol;
	size_t offset; /* of the function, in struct cuda_api */
	void (*prepare)(void *args);
	CUresult (*make)(const void *args);
};

extern const struct call calls[];
extern const size_t n_calls;

/* An argument that breaks a check of a call; `size' 0: the call has no context instead. */
struct check {
	const char *symbol, *argument;
	void (*prepare)(void *args);
	CUresult (*make)(const void *args);
	size_t offset, size; /* of the argument */
	uint64_t bad;
	CUresult result;
};

/* Checks of one call lie together, in the order in which the call tries them. */
extern const struct check checks[];
extern const size_t n_checks;

#define MAKE(s, ...)                                                                               \
	static CUresult call_##s(const void *memory)                                               \
	{                                                                                          \
		const struct s *args = memory;                                                     \
		return api.s(__VA_ARGS__);                                                         \
	}
#define MAKE_PLAIN(s)                                                                              \
	static CUresult call_##s(const void *memory)                                               \
	{                                                                                          \
		(void)memory;                                                                      \
		return api.s();                                                                    \
	}
#define CHECK(s, argument, bad, result)                                                            \
	{                                                                                          \
#s, #argument, prepare_##s, call_##s, offsetof(struct s, argument),                \
			sizeof(((struct s *)0)->argument), bad, result                             \
	}
#define CHECK_CONTEXT(s)                                                                           \
	{                                                                                          \
#s, "the context", prepare_##s, call_##s, 0, 0, 0, CUDA_ERROR_INVALID_CONTEXT      \
	}

extern struct cuda_api api;
extern CUcontext owner;
extern bool streams_are_null;

/* Size of physical memory and of reservations. */
#define CHUNK ((size_t)2 << 20)

void fixture_begin(void);
bool fixture_failed(void);
/* Ends a capture in the stream of the last arguments. */
void fixture_end(void);

/* Remembers that a fixture is missing; the line of a call that needs it says so. */
void need_at(CUresult result, const char *text);
#define need(call) need_at(call, #call)

/* ---- plain memory: zeroed, never freed */

void *make_zeros(void);
/* A list of one number, of any type up to 64 bits. */
void *make_list(unsigned long long number);

/* ---- streams, events, memory */

CUstream make_stream(void);
CUstream make_capture(void);
CUevent make_event(void);
CUevent make_shared_event(void);
CUcontext make_context(void);
CUdeviceptr make_memory(void);
CUdeviceptr make_managed(void);
void *make_pinned(void);
void *make_pages(void);
void *make_registered(void);
CUipcMemHandle *make_memory_handle(void);
CUipcEventHandle *make_event_handle(void);
char *make_bus_id(void);
CUmemLocation *make_location(void);
CUmemAccessDesc *make_access(void);

/* ---- reserved addresses and pools; `handle_types' are those of the driver's enum */

CUmemAllocationProp *make_allocation_prop(int handle_types);
CUmemGenericAllocationHandle make_allocation(void);
CUmemGenericAllocationHandle make_shared_allocation(void);
void *make_descriptor_of_allocation(void);
CUdeviceptr make_reservation(void);
CUdeviceptr make_mapping(void);
CUmemPoolProps *make_pool_props(int handle_types);
CUmemoryPool make_pool(void);
CUmemoryPool make_shared_pool(void);
void *make_descriptor_of_pool(void);
/* Memory of a pool that has been exported. */
CUdeviceptr make_exported_memory(void);
CUmemPoolPtrExportData *make_export_of_pool(void);
/* Memory of a pool; 0: of the device's own. */
CUdeviceptr make_pool_memory(CUmemoryPool pool);

/* ---- copies and fills */

CUDA_MEMCPY2D *make_rectangle(void);
CUDA_MEMCPY3D *make_box(void);
CUDA_MEMCPY3D_PEER *make_peer_box(void);
CUmemcpyAttributes *make_copy_attributes(void);
CUDA_MEMCPY3D_BATCH_OP *make_batch_box(void);
CUstreamBatchMemOpParams *make_memory_op(void);

/* ---- code */

extern const char image[];
extern const size_t image_size;
const char *path_of_image(void);

CUmodule make_module(void);
CUfunction make_function(void);
/* With the shape of a block and the size of its parameters. */
CUfunction make_shaped_function(void);
CUlibrary make_library(void);
CUlibrary make_managed_library(void);
CUkernel make_kernel(void);
CUlinkState make_linker(void);
CUlinkState make_filled_linker(void);
void **make_kernel_arguments(void);
CUlaunchConfig *make_launch_config(void);

/* ---- arrays */

CUDA_ARRAY_DESCRIPTOR *make_array_desc(void);
CUDA_ARRAY3D_DESCRIPTOR *make_array3d_desc(unsigned int flags);
CUarray make_array(void);
CUarray make_line(void);
CUmipmappedArray make_mipmap(void);
CUtexObject make_texture(void);
CUsurfObject make_surface(void);
CUDA_RESOURCE_DESC *make_resource_of_array(void);
CUDA_RESOURCE_DESC *make_resource_of_surface(void);
CUtensorMap *make_tensor_map(void);
extern const cuuint64_t tensor_dims[];
extern const cuuint64_t tensor_strides[];
extern const cuuint32_t tensor_box[];
extern const cuuint32_t tensor_steps[];
extern const int tensor_corner[];

/* ---- parts of the GPU, callbacks */

CUdevResource *make_resource(void);
CUdevResourceDesc make_resource_desc(void);
CUgreenCtx make_green(void);
CUasyncCallbackHandle make_async_callback(void);
CUlogsCallbackHandle make_log_callback(void);
CUuserObject make_user_object(void);
void do_nothing(void *data);
void do_nothing_in_stream(CUstream stream, CUresult result, void *data);
void do_nothing_async(CUasyncNotificationInfo *info, void *data, CUasyncCallbackHandle handle);
void do_nothing_with_log(void *data, CUlogLevel level, char *message, size_t length);

/* ---- graphs: the same graph for all arguments of one call */

enum graph_kind {
	GRAPH_KERNEL,
	GRAPH_COPY,
	GRAPH_FILL,
	GRAPH_HOST,
	GRAPH_CHILD,
	GRAPH_EMPTY,
	GRAPH_EVENT_RECORD,
	GRAPH_EVENT_WAIT,
	GRAPH_BATCH,
	GRAPH_MEM_ALLOC,
	GRAPH_MEM_FREE,
	GRAPH_EDGE, /* from `node' to `second' */
};

/* A graph with a node of the kind, and an empty node. */
struct graph {
	CUgraph graph;
	CUgraph child;
	CUgraphNode before;
	CUgraphNode node;
	CUgraphNode second;
	CUdeviceptr address; /* of the node that allocates */
};

struct graph *graph_of(enum graph_kind kind);
/* The next call gets a graph of its own. */
void graph_forget(void);
CUgraphExec graph_exec(struct graph *graph);
CUgraph graph_clone(struct graph *graph);
CUuserObject graph_user_object(struct graph *graph);

void *make_kernel_params(void); /* of both versions */
CUDA_MEMSET_NODE_PARAMS *make_fill_params(void);
CUDA_HOST_NODE_PARAMS *make_host_params(void);
CUDA_BATCH_MEM_OP_NODE_PARAMS *make_batch_params(void);
CUDA_MEM_ALLOC_NODE_PARAMS *make_alloc_params(void);
CUgraphNodeParams *make_node_params(void);

#endif
