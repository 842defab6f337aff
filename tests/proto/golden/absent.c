/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Every symbol of the driver, for the software GPU: those that it does not serve. Any
 * thread.
 *
 * Each function is weak: where tests/softgpu defines the symbol, the linker takes that
 * definition.
 *
 * Made from proto/cuda.spec by proto/gen.py.
 */

#include "tests/softgpu/driver/driver.h"

/* The other headers include cuda.h, which has the names of all versions only through driver.h. */
#include <cudaProfiler.h>

#include "cuda_interop.h"

#define ABSENT __attribute__((weak, visibility("default")))
#pragma GCC diagnostic ignored "-Wunused-parameter"

ABSENT CUresult cuInit(unsigned int Flags)
{
	return call_absent(__func__);
}

ABSENT CUresult cuThingCreate_v2(CUthing *pThing, const char *name, size_t bytes)
{
	return call_absent(__func__);
}

ABSENT CUresult cuThingCopy_ptds(CUdeviceptr dst, const void *src, CUbox box, float scale)
{
	return call_absent(__func__);
}

ABSENT CUresult cuThingRun_ptsz(
	CUthing thing, CUkind kind, CUthingFn fn, void **args, CUstream hStream)
{
	return call_absent(__func__);
}

ABSENT CUresult cuThingName(char *name, int len, CUthing thing)
{
	return call_absent(__func__);
}

ABSENT CUresult cuThingForgotten(
	unsigned int aRatherLongNameOfAnArgument, unsigned int anotherLongName, int last)
{
	return call_absent(__func__);
}

ABSENT CUresult cuThingCreate(CUthing *pThing, const char *name, size_t bytes)
{
	return call_absent(__func__);
}

ABSENT CUresult cuThingCopy(CUdeviceptr dst, const void *src, CUbox box, float scale)
{
	return call_absent(__func__);
}

ABSENT CUresult cuThingRun(CUthing thing, CUkind kind, CUthingFn fn, void **args, CUstream hStream)
{
	return call_absent(__func__);
}

ABSENT CUresult cuProfilerStart(void)
{
	return call_absent(__func__);
}

CUresult cuGLInit(GLuint buffer);
ABSENT CUresult cuGLInit(GLuint buffer)
{
	return call_absent(__func__);
}
