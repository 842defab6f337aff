/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MANAGED_H
#define MANAGED_H

/*
 * Managed memory and what was advised about it. Any thread.
 */

#include "advice.h"
#include "memory.h"

/* Its advice goes with it. */
void managed_forget(const struct memory_range *range);

/* CUDA_ERROR_INVALID_VALUE: not all of it is managed memory of one allocation. */
CUresult managed_check(CUdeviceptr ptr, size_t size);
CUresult managed_advise(CUdeviceptr ptr, size_t size, CUmem_advise what, CUmemLocation place);
CUresult managed_advice(CUdeviceptr ptr, size_t size, struct advice *ret_advice);

#endif
