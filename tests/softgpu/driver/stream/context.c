/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts: current contexts, primary contexts, created contexts.
 *
 * Runs in any thread, under the driver's lock. A thread's stack may name a
 * context that another thread has destroyed, so each use looks it up.
 */

#include "context.h"

#include "current.h"
#include "event.h"
#include "green.h"
#include "stream.h"
#include "tests/softgpu/driver/copy/array.h"
#include "tests/softgpu/driver/copy/texture.h"
#include "tests/softgpu/driver/graph/capture.h"
#include "tests/softgpu/driver/launch/launch.h"
#include "tests/softgpu/driver/memory/memory.h"
#include "tests/softgpu/driver/module/module.h"
#include "tests/softgpu/ptx/heap.h"

/* At most one way of waiting, and only defined flags. */
static bool flags_are_valid(unsigned flags)
{
	unsigned wait = flags & CU_CTX_SCHED_MASK;

	return !(flags & ~(unsigned)CU_CTX_FLAGS_MASK) && (wait & (wait - 1)) == 0;
}

/* The initial buffer of printf. */
#define PRINTF_SIZE ((size_t)8650752)

/*
 * The device memory of a buffer: only the part above the software GPU's own default, which is
 * memory of this process.
 */
static size_t limit_memory(CUlimit limit, size_t value)
{
	size_t own = limit == CU_LIMIT_MALLOC_HEAP_SIZE ? PTX_HEAP_SIZE : PRINTF_SIZE;

	if (limit != CU_LIMIT_MALLOC_HEAP_SIZE && limit != CU_LIMIT_PRINTF_FIFO_SIZE)
		return 0;
	return value > own ? value - own : 0;
}

static CUresult limit_set(struct context *context, CUlimit limit, size_t value)
{
	size_t before = limit_memory(limit, context->limits[limit]);
	size_t after = limit_memory(limit, value);
	struct device *device = context->device;

	if (after > before && after - before > device->total - device->used)
		return CUDA_ERROR_OUT_OF_MEMORY;
	device->used += after - before;
	context->limits[limit] = value;
	return CUDA_SUCCESS;
}

