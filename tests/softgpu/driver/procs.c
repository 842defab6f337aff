/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuGetProcAddress. Runs in any thread.
 *
 * The table is the client library's, made from NVIDIA's headers (proto/gen/procs.py).
 * Sharing it hides no fault: tests/unit/proto/test_procs.c compares it with the
 * answers of a real driver.
 */

#include "procs.h"

#include "driver.h"

CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
	CUdriverProcAddressQueryResult *symbolStatus)
{
	ENTER(CALL_ANYTIME);
	return proc_address(symbol, pfn, cudaVersion, flags, symbolStatus);
}

/* Without a status, an unknown name or version is an error. */
CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
	CUresult result;

	ENTER(CALL_ANYTIME);
	result = proc_address(symbol, pfn, cudaVersion, flags, NULL);
	return result == CUDA_SUCCESS && !*pfn ? CUDA_ERROR_NOT_FOUND : result;
}
