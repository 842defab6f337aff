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

#include "base.h"
#include "client.h"
#include "client/transport/real.h"
#include "client/transport/route.h"
#include "client/transport/trace.h"
#include "client/context/coredump.h"
#include "client/stream/event.h"
#include "client/stream/green.h"
#include "client/stream/stream.h"
#include "client/memory/advice.h"
#include "client/memory/allocation.h"
#include "client/memory/memory_op.h"
#include "client/memory/pool.h"
#include "client/array/array.h"
#include "client/array/texture.h"
#include "client/copy/box.h"
#include "client/copy/fill.h"
#include "client/module/library.h"
#include "client/graph/node_calls.h"

#define EXPORT __attribute__((visibility("default")))

/* In a per-thread symbol, the default stream is that of the thread. */
static CUstream per_thread(CUstream stream)
{
	return stream ? stream : CU_STREAM_PER_THREAD;
}

static __attribute__((noinline)) CUresult need_context(void)
{
	struct context *context;

	return context_enter(&context);
}

EXPORT CUresult CUDAAPI cuInit(unsigned int Flags)
{
	static const char call[] = "cuInit\0uFlags";
	CUresult returned;

	if (unlikely(!route_is_open())) {
		struct entry entry = route_ask_early();

		if (entry.way == ENTRY_TRACED) {
			returned = cuInit(Flags);
			return trace_write(call, entry.start_ns, returned, (uint64_t)Flags);
		}
		if (entry.way == ENTRY_NATIVE)
			return real.cuInit(Flags);
	}
	returned = local_cuInit(Flags);
	return likely(returned == CUDA_SUCCESS) ? returned : route_failed(call, returned);
}

EXPORT CUresult CUDAAPI cuThingCreate_v2(CUthing *pThing, const char *name, size_t bytes)
{
	static const char call[] = "cuThingCreate_v2\0ppThing,sname,ubytes";
	CUresult returned;

	if (unlikely(!route_is_open())) {
		struct entry entry = route_ask();

		if (entry.way == ENTRY_TRACED) {
			returned = cuThingCreate_v2(pThing, name, bytes);
			return trace_write(
				call, entry.start_ns, returned, pThing, name, (uint64_t)bytes);
		}
		if (entry.way == ENTRY_NATIVE)
			return real.cuThingCreate_v2(pThing, name, bytes);
		if (entry.way == ENTRY_REFUSED)
			return route_failed(call, entry.result);
	}
	returned = server_link_check(&server);
	if (returned == CUDA_SUCCESS && (!pThing || !name))
		returned = CUDA_ERROR_INVALID_VALUE;
	if (returned == CUDA_SUCCESS)
		returned = local_cuThingCreate_v2(pThing, name, bytes);
	return likely(returned == CUDA_SUCCESS) ? returned : route_failed(call, returned);
}

EXPORT CUresult CUDAAPI cuThingCopy_ptds(CUdeviceptr dst, const void *src, CUbox box, float scale)
{
	static const char call[] = "cuThingCopy_ptds\0hdst,psrc,obox,fscale";
	CUresult returned;

	if (unlikely(!route_is_open())) {
		struct entry entry = route_ask();

		if (entry.way == ENTRY_TRACED) {
			returned = cuThingCopy_ptds(dst, src, box, scale);
			return trace_write(
				call, entry.start_ns, returned, (uint64_t)dst, src, scale);
		}
		if (entry.way == ENTRY_NATIVE)
			return real.cuThingCopy_ptds(dst, src, box, scale);
		if (entry.way == ENTRY_REFUSED)
			return route_failed(call, entry.result);
	}
	returned = thing_copy(dst, src, sizeof(box), CU_STREAM_PER_THREAD, true);
	return likely(returned == CUDA_SUCCESS) ? returned : route_failed(call, returned);
}

