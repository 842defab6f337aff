/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MANAGED_H
#define MANAGED_H

/* Managed memory and the advice about it. Any thread. */

#include "advice.h"
#include "memory.h"

/* Frees the advice of a range that ends, if it has any. */
void managed_forget(const struct memory_range *range);

/* CUDA_ERROR_INVALID_VALUE: the range is not within one managed allocation. */
CUresult managed_check(CUdeviceptr ptr, size_t size);
CUresult managed_advise(CUdeviceptr ptr, size_t size, CUmem_advise what, CUmemLocation location);
CUresult managed_advice(CUdeviceptr ptr, size_t size, struct advice *ret_advice);

#endif
