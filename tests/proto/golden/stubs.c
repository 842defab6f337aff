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

#include <string.h>

#include "base.h"
#include "calls_entry.h"
#include "calls_thing.h"
#include "wire.h"
#include "client/transport/real.h"
#include "client/transport/route.h"
#include "client/transport/trace.h"
#include "client/context/coredump.h"
#include "client/stream/context_events.h"
#include "client/stream/event.h"
#include "client/stream/green.h"
#include "client/stream/stream.h"
#include "client/memory/advice.h"
#include "client/memory/allocation.h"
#include "client/memory/host.h"
#include "client/memory/ipc.h"
#include "client/memory/memory_op.h"
#include "client/memory/pool.h"
#include "client/memory/pool_calls.h"
#include "client/array/array.h"
#include "client/array/texture.h"
#include "client/copy/box.h"
#include "client/copy/copy.h"
#include "client/copy/fill.h"
#include "client/module/eager.h"
#include "client/module/library.h"
#include "client/launch/launch.h"
#include "client/launch/occupancy.h"
#include "client/graph/conditional.h"
#include "client/graph/exec.h"
#include "client/graph/graph.h"
#include "client/graph/node_calls.h"
#include "send.h"

#define EXPORT __attribute__((visibility("default")))
#define COLD __attribute__((cold, noinline))
#define INLINE inline __attribute__((always_inline))
#define NOINLINE __attribute__((noinline))

typedef void (*any_function)(void);

/* A symbol: where the real libcuda has it, and its text for trace_write(). */
struct call {
	uint16_t real_at;
	bool is_early; /* valid before cuInit() */
	uint8_t why;   /* of `whys'; 0: the client answers it */
	char text[];
};

#define EARLY true
#define LATE false

/* The text is the symbol, NUL, and the arguments as trace.h describes them. */
#define TEXT(symbol, types) #symbol "\0" types
#define REAL_AT(symbol) (offsetof(struct cuda_api, symbol) / sizeof(any_function))

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

/* Why the client refuses some calls. */
static const char *const whys[] = {
	"",
	"a thing has no name here",
	"it is not served yet",
};

static COLD CUresult refused(const struct call *call)
{
	return route_failed(call->text, refuse(call->text, whys[call->why]));
}

static inline CUresult ended(const struct call *call, CUresult result)
{
	return likely(result == CUDA_SUCCESS) ? result : route_failed(call->text, result);
}

/* The function that answers a call which cannot be served at once; NULL: entry->result does. */
static COLD any_function way_of(const struct call *call, any_function served, struct entry *entry)
{
	*entry = route_ask(call->real_at, call->is_early);
	if (entry->way == ENTRY_NATIVE)
		return ((const any_function *)&real)[call->real_at];
	if (entry->way != ENTRY_SERVED)
		return NULL;
	if (!served)
		entry->result = refuse(call->text, whys[call->why]);
	return served;
}

static COLD CUresult ask_(const struct call *call, any_function served)
{
	CUresult (*next)(void);
	struct entry entry;

	next = (void *)way_of(call, served, &entry);
	if (entry.way == ENTRY_TRACED) {
		entry.result = ask_(call, served);
		return trace_write(call->text, entry.start_ns, entry.result);
	}
	return ended(call, next ? next() : entry.result);
}

static COLD CUresult ask_lp_CUbox_f(uint64_t a0, const void *a1, CUbox a2, float a3,
	const struct call *call, any_function served)
{
	CUresult (*next)(uint64_t, const void *, CUbox, float);
	struct entry entry;

	next = (void *)way_of(call, served, &entry);
	if (entry.way == ENTRY_TRACED) {
		entry.result = ask_lp_CUbox_f(a0, a1, a2, a3, call, served);
		return trace_write(call->text, entry.start_ns, entry.result, (uint64_t)a0, a1, a3);
	}
	return ended(call, next ? next(a0, a1, a2, a3) : entry.result);
}

static COLD CUresult ask_pip(
	const void *a0, int a1, const void *a2, const struct call *call, any_function served)
{
	CUresult (*next)(const void *, int, const void *);
	struct entry entry;

	next = (void *)way_of(call, served, &entry);
	if (entry.way == ENTRY_TRACED) {
		entry.result = ask_pip(a0, a1, a2, call, served);
		return trace_write(call->text, entry.start_ns, entry.result, a0, (uint64_t)a1, a2);
	}
	return ended(call, next ? next(a0, a1, a2) : entry.result);
}

static COLD CUresult ask_ppl(
	const void *a0, const void *a1, uint64_t a2, const struct call *call, any_function served)
{
	CUresult (*next)(const void *, const void *, uint64_t);
	struct entry entry;

	next = (void *)way_of(call, served, &entry);
	if (entry.way == ENTRY_TRACED) {
		entry.result = ask_ppl(a0, a1, a2, call, served);
		return trace_write(call->text, entry.start_ns, entry.result, a0, a1, (uint64_t)a2);
	}
	return ended(call, next ? next(a0, a1, a2) : entry.result);
}