EXPORT CUresult CUDAAPI cuThingRun_ptsz(
	CUthing thing, CUkind kind, CUthingFn fn, void **args, CUstream hStream)
{
	static const char call[] = "cuThingRun_ptsz\0pthing,ikind,pfn,pargs,phStream";
	struct context_binding outer;
	struct stream *found4 = NULL;
	CUresult returned;

	if (unlikely(!route_is_open())) {
		struct entry entry = route_ask();

		if (entry.way == ENTRY_TRACED) {
			returned = cuThingRun_ptsz(thing, kind, fn, args, hStream);
			return trace_write(call, entry.start_ns, returned, thing, (uint64_t)kind,
				fn, args, hStream);
		}
		if (entry.way == ENTRY_NATIVE)
			return real.cuThingRun_ptsz(thing, kind, fn, args, hStream);
		if (entry.way == ENTRY_REFUSED)
			return route_failed(call, entry.result);
	}
	outer = context_borrow(stream_context(hStream));
	returned = need_context();
	if (returned == CUDA_SUCCESS)
		returned = stream_resolve(context_current, per_thread(hStream), &found4);
	if (returned == CUDA_SUCCESS)
		returned = local_cuThingRun(thing, kind, fn, args, found4);
	context_return(outer);
	return likely(returned == CUDA_SUCCESS) ? returned : route_failed(call, returned);
}

EXPORT CUresult CUDAAPI cuThingName(char *name, int len, CUthing thing)
{
	static const char call[] = "cuThingName\0pname,ilen,pthing";
	CUresult returned;

	if (unlikely(!route_is_open())) {
		struct entry entry = route_ask();

		if (entry.way == ENTRY_TRACED) {
			returned = cuThingName(name, len, thing);
			return trace_write(
				call, entry.start_ns, returned, name, (uint64_t)len, thing);
		}
		if (entry.way == ENTRY_NATIVE)
			return real.cuThingName(name, len, thing);
		if (entry.way == ENTRY_REFUSED)
			return route_failed(call, entry.result);
	}
	return route_failed(call, refuse(call, "a thing has no name here"));
}

EXPORT CUresult CUDAAPI cuThingForgotten(
	unsigned int aRatherLongNameOfAnArgument, unsigned int anotherLongName, int last)
{
	static const char call[] = "cuThingForgotten\0uaRatherLongNameOfAnArgument,"
				   "uanotherLongName,ilast";
	CUresult returned;

	if (unlikely(!route_is_open())) {
		struct entry entry = route_ask();

		if (entry.way == ENTRY_TRACED) {
			returned = cuThingForgotten(
				aRatherLongNameOfAnArgument, anotherLongName, last);
			return trace_write(call, entry.start_ns, returned,
				(uint64_t)aRatherLongNameOfAnArgument, (uint64_t)anotherLongName,
				(uint64_t)last);
		}
		if (entry.way == ENTRY_NATIVE)
			return real.cuThingForgotten(
				aRatherLongNameOfAnArgument, anotherLongName, last);
		if (entry.way == ENTRY_REFUSED)
			return route_failed(call, entry.result);
	}
	return route_failed(call, refuse(call, "it is not served yet"));
}

EXPORT CUresult CUDAAPI cuThingCreate(CUthing *pThing, const char *name, size_t bytes)
{
	static const char call[] = "cuThingCreate\0ppThing,sname,ubytes";
	CUresult returned;

	if (unlikely(!route_is_open())) {
		struct entry entry = route_ask();

		if (entry.way == ENTRY_TRACED) {
			returned = cuThingCreate(pThing, name, bytes);
			return trace_write(
				call, entry.start_ns, returned, pThing, name, (uint64_t)bytes);
		}
		if (entry.way == ENTRY_NATIVE)
			return real.cuThingCreate(pThing, name, bytes);
		if (entry.way == ENTRY_REFUSED)
			return route_failed(call, entry.result);
	}
	returned = server_link_check(&server);
	if (returned == CUDA_SUCCESS && (!pThing || !name))
		returned = CUDA_ERROR_INVALID_VALUE;
	if (returned == CUDA_SUCCESS)
		returned = local_cuThingCreate_v2(pThing, name, bytes);
	return likely(returned == CUDA_SUCCESS) ? returned : route_failed(call, returned);
}

