/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SYNC_TABLE_H
#define SYNC_TABLE_H

/*
 * The calls of sync_matrix.c, and their table: with the plain symbols, or, if
 * CUDA_API_PER_THREAD_DEFAULT_STREAM is defined, with the per-thread symbols of cuda.h.
 */

#include <stdint.h>

#include "sync_calls.h"

#define ALL (~0u)
#define SOME (SET_OF(PAGEABLE) | SET_OF(PINNED) | SET_OF(MANAGED) | SET_OF(DEVICE) | SET_OF(ARRAY))
#define MOST (SOME | SET_OF(REGISTERED) | SET_OF(SHARED) | SET_OF(MAPPED))
#define NAMED_DEVICE (SET_OF(MAPPED) | SET_OF(MANAGED) | GPUS)
#define SYNCED_TOO (NAMED_DEVICE | SET_OF(SYNCED))

/* Older drivers do not have these. */
extern __typeof__(cuMemcpyBatchAsync) cuMemcpyBatchAsync __attribute__((weak));
extern __typeof__(cuMemcpy3DBatchAsync) cuMemcpy3DBatchAsync __attribute__((weak));
extern __typeof__(cuMemPrefetchBatchAsync) cuMemPrefetchBatchAsync __attribute__((weak));
extern __typeof__(cuMemDiscardBatchAsync) cuMemDiscardBatchAsync __attribute__((weak));
extern __typeof__(cuMemDiscardAndPrefetchBatchAsync) cuMemDiscardAndPrefetchBatchAsync
	__attribute__((weak));

static bool has_batches(void)
{
	return cuMemcpyBatchAsync != NULL;
}

static bool has_batches_of_boxes(void)
{
	return cuMemcpy3DBatchAsync != NULL;
}

static bool has_hints(void)
{
	return cuMemPrefetchBatchAsync != NULL && cuMemDiscardBatchAsync != NULL &&
	       cuMemDiscardAndPrefetchBatchAsync != NULL;
}

/* By its host pointer, if it has one. */
static CUdeviceptr at(const struct memory *memory)
{
	return memory->host ? (CUdeviceptr)(uintptr_t)memory->host : memory->device;
}

static void *host(const struct memory *memory)
{
	return (void *)(uintptr_t)at(memory);
}

#define VALUE8 (t->value)
#define VALUE16 ((unsigned short)(t->value * 0x0101u))
#define VALUE32 (t->value * 0x01010101u)

#define RUN(name, ...)                                                                             \
	static CUresult name##_run(const struct transfer *t)                                       \
	{                                                                                          \
		return name(__VA_ARGS__);                                                          \
	}

RUN(cuMemsetD8, t->dst->device, VALUE8, SIZE)
RUN(cuMemsetD16, t->dst->device, VALUE16, SIZE / 2)
RUN(cuMemsetD32, t->dst->device, VALUE32, SIZE / 4)
RUN(cuMemsetD2D8, t->dst->device, WIDTH, VALUE8, WIDTH, HEIGHT)
RUN(cuMemsetD2D16, t->dst->device, WIDTH, VALUE16, WIDTH / 2, HEIGHT)
RUN(cuMemsetD2D32, t->dst->device, WIDTH, VALUE32, WIDTH / 4, HEIGHT)
RUN(cuMemsetD8Async, t->dst->device, VALUE8, SIZE, t->stream)
RUN(cuMemsetD16Async, t->dst->device, VALUE16, SIZE / 2, t->stream)
RUN(cuMemsetD32Async, t->dst->device, VALUE32, SIZE / 4, t->stream)
RUN(cuMemsetD2D8Async, t->dst->device, WIDTH, VALUE8, WIDTH, HEIGHT, t->stream)
RUN(cuMemsetD2D16Async, t->dst->device, WIDTH, VALUE16, WIDTH / 2, HEIGHT, t->stream)
RUN(cuMemsetD2D32Async, t->dst->device, WIDTH, VALUE32, WIDTH / 4, HEIGHT, t->stream)

