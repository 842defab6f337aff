/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The profiler's switches, which have no effect.
 */

#include "driver.h"

#pragma GCC visibility push(default)
#include <cudaProfiler.h>
#pragma GCC visibility pop

CUresult cuProfilerStart(void)
{
	ENTER(CALL_CONTEXT);
	return CUDA_SUCCESS;
}

CUresult cuProfilerStop(void)
{
	ENTER(CALL_CONTEXT);
	return CUDA_SUCCESS;
}
