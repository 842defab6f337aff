/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DRIVER_H
#define DRIVER_H

/*
 * The machine's libcuda, opened once at the start. All calls go through `cuda', by the names
 * of the driver's symbols.
 */

#include "base.h"
#include "cuda_api.h"

/* cuKernelGetParamInfo and libraries as the server uses them came with 12.4. */
#define DRIVER_VERSION_MIN 12040

extern struct cuda_api cuda;

/*
 * Opens the library and fills `cuda'. 0 or -errno; the reason is in the log. -ELIBACC or -ELIBBAD:
 * there is no driver, or it is too old.
 */
int driver_open(void);

/* Real path of the opened library; "" before. */
const char *driver_path(void);

/* The result of cuDriverGetVersion(): 13000 for 13.0. */
int driver_version(void);

/*
 * The driver's private table of the places of SMs, which cuBLASLt asks for as well: no public
 * function has them. With the GPU's context current. Each array has an element for each pair of
 * SMs. CUDA_ERROR_NOT_SUPPORTED: this driver has no such table.
 */
CUresult driver_read_topology(uint8_t **ret_gpcs, uint8_t **ret_numbers);
void driver_free_topology(uint8_t *gpcs, uint8_t *numbers);

/* The list that the driver takes for a kernel's parameters in one piece. It points into itself. */
struct kernel_extra {
	size_t size;
	void *list[5];
};

/* Returns the list, or NULL for a kernel without parameters. */
static inline void **kernel_extra(struct kernel_extra *extra, const void *params, size_t size)
{
	*extra = (struct kernel_extra){
		.size = size,
		.list = {CU_LAUNCH_PARAM_BUFFER_POINTER, (void *)(uintptr_t)params,
			CU_LAUNCH_PARAM_BUFFER_SIZE, &extra->size, CU_LAUNCH_PARAM_END},
	};
	return size > 0 ? extra->list : NULL;
}

/* "CUDA_ERROR_OUT_OF_MEMORY"; never NULL. */
const char *result_name(CUresult result);

#endif
