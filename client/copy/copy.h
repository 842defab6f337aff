/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COPY_H
#define COPY_H

/*
 * Copies of linear memory for other files: cuMemcpyAsync() in steps for batches,
 * and copies between GPUs. It and box_calls.c call each other: one reads a box from the
 * driver's description, the other copies lines between GPUs. Any thread.
 */

#include "client/stream/stream.h"

/* Whether the GPU cannot access it. */
bool copy_is_pageable(CUdeviceptr address);

/* The checks of the copy, before anything is done. */
CUresult copy_check(CUdeviceptr dst, CUdeviceptr src, size_t size);

/* From one GPU's memory to another's; the stream's GPU may lack access to mappings. */
CUresult copy_peer(CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream handle, bool is_sync);

/*
 * Like cuMemcpyAsync(), but the source may be read out of order, and has been read
 * when it returns.
 */
CUresult copy_early(CUdeviceptr dst, CUdeviceptr src, size_t size, struct stream *stream);

#endif
