/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COPY_H
#define COPY_H

/*
 * Copies of linear memory for other files: cuMemcpyAsync() in steps for batches,
 * and copies between GPUs. It and box_calls.c call each other: one reads a box from the
 * driver's description, the other copies lines between GPUs. Any thread.
 */

#include "client/stream/stream.h"

/* The ends that the call names as host memory; memory of the GPU is allowed there, too. */
enum host_ends {
	HOST_NONE = 0,
	HOST_DST = 1,
	HOST_SRC = 2,
	HOST_BOTH = 3,
};

/* A call of the program. */
CUresult copy_call(CUdeviceptr dst, CUdeviceptr src, size_t size, enum host_ends host, bool is_sync,
	CUstream handle);

/* Whether the GPU cannot access it. */
bool copy_is_pageable(CUdeviceptr address);

/* The checks of the copy, before anything is done. */
CUresult copy_check(CUdeviceptr dst, CUdeviceptr src, size_t size);

/*
 * From one GPU's memory to another's; the stream's GPU may lack access to mappings. The contexts
 * are only checked: the addresses already identify the GPUs. NULL is the current context.
 */
CUresult copy_peer(CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src, CUcontext src_context,
	size_t size, CUstream handle, bool is_sync);

/*
 * Like cuMemcpyAsync(), but the source may be read out of order, and has been read
 * when it returns.
 */
CUresult copy_early(CUdeviceptr dst, CUdeviceptr src, size_t size, struct stream *stream);

#endif
