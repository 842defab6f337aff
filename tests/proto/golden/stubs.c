/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Every symbol of the driver: where each call of the program enters. Any thread
 * of the application.
 *
 * Invariant: each function returns a CUresult in every state of the process. Under
 * ROUTE_NATIVE, the CUresult is that of the real driver.
 *
 * Made from proto/cuda.spec by proto/gen.py.
 */

#include "client.h"

#include "base.h"
#include "client/stream/callback.h"
#include "client/stream/event.h"
#include "client/stream/stream.h"
#include "client/transport/real.h"
#include "client/transport/route.h"
#include "client/transport/trace.h"

#define EXPORT __attribute__((visibility("default")))

/* A separate function, so that calls without a trace do not need its kilobyte of stack. */
#define COLD __attribute__((cold, noinline))

/* In a per-thread symbol, the default stream is that of the thread. */
static CUstream per_thread(CUstream stream)
{
	return stream ? stream : CU_STREAM_PER_THREAD;
}

static CUresult enter_cuInit(unsigned int Flags)
{
	enum route route = route_get();

	if (unlikely(route == ROUTE_NATIVE))
		return real.cuInit(Flags);
	return local_cuInit(Flags);
}

COLD static CUresult traced_cuInit(unsigned int Flags)
{
	struct trace trace;

	trace_begin(&trace, "cuInit");
	trace_unsigned(&trace, "Flags", Flags);
	trace_start(&trace);
	trace.result = enter_cuInit(Flags);
	return trace_end(&trace);
}

EXPORT CUresult CUDAAPI cuInit(unsigned int Flags)
{
	CUresult returned;

	if (unlikely(!trace_is_off()))
		returned = traced_cuInit(Flags);
	else
		returned = enter_cuInit(Flags);
	if (unlikely(returned != CUDA_SUCCESS))
		route_failed("cuInit", returned);
	return returned;
}

static CUresult enter_cuThingCreate_v2(CUthing *pThing, const char *name, size_t bytes)
{
	enum route route = route_get();

	if (unlikely(route == ROUTE_NATIVE))
		return real.cuThingCreate_v2(pThing, name, bytes);
	if (unlikely(route != ROUTE_MPS))
		return route_error();
	if (unlikely(!route_initialised()))
		return CUDA_ERROR_NOT_INITIALIZED;
	if (unlikely(callback_is_running))
		return CUDA_ERROR_NOT_PERMITTED;
	return local_cuThingCreate_v2(pThing, name, bytes);
}

COLD static CUresult traced_cuThingCreate_v2(CUthing *pThing, const char *name, size_t bytes)
{
	struct trace trace;

	trace_begin(&trace, "cuThingCreate_v2");
	trace_pointer(&trace, "pThing", (const void *)pThing);
	trace_string(&trace, "name", name);
	trace_unsigned(&trace, "bytes", bytes);
	trace_start(&trace);
	trace.result = enter_cuThingCreate_v2(pThing, name, bytes);
	return trace_end(&trace);
}

EXPORT CUresult CUDAAPI cuThingCreate_v2(CUthing *pThing, const char *name, size_t bytes)
{
	CUresult returned;

	if (unlikely(!trace_is_off()))
		returned = traced_cuThingCreate_v2(pThing, name, bytes);
	else
		returned = enter_cuThingCreate_v2(pThing, name, bytes);
	if (unlikely(returned != CUDA_SUCCESS))
		route_failed("cuThingCreate_v2", returned);
	return returned;
}

static CUresult enter_cuThingCopy_ptds(CUdeviceptr dst, const void *src, CUbox box, float scale)
{
	enum route route = route_get();

	if (unlikely(route == ROUTE_NATIVE))
		return real.cuThingCopy_ptds(dst, src, box, scale);
	if (unlikely(route != ROUTE_MPS))
		return route_error();
	if (unlikely(!route_initialised()))
		return CUDA_ERROR_NOT_INITIALIZED;
	if (unlikely(callback_is_running))
		return CUDA_ERROR_NOT_PERMITTED;
	return local_cuThingCopy(dst, src, box, scale, CU_STREAM_PER_THREAD);
}

COLD static CUresult traced_cuThingCopy_ptds(
	CUdeviceptr dst, const void *src, CUbox box, float scale)
{
	struct trace trace;

	trace_begin(&trace, "cuThingCopy_ptds");
	trace_hex(&trace, "dst", dst);
	trace_pointer(&trace, "src", (const void *)src);
	trace_opaque(&trace, "box");
	trace_float(&trace, "scale", scale);
	trace_start(&trace);
	trace.result = enter_cuThingCopy_ptds(dst, src, box, scale);
	return trace_end(&trace);
}

