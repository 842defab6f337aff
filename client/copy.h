/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COPY_H
#define COPY_H

/*
 * What batches need of copies of linear memory: cuMemcpyAsync() in parts. Any
 * thread.
 */

#include "stream.h"

/* Whether the GPU cannot reach it. */
bool copy_is_pageable(CUdeviceptr address);

/* What would be refused of the copy, before anything is done. */
CUresult copy_check(CUdeviceptr dst, CUdeviceptr src, size_t size);

/* As cuMemcpyAsync(), but the source may be read out of order, and has been when it returns. */
CUresult copy_early(CUdeviceptr dst, CUdeviceptr src, size_t size, struct stream *stream);

#endif
