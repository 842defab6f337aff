/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Names and descriptions of results, for programs that run on the software GPU
 * alone. Runs anywhere.
 *
 * The list is the client library's (error.c); a second list would only be a copy.
 * Sharing it hides no fault: the client library answers these calls itself, and
 * no test compares its answer with one from here. The test that decides is
 * tests/programs/driver_api/result_texts.c, which has a digest of a real
 * driver's texts.
 */

/* driver.h comes first, because it exports what cuda.h declares. */
#include "calls_transport.h"
#include "driver.h"

CUresult cuGetErrorName(CUresult error, const char **pStr)
{
	ENTER(CALL_ANYTIME);
	return pStr ? local_cuGetErrorName(error, pStr) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char **pStr)
{
	ENTER(CALL_ANYTIME);
	return pStr ? local_cuGetErrorString(error, pStr) : CUDA_ERROR_INVALID_VALUE;
}