EXPORT CUresult CUDAAPI cuThingCopy_ptds(CUdeviceptr dst, const void *src, CUbox box, float scale)
{
	CUresult returned;

	if (unlikely(!trace_is_off()))
		returned = traced_cuThingCopy_ptds(dst, src, box, scale);
	else
		returned = enter_cuThingCopy_ptds(dst, src, box, scale);
	if (unlikely(returned != CUDA_SUCCESS))
		route_failed("cuThingCopy_ptds", returned);
	return returned;
}

static CUresult enter_cuThingRun_ptsz(
	CUthing thing, CUkind kind, CUthingFn fn, void **args, CUstream hStream)
{
	enum route route = route_get();
	struct context_binding outer;
	CUresult result;

	if (unlikely(route == ROUTE_NATIVE))
		return real.cuThingRun_ptsz(thing, kind, fn, args, hStream);
	if (unlikely(route != ROUTE_MPS))
		return route_error();
	if (unlikely(!route_initialised()))
		return CUDA_ERROR_NOT_INITIALIZED;
	if (unlikely(callback_is_running))
		return CUDA_ERROR_NOT_PERMITTED;
	outer = context_borrow(stream_context(hStream));
	result = local_cuThingRun(thing, kind, fn, args, per_thread(hStream));
	context_return(outer);
	return result;
}

COLD static CUresult traced_cuThingRun_ptsz(
	CUthing thing, CUkind kind, CUthingFn fn, void **args, CUstream hStream)
{
	struct trace trace;

	trace_begin(&trace, "cuThingRun_ptsz");
	trace_pointer(&trace, "thing", (const void *)thing);
	trace_signed(&trace, "kind", kind);
	trace_pointer(&trace, "fn", (const void *)fn);
	trace_pointer(&trace, "args", (const void *)args);
	trace_pointer(&trace, "hStream", (const void *)hStream);
	trace_start(&trace);
	trace.result = enter_cuThingRun_ptsz(thing, kind, fn, args, hStream);
	return trace_end(&trace);
}

EXPORT CUresult CUDAAPI cuThingRun_ptsz(
	CUthing thing, CUkind kind, CUthingFn fn, void **args, CUstream hStream)
{
	CUresult returned;

	if (unlikely(!trace_is_off()))
		returned = traced_cuThingRun_ptsz(thing, kind, fn, args, hStream);
	else
		returned = enter_cuThingRun_ptsz(thing, kind, fn, args, hStream);
	if (unlikely(returned != CUDA_SUCCESS))
		route_failed("cuThingRun_ptsz", returned);
	return returned;
}

static CUresult enter_cuThingName(char *name, int len, CUthing thing)
{
	enum route route = route_get();

	if (unlikely(route == ROUTE_NATIVE))
		return real.cuThingName(name, len, thing);
	if (unlikely(route != ROUTE_MPS))
		return route_error();
	if (unlikely(!route_initialised()))
		return CUDA_ERROR_NOT_INITIALIZED;
	if (unlikely(callback_is_running))
		return CUDA_ERROR_NOT_PERMITTED;
	return refuse("cuThingName", "a thing has no name here");
}

COLD static CUresult traced_cuThingName(char *name, int len, CUthing thing)
{
	struct trace trace;

	trace_begin(&trace, "cuThingName");
	trace_pointer(&trace, "name", (const void *)name);
	trace_signed(&trace, "len", len);
	trace_pointer(&trace, "thing", (const void *)thing);
	trace_start(&trace);
	trace.result = enter_cuThingName(name, len, thing);
	return trace_end(&trace);
}

EXPORT CUresult CUDAAPI cuThingName(char *name, int len, CUthing thing)
{
	CUresult returned;

	if (unlikely(!trace_is_off()))
		returned = traced_cuThingName(name, len, thing);
	else
		returned = enter_cuThingName(name, len, thing);
	if (unlikely(returned != CUDA_SUCCESS))
		route_failed("cuThingName", returned);
	return returned;
}

static CUresult enter_cuThingForgotten(
	unsigned int aRatherLongNameOfAnArgument, unsigned int anotherLongName, int last)
{
	enum route route = route_get();

	if (unlikely(route == ROUTE_NATIVE))
		return real.cuThingForgotten(aRatherLongNameOfAnArgument, anotherLongName, last);
	if (unlikely(route != ROUTE_MPS))
		return route_error();
	if (unlikely(!route_initialised()))
		return CUDA_ERROR_NOT_INITIALIZED;
	if (unlikely(callback_is_running))
		return CUDA_ERROR_NOT_PERMITTED;
	return refuse("cuThingForgotten", "it is not served yet");
}

