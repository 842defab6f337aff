/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Looks up every function of the real libcuda. The thread that opens the library.
 *
 * Invariant: no member is NULL after cuda_api_load().
 *
 * Made from proto/cuda.spec by proto/gen.py.
 */

#include "cuda_api.h"

#include <string.h>

/* In the order of the struct, each with its NUL. */
static const char names[] = "cuInit\0cuThingCreate_v2\0cuThingCopy_ptds\0cuThingRun_ptsz\0"
			    "cuThingName\0cuThingForgotten\0cuThingCreate\0cuThingCopy\0"
			    "cuThingRun\0cuProfilerStart\0cuGLInit\0";

CUresult cuda_api_absent(void)
{
	return CUDA_ERROR_NOT_SUPPORTED;
}

void cuda_api_load(struct cuda_api *api, void *dl_handle, void *(*sym)(void *, const char *))
{
	char *to = (char *)api;

	for (const char *name = names; *name; name += strlen(name) + 1, to += sizeof(void *)) {
		void *function = sym(dl_handle, name);

		if (!function)
			function = (void *)cuda_api_absent;
		memcpy(to, &function, sizeof(function));
	}
}
