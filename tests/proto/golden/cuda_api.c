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

#include "base.h"

/* In the order of the struct. */
static const char *const names[] = {
	"cuInit",
	"cuThingCreate_v2",
	"cuThingCopy_ptds",
	"cuThingRun_ptsz",
	"cuThingName",
	"cuThingForgotten",
	"cuThingCreate",
	"cuThingCopy",
	"cuThingRun",
	"cuProfilerStart",
	"cuGLInit",
};

_Static_assert(sizeof(struct cuda_api) == ARRAY_SIZE(names) * sizeof(void *), "a name each");

CUresult cuda_api_absent(void)
{
	return CUDA_ERROR_NOT_SUPPORTED;
}

void cuda_api_load(struct cuda_api *api, void *dl_handle, void *(*sym)(void *, const char *))
{
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		void *function = sym(dl_handle, names[i]);

		if (!function)
			function = (void *)cuda_api_absent;
		memcpy((char *)api + i * sizeof(function), &function, sizeof(function));
	}
}