COLD static CUresult traced_cuThingForgotten(
	unsigned int aRatherLongNameOfAnArgument, unsigned int anotherLongName, int last)
{
	struct trace trace;

	trace_begin(&trace, "cuThingForgotten");
	trace_unsigned(&trace, "aRatherLongNameOfAnArgument", aRatherLongNameOfAnArgument);
	trace_unsigned(&trace, "anotherLongName", anotherLongName);
	trace_signed(&trace, "last", last);
	trace_start(&trace);
	trace.result = enter_cuThingForgotten(aRatherLongNameOfAnArgument, anotherLongName, last);
	return trace_end(&trace);
}

EXPORT CUresult CUDAAPI cuThingForgotten(
	unsigned int aRatherLongNameOfAnArgument, unsigned int anotherLongName, int last)
{
	CUresult returned;

	if (unlikely(!trace_is_off()))
		returned =
			traced_cuThingForgotten(aRatherLongNameOfAnArgument, anotherLongName, last);
	else
		returned =
			enter_cuThingForgotten(aRatherLongNameOfAnArgument, anotherLongName, last);
	if (unlikely(returned != CUDA_SUCCESS))
		route_failed("cuThingForgotten", returned);
	return returned;
}

static CUresult enter_cuThingCreate(CUthing *pThing, const char *name, size_t bytes)
{
	enum route route = route_get();

	if (unlikely(route == ROUTE_NATIVE))
		return real.cuThingCreate(pThing, name, bytes);
	if (unlikely(route != ROUTE_MPS))
		return route_error();
	if (unlikely(!route_initialised()))
		return CUDA_ERROR_NOT_INITIALIZED;
	if (unlikely(callback_is_running))
		return CUDA_ERROR_NOT_PERMITTED;
	return local_cuThingCreate_v2(pThing, name, bytes);
}

COLD static CUresult traced_cuThingCreate(CUthing *pThing, const char *name, size_t bytes)
{
	struct trace trace;

	trace_begin(&trace, "cuThingCreate");
	trace_pointer(&trace, "pThing", (const void *)pThing);
	trace_string(&trace, "name", name);
	trace_unsigned(&trace, "bytes", bytes);
	trace_start(&trace);
	trace.result = enter_cuThingCreate(pThing, name, bytes);
	return trace_end(&trace);
}

EXPORT CUresult CUDAAPI cuThingCreate(CUthing *pThing, const char *name, size_t bytes)
{
	CUresult returned;

	if (unlikely(!trace_is_off()))
		returned = traced_cuThingCreate(pThing, name, bytes);
	else
		returned = enter_cuThingCreate(pThing, name, bytes);
	if (unlikely(returned != CUDA_SUCCESS))
		route_failed("cuThingCreate", returned);
	return returned;
}

static CUresult enter_cuThingCopy(CUdeviceptr dst, const void *src, CUbox box, float scale)
{
	enum route route = route_get();

	if (unlikely(route == ROUTE_NATIVE))
		return real.cuThingCopy(dst, src, box, scale);
	if (unlikely(route != ROUTE_MPS))
		return route_error();
	if (unlikely(!route_initialised()))
		return CUDA_ERROR_NOT_INITIALIZED;
	if (unlikely(callback_is_running))
		return CUDA_ERROR_NOT_PERMITTED;
	return local_cuThingCopy(dst, src, box, scale, CU_STREAM_LEGACY);
}

COLD static CUresult traced_cuThingCopy(CUdeviceptr dst, const void *src, CUbox box, float scale)
{
	struct trace trace;

	trace_begin(&trace, "cuThingCopy");
	trace_hex(&trace, "dst", dst);
	trace_pointer(&trace, "src", (const void *)src);
	trace_opaque(&trace, "box");
	trace_float(&trace, "scale", scale);
	trace_start(&trace);
	trace.result = enter_cuThingCopy(dst, src, box, scale);
	return trace_end(&trace);
}

EXPORT CUresult CUDAAPI cuThingCopy(CUdeviceptr dst, const void *src, CUbox box, float scale)
{
	CUresult returned;

	if (unlikely(!trace_is_off()))
		returned = traced_cuThingCopy(dst, src, box, scale);
	else
		returned = enter_cuThingCopy(dst, src, box, scale);
	if (unlikely(returned != CUDA_SUCCESS))
		route_failed("cuThingCopy", returned);
	return returned;
}