static CUresult attribute_run(const struct transfer *t)
{
	const CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_SYNC_MEMOPS;
	unsigned on = 1, off = 0;
	CUresult result = cuMemsetD8(t->dst->device, VALUE8, SIZE);

	if (result == CUDA_SUCCESS)
		result = cuPointerSetAttribute(&on, attribute, t->dst->device);
	return result == CUDA_SUCCESS ? cuPointerSetAttribute(&off, attribute, t->dst->device)
				      : result;
}

RUN(cuMemcpy, at(t->dst), at(t->src), SIZE)
RUN(cuMemcpyAsync, at(t->dst), at(t->src), SIZE, t->stream)
RUN(cuMemcpyHtoD, t->dst->device, host(t->src), SIZE)
RUN(cuMemcpyHtoDAsync, t->dst->device, host(t->src), SIZE, t->stream)
RUN(cuMemcpyDtoH, host(t->dst), t->src->device, SIZE)
RUN(cuMemcpyDtoHAsync, host(t->dst), t->src->device, SIZE, t->stream)
RUN(cuMemcpyDtoD, t->dst->device, t->src->device, SIZE)
RUN(cuMemcpyDtoDAsync, t->dst->device, t->src->device, SIZE, t->stream)
RUN(cuMemcpyPeer, t->dst->device, t->dst->context, t->src->device, t->src->context, SIZE)
RUN(cuMemcpyPeerAsync, t->dst->device, t->dst->context, t->src->device, t->src->context, SIZE,
	t->stream)

RUN(cuMemcpyHtoA, t->dst->array, 0, host(t->src), SIZE)
RUN(cuMemcpyHtoAAsync, t->dst->array, 0, host(t->src), SIZE, t->stream)
RUN(cuMemcpyAtoH, host(t->dst), t->src->array, 0, SIZE)
RUN(cuMemcpyAtoHAsync, host(t->dst), t->src->array, 0, SIZE, t->stream)
RUN(cuMemcpyDtoA, t->dst->array, 0, t->src->device, SIZE)
RUN(cuMemcpyAtoD, t->dst->device, t->src->array, 0, SIZE)
RUN(cuMemcpyAtoA, t->dst->array, 0, t->src->array, 0, SIZE)

/* The memory type: host for pinned memory, or device if the call uses its device pointer. */
static CUmemorytype type_of(const struct memory *memory)
{
	if (memory->array)
		return CU_MEMORYTYPE_ARRAY;
	return HOSTS & ~SET_OF(MAPPED) & SET_OF(memory->kind) ? CU_MEMORYTYPE_HOST
							      : CU_MEMORYTYPE_DEVICE;
}

static CUmemorytype unified_type_of(const struct memory *memory)
{
	return memory->array ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_UNIFIED;
}

/* The pointer for that type. */
static CUdeviceptr device_of(const struct memory *memory, CUmemorytype type)
{
	return type == CU_MEMORYTYPE_DEVICE ? memory->device : at(memory);
}

#define BOX(type, dst_type, src_type)                                                              \
	(type)                                                                                     \
	{                                                                                          \
		.srcMemoryType = (src_type), .srcHost = host(t->src),                              \
		.srcDevice = device_of(t->src, src_type), .srcArray = t->src->array,               \
		.srcPitch = WIDTH, .dstMemoryType = (dst_type), .dstHost = host(t->dst),           \
		.dstDevice = device_of(t->dst, dst_type), .dstArray = t->dst->array,               \
		.dstPitch = WIDTH, .WidthInBytes = WIDTH, .Height = HEIGHT                         \
	}
#define PLANE BOX(CUDA_MEMCPY2D, type_of(t->dst), type_of(t->src))
#define PLANE_UNIFIED BOX(CUDA_MEMCPY2D, unified_type_of(t->dst), unified_type_of(t->src))

static CUDA_MEMCPY3D solid(const struct transfer *t)
{
	CUDA_MEMCPY3D copy = BOX(CUDA_MEMCPY3D, type_of(t->dst), type_of(t->src));

	copy.srcHeight = copy.dstHeight = HEIGHT;
	copy.Depth = 1;
	return copy;
}

static CUDA_MEMCPY3D_PEER peers(const struct transfer *t)
{
	CUDA_MEMCPY3D_PEER copy = BOX(CUDA_MEMCPY3D_PEER, type_of(t->dst), type_of(t->src));

	copy.srcHeight = copy.dstHeight = HEIGHT;
	copy.Depth = 1;
	copy.srcContext = t->src->context;
	copy.dstContext = t->dst->context;
	return copy;
}

