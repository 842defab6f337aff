/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GRAPH_MEMORY_H
#define GRAPH_MEMORY_H

/*
 * Memory that graphs allocate. Its address exists from the node on. A launch makes
 * it live, and a free ends that. The device is charged for live memory, and keeps
 * the charge for the next launch until a trim.
 *
 * All under the driver's lock, except graph_memory_discard().
 */

#include "tests/softgpu/driver/driver.h"

struct graph;
struct graph_memory;
struct stream;
struct work;

/* The work of a node that allocates; sets params->dptr. */
CUresult graph_memory_alloc_work(CUDA_MEM_ALLOC_NODE_PARAMS *params, struct work *ret_work);
/* The work of a node that frees; CUDA_ERROR_INVALID_VALUE: no graph allocates this address. */
CUresult graph_memory_free_work(CUdeviceptr address, struct work *ret_work);

/* Makes a new node with this work a node of `graph'. Other kinds of work need nothing. */
CUresult graph_memory_claim(const struct graph *graph, const struct work *work);
/* Whether a node of the graph, or of a child graph, allocates or frees. */
bool graph_has_memory(const struct graph *graph);

struct graph_memory *graph_memory_ref(struct graph_memory *memory);
void graph_memory_unref(struct graph_memory *memory);

/* An allocation belongs to one executable graph at a time; false: it has another. */
bool graph_memory_bind(const struct work *work);
void graph_memory_unbind(const struct work *work);

/*
 * For each piece of work of a launch, in order, before the first is submitted; `launch' is
 * a number of its own. CUDA_ERROR_INVALID_VALUE: it allocates what is live, or frees what
 * is not.
 */
CUresult graph_memory_check(const struct work *work, uint64_t launch, bool frees_itself);
/* Submits it. */
CUresult graph_memory_submit(const struct work *work, struct stream *stream);
/* After the launch: later launches wait for the stream's last work. */
void graph_memory_used(const struct work *work, struct stream *stream);

/* For cuMemFreeAsync(); and for cuMemFree(), after the device has finished. */
CUresult graph_memory_free_async(struct graph_memory *memory, struct stream *stream);
CUresult graph_memory_free(struct graph_memory *memory);

/* The context has ended: its allocations are no longer live. */
void graph_memory_end(struct graph_memory *memory, const struct context *context);

/* Forgets the bytes. Runs in streams' threads, without the lock. */
void graph_memory_discard(const struct graph_memory *memory);

#endif