static void context_limits_reset(struct context *context)
{
	limit_set(context, CU_LIMIT_PRINTF_FIFO_SIZE, PRINTF_SIZE);
	limit_set(context, CU_LIMIT_MALLOC_HEAP_SIZE, 8 << 20);
	context->limits[CU_LIMIT_STACK_SIZE] = 1024;
	context->limits[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048;
	context->limits[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64;
	context->limits[CU_LIMIT_PERSISTING_L2_CACHE_SIZE] = 11796480;
	context->limits[CU_LIMIT_SHMEM_SIZE] = 232448;
}

struct context *context_new(struct device *device, bool is_primary)
{
	struct context *context = calloc(1, sizeof(*context));

	if (!context)
		return NULL;
	context->device = device;
	context->is_primary = is_primary;
	context->id = ++driver.last_id;
	context_limits_reset(context);
	lock_init(&context->storage.lock, LOCK_STORAGE);
	context->next = driver.contexts;
	driver.contexts = context;
	object_add(&context->object, OBJECT_CONTEXT);
	return context;
}

CUresult context_start(struct context *context)
{
	CUresult result = device_claim(context->device);

	if (result != CUDA_SUCCESS)
		return result;
	context->null_stream = stream_new(context, CU_STREAM_DEFAULT, 0);
	if (!context->null_stream) {
		device_unclaim(context->device);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	context->is_active = true;
	stat_add(STAT_CONTEXTS, 1);
	return CUDA_SUCCESS;
}

/* The destructors run with their context current, and may call the driver. */
static void context_end_storage(struct context *context)
{
	bool is_pushed = current_push(context) == CUDA_SUCCESS;

	pthread_mutex_unlock(&driver.lock);
	storage_end(&context->storage, (CUcontext)context);
	pthread_mutex_lock(&driver.lock);
	if (is_pushed)
		current_pop();
}

void context_stop(struct context *context)
{
	if (context->is_active)
		context_end_storage(context);
	if (!context->is_active)
		return;
	context->is_active = false;
	context->null_stream = NULL;
	greens_free_context(context);
	streams_drop(context);
	while (context->events)
		event_free(context->events);
	while (context->modules)
		module_close(context->modules);
	memory_free_context(context);
	textures_free_context(context);
	arrays_free_context(context);
	context_limits_reset(context);
	device_unclaim(context->device);
	stat_add(STAT_CONTEXTS, -1);
}

/* Its handle stays known, so that calls can say that it has ended. */
static void context_free(struct context *context)
{
	struct context **link = &driver.contexts;

	context_stop(context);
	while (*link != context)
		link = &(*link)->next;
	*link = context->next;
}

static struct context *context_find(const void *handle)
{
	struct context *context = object_find(OBJECT_CONTEXT, handle);
	struct green *green = context ? NULL : green_of_context(handle);

	return green ? green->context : context;
}

/* The top of the thread's stack, if that context still exists. */
static struct context *context_top(void)
{
	return current_top() ? context_find(current_top()) : NULL;
}

struct context *context_current(void)
{
	struct context *context = context_top();

	return context && context->is_active ? context : NULL;
}

bool context_is_sync(void)
{
	return context_current()->flags & CU_CTX_SYNC_MEMOPS;
}

CUresult context_check(void)
{
	if (!current_top())
		return CUDA_ERROR_INVALID_CONTEXT;
	return context_current() ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

bool context_has_ended(void)
{
	return current_top() && !context_current();
}

CUresult context_get(CUcontext handle, struct context **ret_context)
{
	struct context *context = handle ? context_find(handle) : context_top();

	if (!context)
		return CUDA_ERROR_INVALID_CONTEXT;
	*ret_context = context;
	return CUDA_SUCCESS;
}

struct green *context_green(CUcontext handle)
{
	const void *named = handle ? handle : current_top();

	return named ? green_of_context(named) : NULL;
}

CUresult context_wait(struct context *context)
{
	return streams_wait(context);
}

/* Meanwhile, no thread can call the driver: the real driver holds its lock then. */
CUresult device_wait(const struct device *device)
{
	CUresult result = CUDA_SUCCESS;

	driver.is_held = true;
	for (struct context *context = driver.contexts; context; context = context->next)
		if (context->device == device && context->is_active && result == CUDA_SUCCESS)
			result = streams_wait(context);
	driver.is_held = false;
	pthread_cond_broadcast(&driver.progress);
	return result;
}

/* After a fault, an active context can still be retained, but no context can be created. */
CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
	struct device *device;
	CUresult result = CUDA_SUCCESS;

	ENTER(CALL_INIT);
	device = device_get(dev);
	if (!pctx)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!device->primary->is_active)
		result = driver.fault != CUDA_SUCCESS ? driver.fault
						      : context_start(device->primary);
	if (result != CUDA_SUCCESS)
		return result;
	device->primary->refs++;
	*pctx = (CUcontext)device->primary;
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
	struct device *device;

	ENTER(CALL_INIT);
	device = device_get(dev);
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	if (device->primary->refs == 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (--device->primary->refs == 0)
		context_stop(device->primary);
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice dev)
{
	return cuDevicePrimaryCtxRelease_v2(dev);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
	struct device *device;

	ENTER(CALL_INIT);
	device = device_get(dev);
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	context_stop(device->primary);
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxReset(CUdevice dev)
{
	return cuDevicePrimaryCtxReset_v2(dev);
}

static CUresult primary_set_flags(CUdevice dev, unsigned flags, bool may_be_active)
{
	struct device *device = device_get(dev);

	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	/* The driver adds the flag for mapped memory itself. */
	if (!flags_are_valid(flags) || flags & CU_CTX_MAP_HOST)
		return CUDA_ERROR_INVALID_VALUE;
	if (device->primary->is_active && !may_be_active)
		return CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE;
	device->primary->flags = flags;
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags)
{
	ENTER(CALL_INIT);
	return primary_set_flags(dev, flags, true);
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags)
{
	ENTER(CALL_INIT);
	return primary_set_flags(dev, flags, false);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)
{
	ENTER(CALL_INIT);
	if (!device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!flags || !active)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = device_get(dev)->primary->flags;
	*active = device_get(dev)->primary->is_active;
	return CUDA_SUCCESS;
}

static CUresult context_create(CUcontext *pctx, unsigned flags, CUdevice dev)
{
	struct context *context;
	CUresult result;

	if (!pctx || !flags_are_valid(flags))
		return CUDA_ERROR_INVALID_VALUE;
	if (!device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	context = context_new(device_get(dev), false);
	if (!context)
		return CUDA_ERROR_OUT_OF_MEMORY;
	context->flags = flags;
	result = context_start(context);
	if (result == CUDA_SUCCESS)
		result = current_push(context);
	if (result != CUDA_SUCCESS) {
		context_free(context);
		return result;
	}
	*pctx = (CUcontext)context;
	return CUDA_SUCCESS;
}

CUresult cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
	ENTER(CALL_ALIVE);
	return context_create(pctx, flags, dev);
}

CUresult cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *paramsArray, int numParams,
	unsigned int flags, CUdevice dev)
{
	ENTER(CALL_ALIVE);
	if (paramsArray || numParams)
		return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
	return context_create(pctx, flags, dev);
}

CUresult cuCtxCreate_v4(
	CUcontext *pctx, CUctxCreateParams *ctxCreateParams, unsigned int flags, CUdevice dev)
{
	ENTER(CALL_ALIVE);
	if (ctxCreateParams && ctxCreateParams->numExecAffinityParams)
		return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
	if (ctxCreateParams && ctxCreateParams->cigParams)
		return CUDA_ERROR_NOT_SUPPORTED;
	return context_create(pctx, flags, dev);
}

CUresult cuCtxDestroy_v2(CUcontext ctx)
{
	struct context *context;

	ENTER(CALL_INIT);
	context = object_find(OBJECT_CONTEXT, ctx);
	if (!ctx)
		return CUDA_ERROR_INVALID_VALUE;
	if (!context || context->is_primary)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!context->is_active)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	if (current_top() == context)
		current_pop();
	context_free(context);
	return CUDA_SUCCESS;
}

CUresult cuCtxDestroy(CUcontext ctx)
{
	return cuCtxDestroy_v2(ctx);
}

CUresult cuCtxGetCurrent(CUcontext *pctx)
{
	ENTER(CALL_INIT);
	if (!pctx)
		return CUDA_ERROR_INVALID_VALUE;
	*pctx = (CUcontext)current_top();
	return CUDA_SUCCESS;
}

/* A destroyed context cannot become current, but stay so; an inactive primary context can. */
static CUresult bindable(CUcontext handle)
{
	const struct context *context = context_find(handle);

	if (!context)
		return CUDA_ERROR_INVALID_CONTEXT;
	return context->is_active || context->is_primary || current_top() == handle
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult cuCtxSetCurrent(CUcontext ctx)
{
	CUresult result;

	ENTER(CALL_INIT);
	result = ctx ? bindable(ctx) : CUDA_SUCCESS;
	if (result != CUDA_SUCCESS)
		return result;
	current_pop();
	return ctx ? current_push(ctx) : CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext ctx)
{
	CUresult result;

	ENTER(CALL_INIT);
	if (!ctx)
		return CUDA_ERROR_INVALID_VALUE;
	result = bindable(ctx);
	return result == CUDA_SUCCESS ? current_push(ctx) : result;
}

CUresult cuCtxPushCurrent(CUcontext ctx)
{
	return cuCtxPushCurrent_v2(ctx);
}

CUresult cuCtxPopCurrent_v2(CUcontext *pctx)
{
	const void *popped;

	ENTER(CALL_INIT);
	if (!current_top())
		return CUDA_ERROR_INVALID_CONTEXT;
	popped = current_pop();
	if (pctx)
		*pctx = (CUcontext)popped;
	return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext *pctx)
{
	return cuCtxPopCurrent_v2(pctx);
}

static CUresult context_device(CUdevice *device, CUcontext ctx)
{
	struct context *context;

	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	if (context_get(ctx, &context) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_CONTEXT;
	*device = (CUdevice)(context->device - driver.devices);
	return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
	ENTER(CALL_INIT);
	return context_device(device, NULL);
}

CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx)
{
	ENTER(CALL_INIT);
	return context_device(device, ctx);
}

CUresult cuCtxGetFlags(unsigned int *flags)
{
	/* Also after its end. */
	const struct context *context;

	ENTER(CALL_INIT);
	context = context_top();
	if (!context || !flags)
		return context ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_CONTEXT;
	/* The driver adds it for primary contexts only. */
	*flags = context->flags | (context->is_primary ? CU_CTX_MAP_HOST : 0);
	return CUDA_SUCCESS;
}

CUresult cuCtxSetFlags(unsigned int flags)
{
	ENTER(CALL_CONTEXT);
	if (!flags_are_valid(flags))
		return CUDA_ERROR_INVALID_VALUE;
	/* As driver 580 on an H100, which does not report the flags of core dumps. */
	context_current()->flags =
		flags & ~(unsigned)(CU_CTX_COREDUMP_ENABLE | CU_CTX_USER_COREDUMP_ENABLE);
	return CUDA_SUCCESS;
}

CUresult cuCtxGetId(CUcontext ctx, unsigned long long *ctxId)
{
	struct context *context;

	ENTER(CALL_INIT);
	if (!ctxId)
		return CUDA_ERROR_INVALID_VALUE;
	if (context_get(ctx, &context) != CUDA_SUCCESS)
		return ctx ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_ERROR_INVALID_CONTEXT;
	if (!context->is_active)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	*ctxId = context_green(ctx) ? context_green(ctx)->id : context->id;
	return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned int *version)
{
	struct context *context;

	ENTER(CALL_INIT);
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	if (context_get(ctx, &context) != CUDA_SUCCESS || !context->is_active)
		return CUDA_ERROR_INVALID_CONTEXT;
	*version = 3020;
	return CUDA_SUCCESS;
}

/* A program may not wait for a stream that it is capturing; the driver itself may. */
static CUresult synchronize(struct context *context, const struct green *green)
{
	CUresult result;

	for (struct stream *stream = context->streams; stream; stream = stream->next)
		if (stream->capture && (!green || stream->green == green))
			return capture_forbid(stream);
	result = streams_wait_green(context, green);
	print_flush();
	return result;
}

/* After a fault, too, it writes what kernels have printed before. */
CUresult cuCtxSynchronize(void)
{
	_cleanup_(call_leave) CUresult entered = call_enter(__func__, CALL_CONTEXT);

	if (entered != CUDA_SUCCESS) {
		print_flush();
		return entered;
	}
	return synchronize(context_current(), context_green(NULL));
}

CUresult cuCtxSynchronize_v2(CUcontext ctx)
{
	struct context *context;

	ENTER(CALL_ALIVE);
	if (context_get(ctx, &context) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_CONTEXT;
	return context->is_active ? synchronize(context, context_green(ctx))
				  : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

static CUresult limit_check(CUlimit limit)
{
	if (limit >= CU_LIMIT_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	return limit > CU_LIMIT_CIG_ENABLED || limit == CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH
		       ? CUDA_ERROR_UNSUPPORTED_LIMIT
		       : CUDA_SUCCESS;
}

CUresult cuCtxGetLimit(size_t *pvalue, CUlimit limit)
{
	CUresult result;

	ENTER(CALL_CONTEXT);
	if (!pvalue)
		return CUDA_ERROR_INVALID_VALUE;
	result = limit_check(limit);
	if (result == CUDA_SUCCESS)
		*pvalue = context_current()->limits[limit];
	return result;
}

/* The value that the limit gets; measured on an H100. */
static CUresult limit_rounded(CUlimit limit, size_t value, size_t *ret_value)
{
	static const struct {
		size_t unit, least, most;
	} rules[] = {
		[CU_LIMIT_STACK_SIZE] = {16, 0, SIZE_MAX},
		[CU_LIMIT_PRINTF_FIFO_SIZE] = {256, 512 << 10, SIZE_MAX},
		[CU_LIMIT_MALLOC_HEAP_SIZE] = {64 << 10, 4 << 20, SIZE_MAX},
		[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = {1, 32, SIZE_MAX},
		[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = {1, 0, 128},
		/* A sixteenth of the cache, and the attribute. */
		[CU_LIMIT_PERSISTING_L2_CACHE_SIZE] = {3932160, 0, 39321600},
	};

	if (limit > CU_LIMIT_PERSISTING_L2_CACHE_SIZE)
		return CUDA_ERROR_NOT_PERMITTED;
	if (value > rules[limit].most)
		return CUDA_ERROR_INVALID_VALUE;
	if (value > SIZE_MAX - rules[limit].unit)
		return CUDA_ERROR_OUT_OF_MEMORY;
	value = (value + rules[limit].unit - 1) / rules[limit].unit * rules[limit].unit;
	*ret_value = MAX(value, rules[limit].least);
	return CUDA_SUCCESS;
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
	CUresult result;

	ENTER(CALL_CONTEXT);
	result = limit_check(limit);
	if (result == CUDA_SUCCESS)
		result = limit_rounded(limit, value, &value);
	if (result == CUDA_SUCCESS && limit == CU_LIMIT_STACK_SIZE)
		result = device_wait(context_current()->device);
	if (result != CUDA_SUCCESS)
		return result;
	if (limit == CU_LIMIT_STACK_SIZE)
		mapping_leave_hole();
	return limit_set(context_current(), limit, value);
}

CUresult cuCtxGetCacheConfig(CUfunc_cache *pconfig)
{
	ENTER(CALL_CONTEXT);
	if (!pconfig)
		return CUDA_ERROR_INVALID_VALUE;
	*pconfig = context_current()->cache_config;
	return CUDA_SUCCESS;
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config)
{
	ENTER(CALL_CONTEXT);
	if (config > CU_FUNC_CACHE_PREFER_EQUAL)
		return CUDA_ERROR_INVALID_VALUE;
	context_current()->cache_config = config;
	return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority)
{
	ENTER(CALL_CONTEXT);
	if (leastPriority)
		*leastPriority = 0;
	if (greatestPriority)
		*greatestPriority = STREAM_PRIORITY_GREATEST;
	return CUDA_SUCCESS;
}

/* `of_itself': the result for contexts of one device. */
static CUresult peer_check(CUcontext peerContext, CUresult of_itself)
{
	struct context *peer;

	if (!peerContext || context_get(peerContext, &peer) != CUDA_SUCCESS || !peer->is_active)
		return CUDA_ERROR_INVALID_CONTEXT;
	return peer->device == context_current()->device ? of_itself : CUDA_SUCCESS;
}

CUresult cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags)
{
	ENTER(CALL_CONTEXT);
	return Flags ? CUDA_ERROR_INVALID_VALUE
		     : peer_check(peerContext, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
}

CUresult cuCtxDisablePeerAccess(CUcontext peerContext)
{
	ENTER(CALL_CONTEXT);
	return peer_check(peerContext, CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
}

CUresult cuCtxResetPersistingL2Cache(void)
{
	ENTER(CALL_CONTEXT);
	return CUDA_SUCCESS;
}