#define RUN_BOX(name, call, type, value, ...)                                                      \
	static CUresult name##_run(const struct transfer *t)                                       \
	{                                                                                          \
		type copy = value;                                                                 \
                                                                                                   \
		return call(__VA_ARGS__);                                                          \
	}

RUN_BOX(plane, cuMemcpy2D, CUDA_MEMCPY2D, PLANE, &copy)
RUN_BOX(plane_async, cuMemcpy2DAsync, CUDA_MEMCPY2D, PLANE, &copy, t->stream)
RUN_BOX(unaligned, cuMemcpy2DUnaligned, CUDA_MEMCPY2D, PLANE, &copy)
RUN_BOX(unified, cuMemcpy2D, CUDA_MEMCPY2D, PLANE_UNIFIED, &copy)
RUN_BOX(unified_async, cuMemcpy2DAsync, CUDA_MEMCPY2D, PLANE_UNIFIED, &copy, t->stream)
RUN_BOX(solid, cuMemcpy3D, CUDA_MEMCPY3D, solid(t), &copy)
RUN_BOX(solid_async, cuMemcpy3DAsync, CUDA_MEMCPY3D, solid(t), &copy, t->stream)
RUN_BOX(peers, cuMemcpy3DPeer, CUDA_MEMCPY3D_PEER, peers(t), &copy)
RUN_BOX(peers_async, cuMemcpy3DPeerAsync, CUDA_MEMCPY3D_PEER, peers(t), &copy, t->stream)

static CUresult batch(const struct transfer *t, CUmemcpySrcAccessOrder order)
{
	CUmemcpyAttributes attributes = {.srcAccessOrder = order};
	CUdeviceptr dst = at(t->dst), src = at(t->src);
	size_t size = SIZE, first = 0;

	return cuMemcpyBatchAsync(&dst, &src, &size, 1, &attributes, &first, 1, t->stream);
}

static CUmemcpy3DOperand operand(const struct memory *memory)
{
	CUmemcpy3DOperand operand = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER};

	if (memory->array) {
		operand.type = CU_MEMCPY_OPERAND_TYPE_ARRAY;
		operand.op.array.array = memory->array;
	} else {
		operand.op.ptr.ptr = at(memory);
	}
	return operand;
}

static CUresult batch_box(const struct transfer *t, CUmemcpySrcAccessOrder order)
{
	CUDA_MEMCPY3D_BATCH_OP op = {
		.src = operand(t->src),
		.dst = operand(t->dst),
		.extent = {.width = WIDTH, .height = HEIGHT, .depth = 1},
		.srcAccessOrder = order,
	};

	return cuMemcpy3DBatchAsync(1, &op, 0, t->stream);
}

#define RUN_BATCH(name, call, order)                                                               \
	static CUresult name##_run(const struct transfer *t)                                       \
	{                                                                                          \
		return call(t, CU_MEMCPY_SRC_ACCESS_ORDER_##order);                                \
	}

RUN_BATCH(batch_stream, batch, STREAM)
RUN_BATCH(batch_during, batch, DURING_API_CALL)
RUN_BATCH(batch_any, batch, ANY)
RUN_BATCH(boxes_stream, batch_box, STREAM)
RUN_BATCH(boxes_during, batch_box, DURING_API_CALL)
RUN_BATCH(boxes_any, batch_box, ANY)

static const CUmemLocation first_gpu = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};

RUN(cuMemPrefetchAsync, t->dst->device, SIZE, first_gpu, 0, t->stream)
RUN(cuMemAdvise, t->dst->device, SIZE, CU_MEM_ADVISE_SET_ACCESSED_BY, first_gpu)
RUN(cuStreamAttachMemAsync, t->stream, t->dst->device, 0, CU_MEM_ATTACH_GLOBAL)

static CUresult prefetch_run(const struct transfer *t)
{
	CUdeviceptr at = t->dst->device;
	CUmemLocation place = first_gpu;
	size_t size = SIZE, first = 0;

	return cuMemPrefetchBatchAsync(&at, &size, 1, &place, &first, 1, 0, t->stream);
}

