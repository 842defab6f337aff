/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Names and descriptions of results: the client library's, which are the
 * driver's own. Runs anywhere.
 */

/* driver.h comes first: it makes what cuda.h declares visible. */
#include "driver.h"

#include "client.h"

CUresult cuGetErrorName(CUresult error, const char **pStr)
{
	ENTER(CALL_ANYTIME);
	return local_cuGetErrorName(error, pStr);
}

CUresult cuGetErrorString(CUresult error, const char **pStr)
{
	ENTER(CALL_ANYTIME);
	return local_cuGetErrorString(error, pStr);
}
