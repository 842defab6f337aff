/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VA_SPACE_H
#define VA_SPACE_H

/*
 * Addresses of the device space that the server has reserved in the driver, and what is
 * mapped there. One call at a time: the driver returns contradictory results to several
 * threads. Any thread with a GPU's context.
 */

#include "driver.h"

/*
 * Reserves exactly these. CUDA_ERROR_OUT_OF_MEMORY: the driver uses some of them itself. Or
 * another error of the driver.
 */
CUresult va_space_claim(uint64_t base, uint64_t size);

/* Maps a whole allocation, without access yet. */
CUresult va_space_map(uint64_t base, uint64_t size, CUmemGenericAllocationHandle handle);

/* Sets the access of a GPU to these addresses, which are all mapped. */
CUresult va_space_grant_access(uint64_t base, uint64_t size, CUdevice gpu, CUmemAccess_flags flags);

/* Addresses that the driver refuses to unmap or free are lost; server.log says so. */
void va_space_unmap(uint64_t base, uint64_t size);
void va_space_free(uint64_t base, uint64_t size);

#endif
