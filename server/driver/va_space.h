/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VA_SPACE_H
#define VA_SPACE_H

/*
 * Addresses of the device space that the driver keeps for us, and what is mapped
 * there. One at a time: the driver's answers to several threads contradict each
 * other. Any thread with a GPU's context.
 */

#include "driver.h"

/*
 * Exactly these. CUDA_ERROR_OUT_OF_MEMORY: the driver uses some of them itself; or
 * what it answers.
 */
CUresult va_space_claim(uint64_t base, uint64_t size);

/* A whole allocation; nobody may reach it yet. */
CUresult va_space_map(uint64_t base, uint64_t size, CUmemGenericAllocationHandle handle);

/* What that GPU may do there, with all of what is mapped. */
CUresult va_space_grant_access(uint64_t base, uint64_t size, CUdevice gpu, CUmemAccess_flags flags);

/* What the driver does not take back is lost to us; server.log says so. */
void va_space_unmap(uint64_t base, uint64_t size);
void va_space_free(uint64_t base, uint64_t size);

#endif