static CUresult discard_run(const struct transfer *t)
{
	CUdeviceptr at = t->dst->device;
	size_t size = SIZE;

	return cuMemDiscardBatchAsync(&at, &size, 1, 0, t->stream);
}

static CUresult discard_and_prefetch_run(const struct transfer *t)
{
	CUdeviceptr at = t->dst->device;
	CUmemLocation place = first_gpu;
	size_t size = SIZE, first = 0;

	return cuMemDiscardAndPrefetchBatchAsync(&at, &size, 1, &place, &first, 1, 0, t->stream);
}

#define SET(call, sync)                                                                            \
	{                                                                                          \
		.name = #call, .run = call##_run, .rule = RULE_SET, .is_sync = (sync),             \
		.dst = LOCKED | SYNCED_TOO, .dst_named = ALL                                       \
	}
#define COPY(call, sync, dsts, srcs, dsts_named, srcs_named)                                       \
	{                                                                                          \
		.name = #call, .run = call##_run, .rule = RULE_COPY, .is_sync = (sync),            \
		.dst = (dsts), .src = (srcs), .dst_named = (dsts_named), .src_named = (srcs_named) \
	}
#define COPY_HOST(call, sync, dsts, srcs, dsts_named, srcs_named)                                  \
	{                                                                                          \
		.name = #call, .run = call##_run, .rule = RULE_COPY, .is_sync = (sync),            \
		.dst = (dsts), .src = (srcs), .dst_named = (dsts_named),                           \
		.src_named = (srcs_named), .names_host = true                                      \
	}
#define COPY_BOX(call, how, sync, kinds)                                                           \
	{                                                                                          \
		.name = #call, .run = how##_run, .rule = RULE_COPY, .is_sync = (sync),             \
		.dst = (kinds), .src = (kinds), .dst_named = SET_OF(MAPPED),                       \
		.src_named = SET_OF(MAPPED)                                                        \
	}
#define BATCH(call, how, its_rule, kinds)                                                          \
	{                                                                                          \
		.name = #call, .run = how##_run, .rule = (its_rule), .dst = (kinds),               \
		.src = (kinds), .is_there = has_batches                                            \
	}
#define BATCH_BOX(call, how, its_rule, kinds)                                                      \
	{                                                                                          \
		.name = #call, .run = how##_run, .rule = (its_rule), .dst = (kinds),               \
		.src = (kinds), .has_boxes = true, .is_there = has_batches_of_boxes                \
	}
#define HINT(call, how, its_rule, there)                                                           \
	{                                                                                          \
		.name = #call, .run = how##_run, .rule = (its_rule), .dst = SET_OF(MANAGED),       \
		.is_there = (there)                                                                \
	}

#define LINEAR (HOSTS | SET_OF(MANAGED) | SET_OF(DEVICE) | SET_OF(PEER))
#define FEW (SOME & ~SET_OF(ARRAY))
#define FEW_DEVICE (SET_OF(MAPPED) | SET_OF(MANAGED) | SET_OF(DEVICE))

