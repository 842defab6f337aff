/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DRIVER_H
#define DRIVER_H

/*
 * The machine's libcuda, opened once at the start. Everybody calls it through
 * `cuda', by the names that its symbols have.
 */

#include "base.h"
#include "cuda_api.h"

/* cuKernelGetParamInfo and libraries as we use them came with 12.4. */
#define DRIVER_VERSION_MIN 12040

extern struct cuda_api cuda;

/* Opens it and fills `cuda'. 0 or -errno: a line in the log has said what and why. */
int driver_open(void);

/* What cuInit() says. Takes as long as the driver needs: hundreds of milliseconds. */
CUresult driver_init(void);

/* Real path of the library that was opened; "" before. */
const char *driver_path(void);

/* What cuDriverGetVersion() says: 13000 for 13.0. */
int driver_version(void);

/* "CUDA_ERROR_OUT_OF_MEMORY"; never NULL. */
const char *result_name(CUresult result);

#endif