static CUresult enter_cuThingRun(
	CUthing thing, CUkind kind, CUthingFn fn, void **args, CUstream hStream)
{
	enum route route = route_get();
	struct context_binding outer;
	CUresult result;

	if (unlikely(route == ROUTE_NATIVE))
		return real.cuThingRun(thing, kind, fn, args, hStream);
	if (unlikely(route != ROUTE_MPS))
		return route_error();
	if (unlikely(!route_initialised()))
		return CUDA_ERROR_NOT_INITIALIZED;
	if (unlikely(callback_is_running))
		return CUDA_ERROR_NOT_PERMITTED;
	outer = context_borrow(stream_context(hStream));
	result = local_cuThingRun(thing, kind, fn, args, hStream);
	context_return(outer);
	return result;
}

COLD static CUresult traced_cuThingRun(
	CUthing thing, CUkind kind, CUthingFn fn, void **args, CUstream hStream)
{
	struct trace trace;

	trace_begin(&trace, "cuThingRun");
	trace_pointer(&trace, "thing", (const void *)thing);
	trace_signed(&trace, "kind", kind);
	trace_pointer(&trace, "fn", (const void *)fn);
	trace_pointer(&trace, "args", (const void *)args);
	trace_pointer(&trace, "hStream", (const void *)hStream);
	trace_start(&trace);
	trace.result = enter_cuThingRun(thing, kind, fn, args, hStream);
	return trace_end(&trace);
}

EXPORT CUresult CUDAAPI cuThingRun(
	CUthing thing, CUkind kind, CUthingFn fn, void **args, CUstream hStream)
{
	CUresult returned;

	if (unlikely(!trace_is_off()))
		returned = traced_cuThingRun(thing, kind, fn, args, hStream);
	else
		returned = enter_cuThingRun(thing, kind, fn, args, hStream);
	if (unlikely(returned != CUDA_SUCCESS))
		route_failed("cuThingRun", returned);
	return returned;
}

static CUresult enter_cuProfilerStart(void)
{
	enum route route = route_get();

	if (unlikely(route == ROUTE_NATIVE))
		return real.cuProfilerStart();
	if (unlikely(route != ROUTE_MPS))
		return route_error();
	if (unlikely(!route_initialised()))
		return CUDA_ERROR_NOT_INITIALIZED;
	if (unlikely(callback_is_running))
		return CUDA_ERROR_NOT_PERMITTED;
	return refuse("cuProfilerStart", "it is not served yet");
}

COLD static CUresult traced_cuProfilerStart(void)
{
	struct trace trace;

	trace_begin(&trace, "cuProfilerStart");
	trace_start(&trace);
	trace.result = enter_cuProfilerStart();
	return trace_end(&trace);
}

EXPORT CUresult CUDAAPI cuProfilerStart(void)
{
	CUresult returned;

	if (unlikely(!trace_is_off()))
		returned = traced_cuProfilerStart();
	else
		returned = enter_cuProfilerStart();
	if (unlikely(returned != CUDA_SUCCESS))
		route_failed("cuProfilerStart", returned);
	return returned;
}

static CUresult enter_cuGLInit(GLuint buffer)
{
	enum route route = route_get();

	if (unlikely(route == ROUTE_NATIVE))
		return real.cuGLInit(buffer);
	if (unlikely(route != ROUTE_MPS))
		return route_error();
	if (unlikely(!route_initialised()))
		return CUDA_ERROR_NOT_INITIALIZED;
	if (unlikely(callback_is_running))
		return CUDA_ERROR_NOT_PERMITTED;
	return refuse("cuGLInit", "it is not served yet");
}

COLD static CUresult traced_cuGLInit(GLuint buffer)
{
	struct trace trace;

	trace_begin(&trace, "cuGLInit");
	trace_unsigned(&trace, "buffer", buffer);
	trace_start(&trace);
	trace.result = enter_cuGLInit(buffer);
	return trace_end(&trace);
}

EXPORT CUresult CUDAAPI cuGLInit(GLuint buffer);
EXPORT CUresult CUDAAPI cuGLInit(GLuint buffer)
{
	CUresult returned;

	if (unlikely(!trace_is_off()))
		returned = traced_cuGLInit(buffer);
	else
		returned = enter_cuGLInit(buffer);
	if (unlikely(returned != CUDA_SUCCESS))
		route_failed("cuGLInit", returned);
	return returned;
}
