/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COPY_H
#define COPY_H

/*
 * Copies of linear memory that other files make: cuMemcpyAsync() in parts, for
 * batches, and copies between GPUs. Any thread.
 */

#include "client/stream/stream.h"

/* Whether the GPU cannot reach it. */
bool copy_is_pageable(CUdeviceptr address);

/* What would be refused of the copy, before anything is done. */
CUresult copy_check(CUdeviceptr dst, CUdeviceptr src, size_t size);

/* From one GPU's memory to another's; what is mapped need not be so for the stream's GPU. */
CUresult copy_peer(CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream handle, bool is_sync);

/* As cuMemcpyAsync(), but the source may be read out of order, and has been when it returns. */
CUresult copy_early(CUdeviceptr dst, CUdeviceptr src, size_t size, struct stream *stream);

#endif