#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
const struct sync_call sync_calls_ptds[] = {
#else
const struct sync_call sync_calls[] = {
#endif
	SET(cuMemsetD8, true),
	SET(cuMemsetD16, true),
	SET(cuMemsetD32, true),
	SET(cuMemsetD2D8, true),
	SET(cuMemsetD2D16, true),
	SET(cuMemsetD2D32, true),
	SET(cuMemsetD8Async, false),
	SET(cuMemsetD16Async, false),
	SET(cuMemsetD32Async, false),
	SET(cuMemsetD2D8Async, false),
	SET(cuMemsetD2D16Async, false),
	SET(cuMemsetD2D32Async, false),
	{.name = "cuPointerSetAttribute",
		.run = attribute_run,
		.rule = RULE_SET_ALWAYS,
		.is_sync = true,
		.dst = SET_OF(DEVICE),
		.dst_named = ALL},
	COPY(cuMemcpy, true, LINEAR, LINEAR, 0, 0),
	COPY(cuMemcpyAsync, false, LINEAR, LINEAR, 0, 0),
	COPY_HOST(
		cuMemcpyHtoD, true, NAMED_DEVICE, HOSTS | SET_OF(MANAGED) | SET_OF(DEVICE), ALL, 0),
	COPY_HOST(cuMemcpyHtoDAsync, false, NAMED_DEVICE, HOSTS | SET_OF(MANAGED) | SET_OF(DEVICE),
		ALL, 0),
	COPY_HOST(
		cuMemcpyDtoH, true, HOSTS | SET_OF(MANAGED) | SET_OF(DEVICE), NAMED_DEVICE, 0, ALL),
	COPY_HOST(cuMemcpyDtoHAsync, false, HOSTS | SET_OF(MANAGED) | SET_OF(DEVICE), NAMED_DEVICE,
		0, ALL),
	COPY(cuMemcpyDtoD, true, SYNCED_TOO, SYNCED_TOO, ALL, ALL),
	COPY(cuMemcpyDtoDAsync, false, SYNCED_TOO, SYNCED_TOO, ALL, ALL),
	COPY(cuMemcpyPeer, true, GPUS, GPUS, ALL, ALL),
	COPY(cuMemcpyPeerAsync, false, GPUS, GPUS, ALL, ALL),
	COPY_HOST(cuMemcpyHtoA, true, SET_OF(LINE), FEW, 0, 0),
	COPY_HOST(cuMemcpyHtoAAsync, false, SET_OF(LINE), FEW, 0, 0),
	COPY_HOST(cuMemcpyAtoH, true, FEW, SET_OF(LINE), 0, 0),
	COPY_HOST(cuMemcpyAtoHAsync, false, FEW, SET_OF(LINE), 0, 0),
	COPY(cuMemcpyDtoA, true, SET_OF(LINE), FEW_DEVICE, 0, ALL),
	COPY(cuMemcpyAtoD, true, FEW_DEVICE, SET_OF(LINE), ALL, 0),
	COPY(cuMemcpyAtoA, true, SET_OF(LINE), SET_OF(LINE), 0, 0),
	COPY_BOX(cuMemcpy2D, plane, true, MOST),
	COPY_BOX(cuMemcpy2DAsync, plane_async, false, MOST),
	COPY_BOX(cuMemcpy2DUnaligned, unaligned, true, SOME),
	COPY_BOX(cuMemcpy2D(unified), unified, true, SOME),
	COPY_BOX(cuMemcpy2DAsync(unified), unified_async, false, SOME),
	COPY_BOX(cuMemcpy3D, solid, true, MOST),
	COPY_BOX(cuMemcpy3DAsync, solid_async, false, MOST),
	COPY_BOX(cuMemcpy3DPeer, peers, true, SOME | SET_OF(PEER)),
	COPY_BOX(cuMemcpy3DPeerAsync, peers_async, false, SOME | SET_OF(PEER)),
	BATCH(cuMemcpyBatchAsync(stream), batch_stream, RULE_BATCH, MOST & ~SET_OF(ARRAY)),
	BATCH(cuMemcpyBatchAsync(during), batch_during, RULE_BATCH_DURING, FEW),
	BATCH(cuMemcpyBatchAsync(any), batch_any, RULE_BATCH_ANY, FEW),
	BATCH_BOX(cuMemcpy3DBatchAsync(stream), boxes_stream, RULE_BATCH, MOST),
	BATCH_BOX(cuMemcpy3DBatchAsync(during), boxes_during, RULE_BATCH_DURING, SOME),
	BATCH_BOX(cuMemcpy3DBatchAsync(any), boxes_any, RULE_BATCH_ANY, SOME),
	HINT(cuMemPrefetchAsync, cuMemPrefetchAsync, RULE_HINT, NULL),
	HINT(cuStreamAttachMemAsync, cuStreamAttachMemAsync, RULE_HINT, NULL),
	HINT(cuMemPrefetchBatchAsync, prefetch, RULE_HINT, has_hints),
	HINT(cuMemDiscardBatchAsync, discard, RULE_HINT, has_hints),
	HINT(cuMemDiscardAndPrefetchBatchAsync, discard_and_prefetch, RULE_HINT, has_hints),
	HINT(cuMemAdvise, cuMemAdvise, RULE_ADVICE, NULL),
};

#ifndef CUDA_API_PER_THREAD_DEFAULT_STREAM
const unsigned n_sync_calls = sizeof(sync_calls) / sizeof(*sync_calls);
#endif

#endif