static COLD CUresult ask_puppp(const void *a0, unsigned a1, const void *a2, const void *a3,
	const void *a4, const struct call *call, any_function served)
{
	CUresult (*next)(const void *, unsigned, const void *, const void *, const void *);
	struct entry entry;

	next = (void *)way_of(call, served, &entry);
	if (entry.way == ENTRY_TRACED) {
		entry.result = ask_puppp(a0, a1, a2, a3, a4, call, served);
		return trace_write(
			call->text, entry.start_ns, entry.result, a0, (uint64_t)a1, a2, a3, a4);
	}
	return ended(call, next ? next(a0, a1, a2, a3, a4) : entry.result);
}

static COLD CUresult ask_u(unsigned a0, const struct call *call, any_function served)
{
	CUresult (*next)(unsigned);
	struct entry entry;

	next = (void *)way_of(call, served, &entry);
	if (entry.way == ENTRY_TRACED) {
		entry.result = ask_u(a0, call, served);
		return trace_write(call->text, entry.start_ns, entry.result, (uint64_t)a0);
	}
	return ended(call, next ? next(a0) : entry.result);
}

static COLD CUresult ask_uui(
	unsigned a0, unsigned a1, int a2, const struct call *call, any_function served)
{
	CUresult (*next)(unsigned, unsigned, int);
	struct entry entry;

	next = (void *)way_of(call, served, &entry);
	if (entry.way == ENTRY_TRACED) {
		entry.result = ask_uui(a0, a1, a2, call, served);
		return trace_write(call->text, entry.start_ns, entry.result, (uint64_t)a0,
			(uint64_t)a1, (uint64_t)a2);
	}
	return ended(call, next ? next(a0, a1, a2) : entry.result);
}

static const struct call call_cuInit = {REAL_AT(cuInit), EARLY, 0, {TEXT(cuInit, "uFlags")}};

EXPORT CUresult CUDAAPI cuInit(unsigned int Flags)
{
	if (unlikely(!route_is_open()))
		return ask_u(Flags, &call_cuInit, (any_function)local_cuInit);
	return ended(&call_cuInit, local_cuInit(Flags));
}

static const struct call call_cuThingCreate_v2 = {
	REAL_AT(cuThingCreate_v2), LATE, 0, {TEXT(cuThingCreate_v2, "ppThing,sname,ubytes")}};

static NOINLINE CUresult answer_cuThingCreate_v2(CUthing *pThing, const char *name, size_t bytes)
{
	CUresult returned;

	returned = server_link_check(&server);
	if (returned != CUDA_SUCCESS)
		return returned;
	if (!pThing || !name)
		return CUDA_ERROR_INVALID_VALUE;
	return local_cuThingCreate_v2(pThing, name, bytes);
}

EXPORT CUresult CUDAAPI cuThingCreate_v2(CUthing *pThing, const char *name, size_t bytes)
{
	if (unlikely(!route_is_open()))
		return ask_ppl(pThing, name, bytes, &call_cuThingCreate_v2,
			(any_function)answer_cuThingCreate_v2);
	return ended(&call_cuThingCreate_v2, answer_cuThingCreate_v2(pThing, name, bytes));
}

static const struct call call_cuThingCopy_ptds = {
	REAL_AT(cuThingCopy_ptds), LATE, 0, {TEXT(cuThingCopy_ptds, "hdst,psrc,obox,fscale")}};

static NOINLINE CUresult answer_cuThingCopy_ptds(
	CUdeviceptr dst, const void *src, CUbox box, float scale)
{
	return thing_copy(dst, src, sizeof(box), CU_STREAM_PER_THREAD, true);
}

EXPORT CUresult CUDAAPI cuThingCopy_ptds(CUdeviceptr dst, const void *src, CUbox box, float scale)
{
	if (unlikely(!route_is_open()))
		return ask_lp_CUbox_f(dst, src, box, scale, &call_cuThingCopy_ptds,
			(any_function)answer_cuThingCopy_ptds);
	return ended(&call_cuThingCopy_ptds, answer_cuThingCopy_ptds(dst, src, box, scale));
}

static const struct call call_cuThingRun_ptsz = {REAL_AT(cuThingRun_ptsz), LATE, 0,
	{TEXT(cuThingRun_ptsz, "pthing,ikind,pfn,pargs,phStream")}};

static NOINLINE CUresult answer_cuThingRun_ptsz(
	CUthing thing, CUkind kind, CUthingFn fn, void **args, CUstream hStream)
{
	_cleanup_(context_return) _unused_ const struct context_binding outer =
		context_borrow(stream_context(hStream));
	struct stream *found4 = NULL;
	CUresult returned;

	returned = need_context();
	if (returned != CUDA_SUCCESS)
		return returned;
	returned = stream_resolve(context_current, per_thread(hStream), &found4);
	if (returned != CUDA_SUCCESS)
		return returned;
	return local_cuThingRun(thing, kind, fn, args, found4);
}

EXPORT CUresult CUDAAPI cuThingRun_ptsz(
	CUthing thing, CUkind kind, CUthingFn fn, void **args, CUstream hStream)
{
	if (unlikely(!route_is_open()))
		return ask_puppp(thing, kind, fn, args, hStream, &call_cuThingRun_ptsz,
			(any_function)answer_cuThingRun_ptsz);
	return ended(&call_cuThingRun_ptsz, answer_cuThingRun_ptsz(thing, kind, fn, args, hStream));
}

