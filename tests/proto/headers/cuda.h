/* SPDX-License-Identifier: Apache-2.0 */
/* A driver of the golden test's own, in the ways of cuda.h: macros, old names, chapters. */
#ifndef __cuda_cuda_h__
#define __cuda_cuda_h__

#include <stddef.h>
#include <stdint.h>

#if defined(__CUDA_API_VERSION_INTERNAL) || defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
#define __CUDA_API_PER_THREAD_DEFAULT_STREAM
#define __CUDA_API_PTDS(api) api##_ptds
#define __CUDA_API_PTSZ(api) api##_ptsz
#else
#define __CUDA_API_PTDS(api) api
#define __CUDA_API_PTSZ(api) api
#endif

#define cuThingCreate cuThingCreate_v2

#if defined(__CUDA_API_PER_THREAD_DEFAULT_STREAM)
#define cuThingCopy __CUDA_API_PTDS(cuThingCopy)
#define cuThingRun __CUDA_API_PTSZ(cuThingRun)
#endif

/**
 * \defgroup SMALL_TYPES Data types
 */

#define CUDA_VERSION 13000

#if defined(_WIN64) || defined(__LP64__)
typedef unsigned long long CUdeviceptr_v2;
#else
typedef unsigned int CUdeviceptr_v2;
#endif
typedef CUdeviceptr_v2 CUdeviceptr;
typedef struct CUthing_st *CUthing;
typedef struct CUstream_st *CUstream;
typedef struct CUbox_st {
	union {
		char bytes[16];
	} data; /**< braces within braces; and a semicolon */
} CUbox;
typedef enum CUkind_enum {
	CU_KIND_ONE = 1,
	CU_KIND_TWO
} CUkind;
typedef void (*CUthingFn)(void *user, int n);

/**
 * Error codes
 */
typedef enum cudaError_enum {
	/** all is well */
	CUDA_SUCCESS = 0,
	CUDA_ERROR_INVALID_VALUE = 1,
	CUDA_ERROR_OUT_OF_MEMORY = 2,
	CUDA_ERROR_UNKNOWN = 0x3e7
} CUresult;

#ifdef _WIN32
#define CUDAAPI __stdcall
#else
#define CUDAAPI
#endif

/**
 * \defgroup SMALL_START Starting
 */
CUresult CUDAAPI cuInit(unsigned int Flags);

/**
 * \defgroup SMALL_THING Things
 */
CUresult CUDAAPI cuThingCreate(CUthing *pThing, const char *name, size_t bytes);
CUresult CUDAAPI cuThingCopy(CUdeviceptr dst, const void *src, CUbox box, float scale);
CUresult CUDAAPI cuThingRun(
	CUthing thing, CUkind kind, CUthingFn fn, void **args, CUstream hStream);
CUresult CUDAAPI cuThingName(char *name, int len, CUthing thing);
CUresult CUDAAPI cuThingForgotten(
	unsigned int aRatherLongNameOfAnArgument, unsigned int anotherLongName, int last);

#if defined(__CUDA_API_VERSION_INTERNAL)
#undef cuThingCreate
#undef cuThingCopy
#undef cuThingRun
CUresult CUDAAPI cuThingCreate(CUthing *pThing, const char *name, size_t bytes);
CUresult CUDAAPI cuThingCopy(CUdeviceptr dst, const void *src, CUbox box, float scale);
CUresult CUDAAPI cuThingRun(
	CUthing thing, CUkind kind, CUthingFn fn, void **args, CUstream hStream);
#elif defined(__CUDA_API_PER_THREAD_DEFAULT_STREAM)
CUresult CUDAAPI cuNeverSeen(void);
#endif

#endif
