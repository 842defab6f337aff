/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDA_API_H
#define CUDA_API_H

/*
 * The real libcuda as a struct of functions, named like its symbols.
 *
 * Made from proto/cuda.spec by proto/gen.py.
 */

#if !defined(__CUDA_API_VERSION_INTERNAL)
#if defined(__cuda_cuda_h__)
#error "cuda.h renames its functions: include this header before it"
#endif
#define __CUDA_API_VERSION_INTERNAL
#endif
#include <cuda.h>
#include <cudaProfiler.h>

#include "cuda_interop.h"

struct cuda_api {
	CUresult (*cuInit)(unsigned int Flags);
	CUresult (*cuThingCreate_v2)(CUthing *pThing, const char *name, size_t bytes);
	CUresult (*cuThingCopy_ptds)(CUdeviceptr dst, const void *src, CUbox box, float scale);
	CUresult (*cuThingRun_ptsz)(
		CUthing thing, CUkind kind, CUthingFn fn, void **args, CUstream hStream);
	CUresult (*cuThingName)(char *name, int len, CUthing thing);
	CUresult (*cuThingForgotten)(
		unsigned int aRatherLongNameOfAnArgument, unsigned int anotherLongName, int last);
	CUresult (*cuThingCreate)(CUthing *pThing, const char *name, size_t bytes);
	CUresult (*cuThingCopy)(CUdeviceptr dst, const void *src, CUbox box, float scale);
	CUresult (*cuThingRun)(
		CUthing thing, CUkind kind, CUthingFn fn, void **args, CUstream hStream);
	CUresult (*cuProfilerStart)(void);
	CUresult (*cuGLInit)(GLuint buffer);
};

/* Takes the place of a function that the library does not have: CUDA_ERROR_NOT_SUPPORTED. */
CUresult cuda_api_absent(void);

/* Fills in every function; `sym' is dlsym(). */
void cuda_api_load(struct cuda_api *api, void *dl_handle, void *(*sym)(void *, const char *));

#endif