static const struct call call_cuThingName = {
	REAL_AT(cuThingName), LATE, 1, {TEXT(cuThingName, "pname,ilen,pthing")}};

EXPORT CUresult CUDAAPI cuThingName(char *name, int len, CUthing thing)
{
	if (unlikely(!route_is_open()))
		return ask_pip(name, len, thing, &call_cuThingName, NULL);
	return refused(&call_cuThingName);
}

static const struct call call_cuThingForgotten = {REAL_AT(cuThingForgotten), LATE, 2,
	{TEXT(cuThingForgotten, "uaRatherLongNameOfAnArgument,uanotherLongName,ilast")}};

EXPORT CUresult CUDAAPI cuThingForgotten(
	unsigned int aRatherLongNameOfAnArgument, unsigned int anotherLongName, int last)
{
	if (unlikely(!route_is_open()))
		return ask_uui(aRatherLongNameOfAnArgument, anotherLongName, last,
			&call_cuThingForgotten, NULL);
	return refused(&call_cuThingForgotten);
}

static const struct call call_cuThingCreate = {
	REAL_AT(cuThingCreate), LATE, 0, {TEXT(cuThingCreate, "ppThing,sname,ubytes")}};

static NOINLINE CUresult answer_cuThingCreate(CUthing *pThing, const char *name, size_t bytes)
{
	CUresult returned;

	returned = server_link_check(&server);
	if (returned != CUDA_SUCCESS)
		return returned;
	if (!pThing || !name)
		return CUDA_ERROR_INVALID_VALUE;
	return local_cuThingCreate_v2(pThing, name, bytes);
}

EXPORT CUresult CUDAAPI cuThingCreate(CUthing *pThing, const char *name, size_t bytes)
{
	if (unlikely(!route_is_open()))
		return ask_ppl(pThing, name, bytes, &call_cuThingCreate,
			(any_function)answer_cuThingCreate);
	return ended(&call_cuThingCreate, answer_cuThingCreate(pThing, name, bytes));
}

static const struct call call_cuThingCopy = {
	REAL_AT(cuThingCopy), LATE, 0, {TEXT(cuThingCopy, "hdst,psrc,obox,fscale")}};

static NOINLINE CUresult answer_cuThingCopy(
	CUdeviceptr dst, const void *src, CUbox box, float scale)
{
	return thing_copy(dst, src, sizeof(box), CU_STREAM_LEGACY, true);
}

EXPORT CUresult CUDAAPI cuThingCopy(CUdeviceptr dst, const void *src, CUbox box, float scale)
{
	if (unlikely(!route_is_open()))
		return ask_lp_CUbox_f(
			dst, src, box, scale, &call_cuThingCopy, (any_function)answer_cuThingCopy);
	return ended(&call_cuThingCopy, answer_cuThingCopy(dst, src, box, scale));
}

static const struct call call_cuThingRun = {
	REAL_AT(cuThingRun), LATE, 0, {TEXT(cuThingRun, "pthing,ikind,pfn,pargs,phStream")}};

static NOINLINE CUresult answer_cuThingRun(
	CUthing thing, CUkind kind, CUthingFn fn, void **args, CUstream hStream)
{
	_cleanup_(context_return) _unused_ const struct context_binding outer =
		context_borrow(stream_context(hStream));
	struct stream *found4 = NULL;
	CUresult returned;

	returned = need_context();
	if (returned != CUDA_SUCCESS)
		return returned;
	returned = stream_resolve(context_current, hStream, &found4);
	if (returned != CUDA_SUCCESS)
		return returned;
	return local_cuThingRun(thing, kind, fn, args, found4);
}

EXPORT CUresult CUDAAPI cuThingRun(
	CUthing thing, CUkind kind, CUthingFn fn, void **args, CUstream hStream)
{
	if (unlikely(!route_is_open()))
		return ask_puppp(thing, kind, fn, args, hStream, &call_cuThingRun,
			(any_function)answer_cuThingRun);
	return ended(&call_cuThingRun, answer_cuThingRun(thing, kind, fn, args, hStream));
}

static const struct call call_cuProfilerStart = {
	REAL_AT(cuProfilerStart), LATE, 2, {TEXT(cuProfilerStart, "")}};

EXPORT CUresult CUDAAPI cuProfilerStart(void)
{
	if (unlikely(!route_is_open()))
		return ask_(&call_cuProfilerStart, NULL);
	return refused(&call_cuProfilerStart);
}

static const struct call call_cuGLInit = {REAL_AT(cuGLInit), LATE, 2, {TEXT(cuGLInit, "ubuffer")}};

EXPORT CUresult CUDAAPI cuGLInit(GLuint buffer);
EXPORT CUresult CUDAAPI cuGLInit(GLuint buffer)
{
	if (unlikely(!route_is_open()))
		return ask_u(buffer, &call_cuGLInit, NULL);
	return refused(&call_cuGLInit);
}