EXPORT CUresult CUDAAPI cuThingCopy(CUdeviceptr dst, const void *src, CUbox box, float scale)
{
	static const char call[] = "cuThingCopy\0hdst,psrc,obox,fscale";
	CUresult returned;

	if (unlikely(!route_is_open())) {
		struct entry entry = route_ask();

		if (entry.way == ENTRY_TRACED) {
			returned = cuThingCopy(dst, src, box, scale);
			return trace_write(
				call, entry.start_ns, returned, (uint64_t)dst, src, scale);
		}
		if (entry.way == ENTRY_NATIVE)
			return real.cuThingCopy(dst, src, box, scale);
		if (entry.way == ENTRY_REFUSED)
			return route_failed(call, entry.result);
	}
	returned = thing_copy(dst, src, sizeof(box), CU_STREAM_LEGACY, true);
	return likely(returned == CUDA_SUCCESS) ? returned : route_failed(call, returned);
}

EXPORT CUresult CUDAAPI cuThingRun(
	CUthing thing, CUkind kind, CUthingFn fn, void **args, CUstream hStream)
{
	static const char call[] = "cuThingRun\0pthing,ikind,pfn,pargs,phStream";
	struct context_binding outer;
	struct stream *found4 = NULL;
	CUresult returned;

	if (unlikely(!route_is_open())) {
		struct entry entry = route_ask();

		if (entry.way == ENTRY_TRACED) {
			returned = cuThingRun(thing, kind, fn, args, hStream);
			return trace_write(call, entry.start_ns, returned, thing, (uint64_t)kind,
				fn, args, hStream);
		}
		if (entry.way == ENTRY_NATIVE)
			return real.cuThingRun(thing, kind, fn, args, hStream);
		if (entry.way == ENTRY_REFUSED)
			return route_failed(call, entry.result);
	}
	outer = context_borrow(stream_context(hStream));
	returned = need_context();
	if (returned == CUDA_SUCCESS)
		returned = stream_resolve(context_current, hStream, &found4);
	if (returned == CUDA_SUCCESS)
		returned = local_cuThingRun(thing, kind, fn, args, found4);
	context_return(outer);
	return likely(returned == CUDA_SUCCESS) ? returned : route_failed(call, returned);
}

EXPORT CUresult CUDAAPI cuProfilerStart(void)
{
	static const char call[] = "cuProfilerStart\0";
	CUresult returned;

	if (unlikely(!route_is_open())) {
		struct entry entry = route_ask();

		if (entry.way == ENTRY_TRACED) {
			returned = cuProfilerStart();
			return trace_write(call, entry.start_ns, returned);
		}
		if (entry.way == ENTRY_NATIVE)
			return real.cuProfilerStart();
		if (entry.way == ENTRY_REFUSED)
			return route_failed(call, entry.result);
	}
	return route_failed(call, refuse(call, "it is not served yet"));
}

EXPORT CUresult CUDAAPI cuGLInit(GLuint buffer);
EXPORT CUresult CUDAAPI cuGLInit(GLuint buffer)
{
	static const char call[] = "cuGLInit\0ubuffer";
	CUresult returned;

	if (unlikely(!route_is_open())) {
		struct entry entry = route_ask();

		if (entry.way == ENTRY_TRACED) {
			returned = cuGLInit(buffer);
			return trace_write(call, entry.start_ns, returned, (uint64_t)buffer);
		}
		if (entry.way == ENTRY_NATIVE)
			return real.cuGLInit(buffer);
		if (entry.way == ENTRY_REFUSED)
			return route_failed(call, entry.result);
	}
	return route_failed(call, refuse(call, "it is not served yet"));
}
