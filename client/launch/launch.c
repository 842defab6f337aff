/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Launching kernels: checks, then one message. Any thread of the application.
 *
 * Invariant: what the driver would refuse at the call is refused here, with the
 * same result. A launch allocates no memory and waits only for space in the ring,
 * unless the program wants blocking launches.
 */

#include "launch.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "calls_launch.h"
#include "occupancy.h"
#include "client/util/number.h"
#include "client/transport/route.h"
#include "client/transport/server_link.h"
#include "client/context/share.h"
#include "client/stream/printf_output.h"
#include "client/stream/recorder.h"
#include "client/stream/stream.h"
#include "send_launch.h"

/* Up to this size parameters are gathered on the stack of every launch. */
#define PARAMS_USUAL 4096

/* Every GPU supports clusters of so many blocks; larger ones need the kernel's permission. */
#define CLUSTER_PORTABLE 8
#define CLUSTER_LARGEST 16

/* The preferred part of shared memory, in percent. */
#define CARVEOUT_DEFAULT (-1)
#define CARVEOUT_MAX 100

static atomic_bool is_blocking;

void launch_init(void)
{
	const char *value = secure_getenv("CUDA_LAUNCH_BLOCKING");
	bool is_wanted = false;

	if (value) {
		value += strspn(value, " \t\n\v\f\r");
		value += *value == '-' || *value == '+';
		is_wanted = number_read(&value, 10) != 0;
	}
	atomic_store_explicit(&is_blocking, is_wanted, memory_order_relaxed);
}

static bool shape_fits(
	const uint32_t shape[3], const int32_t *attribute, CUdevice_attribute x_attribute)
{
	/* The attributes of the limits of x, y and z are consecutive. */
	for (unsigned i = 0; i < 3; i++)
		if (shape[i] == 0 || shape[i] > (uint32_t)attribute[x_attribute + i])
			return false;
	return true;
}

/* A kernel may define the size of its clusters, whatever the launch says. */
static bool cluster_divides(const uint32_t grid[3], const struct kernel *kernel)
{
	for (unsigned i = 0; i < 3; i++) {
		int32_t size = kernel->attributes[CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH + i];

		if (size > 0 && grid[i] % (uint32_t)size != 0)
			return false;
	}
	return true;
}

/* The driver's own results: 701 only if a GPU's registers do not suffice. */
static CUresult launch_shape_check(
	const struct launch *launch, const struct kernel *kernel, const struct device *device)
{
	const int32_t *attribute = device_facts(device)->attribute;
	uint64_t threads = (uint64_t)launch->block[0] * launch->block[1] * launch->block[2];

	if (!shape_fits(launch->grid, attribute, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X) ||
		!shape_fits(launch->block, attribute, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X))
		return CUDA_ERROR_INVALID_VALUE;
	if (threads > (uint64_t)attribute[CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK])
		return CUDA_ERROR_INVALID_VALUE;
	if (threads > (uint64_t)kernel->attributes[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK])
		return threads * (uint64_t)kernel->attributes[CU_FUNC_ATTRIBUTE_NUM_REGS] >
				       (uint64_t)attribute
					       [CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK]
			       ? CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES
			       : CUDA_ERROR_INVALID_VALUE;
	if (launch->shared_bytes >
		(uint32_t)kernel->attributes[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES])
		return CUDA_ERROR_INVALID_VALUE;
	if (unlikely(kernel->attributes[CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH] > 0) &&
		!cluster_divides(launch->grid, kernel))
		return CUDA_ERROR_INVALID_CLUSTER_SIZE;
	return CUDA_SUCCESS;
}

static CUresult cluster_check(const struct launch *launch, const struct kernel *kernel)
{
	const uint32_t *cluster = launch->attrs.cluster;
	uint64_t blocks = 1;
	uint32_t most = kernel->attributes[CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED]
				? CLUSTER_LARGEST
				: CLUSTER_PORTABLE;

	for (unsigned i = 0; i < 3; i++) {
		if (cluster[i] == 0 || cluster[i] > most || launch->grid[i] % cluster[i] != 0)
			return CUDA_ERROR_INVALID_CLUSTER_SIZE;
		blocks *= cluster[i];
	}
	return blocks <= most ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CLUSTER_SIZE;
}

/* The blocks wait for each other, so all of them must fit at the same time. */
static CUresult cooperative_check(
	const struct launch *launch, struct kernel *kernel, const struct device *device)
{
	uint64_t n_fit = share_sms(device);
	uint32_t blocks = 0;
	CUresult result = occupancy_blocks(kernel, device,
		launch->block[0] * launch->block[1] * launch->block[2], launch->shared_bytes,
		&blocks);

	if (result != CUDA_SUCCESS)
		return result;
	n_fit *= blocks;
	/* Uses division: the product of three dimensions may exceed 64 bits. */
	for (unsigned i = 0; i < 3; i++)
		n_fit /= launch->grid[i];
	return n_fit > 0 ? CUDA_SUCCESS : CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
}

static CUresult attrs_check(
	const struct launch *launch, struct kernel *kernel, const struct device *device)
{
	CUresult result = CUDA_SUCCESS;

	if (launch->attrs.attr_mask & WIRE_LAUNCH_ATTR_CLUSTER)
		result = cluster_check(launch, kernel);
	if (result == CUDA_SUCCESS && (launch->attrs.attr_mask & WIRE_LAUNCH_ATTR_COOPERATIVE))
		result = cooperative_check(launch, kernel, device);
	return result;
}

CUresult launch_check(
	const struct launch *launch, struct kernel *kernel, const struct device *device)
{
	CUresult result = launch_shape_check(launch, kernel, device);

	if (unlikely(launch->attrs.attr_mask) && result == CUDA_SUCCESS)
		result = attrs_check(launch, kernel, device);
	return result;
}

/* Copies each parameter from its own pointer to its offset. */
static CUresult gather_params(const struct kernel *kernel, void *const *from, uint8_t *ret_params)
{
	if (kernel->n_params > 0 && !from)
		return CUDA_ERROR_INVALID_VALUE;
	memset(ret_params, 0, kernel->param_bytes);
	for (uint32_t i = 0; i < kernel->n_params; i++) {
		const struct param_layout *layout = &kernel->params[i];

		if (!from[i])
			return CUDA_ERROR_INVALID_VALUE;
		memcpy(ret_params + layout->offset, from[i], layout->size);
	}
	return CUDA_SUCCESS;
}

/*
 * A list of pairs of a name and a value: all parameters are in one buffer. The
 * driver accepts a buffer that is too short, and refuses one that is too long.
 */
static CUresult take_params(const struct kernel *kernel, void *const *extra, uint8_t *ret_params)
{
	const void *buffer = NULL;
	size_t size = 0;

	for (; extra[0] != CU_LAUNCH_PARAM_END; extra += 2) {
		if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
			buffer = extra[1];
		else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE)
			size = *(const size_t *)extra[1];
		else
			return CUDA_ERROR_INVALID_VALUE;
	}
	if (size > 0 && !buffer)
		return CUDA_ERROR_INVALID_VALUE;
	if (size > kernel->param_bytes)
		return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
	memset(ret_params, 0, kernel->param_bytes);
	if (size > 0)
		memcpy(ret_params, buffer, size);
	return CUDA_SUCCESS;
}

CUresult launch_params(const struct kernel *kernel, void *const *kernelParams, void *const *extra,
	uint8_t *ret_params)
{
	if (unlikely(kernelParams && extra))
		return CUDA_ERROR_INVALID_VALUE;
	return extra ? take_params(kernel, extra, ret_params)
		     : gather_params(kernel, kernelParams, ret_params);
}

static uint32_t event_id_or_0(const struct event *event)
{
	return event ? event_id(event) : 0;
}

static __attribute__((noinline)) CUresult launch_send_with(const struct launch *launch,
	struct stream *stream, const struct kernel *kernel, const uint8_t *params)
{
	static const struct launch_events none;
	const struct launch_events *records = launch->events ? launch->events : &none;
	const struct launch_attrs *attrs = &launch->attrs;
	CUresult result = send_launch_with(stream_id(stream), kernel_id(kernel), launch->grid,
		launch->block, launch->shared_bytes, attrs->attr_mask, attrs->cluster,
		attrs->cluster_policy, attrs->priority, event_id_or_0(records->programmatic),
		event_id_or_0(records->completion), params, kernel->param_bytes);

	if (result != CUDA_SUCCESS)
		return result;
	if (records->programmatic)
		event_launched(records->programmatic, stream);
	if (records->completion)
		event_launched(records->completion, stream);
	return CUDA_SUCCESS;
}

static CUresult launch_send(const struct launch *launch, struct stream *stream,
	const struct kernel *kernel, const uint8_t *params)
{
	if (likely(!launch->attrs.attr_mask))
		return send_launch(stream_id(stream), kernel_id(kernel), launch->grid,
			launch->block, launch->shared_bytes, params, kernel->param_bytes);
	return launch_send_with(launch, stream, kernel, params);
}

/* CUDA_LAUNCH_BLOCKING=1: when a launch returns, its kernel has ended and its error is reported. */
static __attribute__((cold, noinline)) CUresult launch_wait(struct stream *stream)
{
	CUresult result = stream_wait(stream);

	return result == CUDA_SUCCESS ? server_link_late_error(&server) : result;
}

/* A launch, without space for the parameters. */
static inline CUresult launch_by(const struct launch *launch, struct context *context,
	struct kernel *kernel, void **kernelParams, void **extra, uint8_t *params)
{
	struct stream *stream;
	bool captures;
	CUresult result;

	result = launch_params(kernel, kernelParams, extra, params);
	if (likely(result == CUDA_SUCCESS))
		result = stream_resolve(context, launch->stream, &stream);
	if (unlikely(result != CUDA_SUCCESS))
		return result;
	if (unlikely(stream->device != context->device->index))
		return CUDA_ERROR_INVALID_HANDLE;
	result = recorder_look(stream, &captures);
	if (unlikely(captures))
		return recorder.kernel(stream, launch, kernel, params);
	if (unlikely(result != CUDA_SUCCESS))
		return result;
	result = launch_send(launch, stream, kernel, params);
	if (likely(result == CUDA_SUCCESS))
		stream_issued(stream);
	if (unlikely(kernel->prints))
		printf_output_expect();
	if (unlikely(atomic_load_explicit(&is_blocking, memory_order_relaxed)) &&
		result == CUDA_SUCCESS)
		result = launch_wait(stream);
	return result;
}

/* A separate function, so that only kernels with many parameters use so much stack. */
static __attribute__((noinline)) CUresult launch_large(const struct launch *launch,
	struct context *context, struct kernel *kernel, void **kernelParams, void **extra)
{
	uint8_t params[WIRE_PARAMS_MAX];

	return launch_by(launch, context, kernel, kernelParams, extra, params);
}

static _hot_ CUresult launch_post(
	const struct launch *launch, CUfunction function, void **kernelParams, void **extra)
{
	struct kernel *kernel = kernel_find(function);
	uint8_t params[PARAMS_USUAL];
	struct context *context;
	CUresult result = context_enter(&context);

	if (unlikely(result != CUDA_SUCCESS))
		return result;
	if (unlikely(!kernel))
		return CUDA_ERROR_INVALID_HANDLE;
	if (unlikely(kernelParams && extra))
		return CUDA_ERROR_INVALID_VALUE;
	result = launch_check(launch, kernel, context->device);
	if (likely(result == CUDA_SUCCESS))
		result = kernel_measure(kernel);
	if (unlikely(result != CUDA_SUCCESS))
		return result;
	if (unlikely(kernel->param_bytes > sizeof(params)))
		return launch_large(launch, context, kernel, kernelParams, extra);
	return launch_by(launch, context, kernel, kernelParams, extra, params);
}

CUresult local_cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
	unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
	unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream, void **kernelParams,
	void **extra)
{
	const struct launch launch = {
		.grid = {gridDimX, gridDimY, gridDimZ},
		.block = {blockDimX, blockDimY, blockDimZ},
		.shared_bytes = sharedMemBytes,
		.stream = hStream,
	};

	return launch_post(&launch, f, kernelParams, extra);
}

CUresult local_cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
	unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
	unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream, void **kernelParams)
{
	const struct launch launch = {
		.grid = {gridDimX, gridDimY, gridDimZ},
		.block = {blockDimX, blockDimY, blockDimZ},
		.shared_bytes = sharedMemBytes,
		.stream = hStream,
		.attrs = {.attr_mask = WIRE_LAUNCH_ATTR_COOPERATIVE},
	};

	return launch_post(&launch, f, kernelParams, NULL);
}

static void attribute_flag(struct launch_attrs *attrs, uint32_t flag, bool is_set)
{
	attrs->attr_mask = is_set ? attrs->attr_mask | flag : attrs->attr_mask & ~flag;
}

/* All zeros: the kernel's own size. */
static CUresult attribute_cluster(struct launch_attrs *attrs, uint32_t x, uint32_t y, uint32_t z)
{
	bool is_set = x || y || z;

	if (is_set && (x == 0 || y == 0 || z == 0))
		return CUDA_ERROR_INVALID_CLUSTER_SIZE;
	attribute_flag(attrs, WIRE_LAUNCH_ATTR_CLUSTER, is_set);
	attrs->cluster[0] = x;
	attrs->cluster[1] = y;
	attrs->cluster[2] = z;
	return CUDA_SUCCESS;
}

static CUresult hint_check(int value, int least, int greatest)
{
	return value >= least && value <= greatest ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* The results of driver 580. */
static CUresult attribute_event(CUevent handle, int flags, struct event **ret_event)
{
	struct event *event = slab_find(&events, handle);

	if (!event || (context_current && event->context->device != context_current->device))
		return CUDA_ERROR_INVALID_HANDLE;
	if (flags)
		return flags == CU_EVENT_RECORD_EXTERNAL ? CUDA_ERROR_ILLEGAL_STATE
							 : CUDA_ERROR_INVALID_VALUE;
	if (!(event->flags & CU_EVENT_DISABLE_TIMING) || (event->flags & CU_EVENT_INTERPROCESS))
		return CUDA_ERROR_NOT_SUPPORTED;
	*ret_event = event;
	return CUDA_SUCCESS;
}

/* What only launches have. */
static CUresult stream_attribute_read(CUlaunchAttributeID name, const CUlaunchAttributeValue *value,
	struct launch_attrs *attrs, struct launch_hints *hints, struct launch_events *ret_events)
{
	switch (name) {
	case CU_LAUNCH_ATTRIBUTE_IGNORE:
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
		hints->preferred_cluster[0] = value->preferredClusterDim.x;
		hints->preferred_cluster[1] = value->preferredClusterDim.y;
		hints->preferred_cluster[2] = value->preferredClusterDim.z;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
		attribute_flag(attrs, WIRE_LAUNCH_ATTR_SERIALIZATION,
			value->programmaticStreamSerializationAllowed);
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
		attrs->attr_mask |= WIRE_LAUNCH_ATTR_PROGRAMMATIC_EVENT;
		attribute_flag(attrs, WIRE_LAUNCH_ATTR_TRIGGER_AT_START,
			value->programmaticEvent.triggerAtBlockStart);
		return attribute_event(value->programmaticEvent.event,
			value->programmaticEvent.flags, &ret_events->programmatic);
	case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
		attrs->attr_mask |= WIRE_LAUNCH_ATTR_COMPLETION_EVENT;
		return attribute_event(value->launchCompletionEvent.event,
			value->launchCompletionEvent.flags, &ret_events->completion);
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

/* Hints may be ignored; attributes that change what a launch does may not. */
CUresult launch_attribute_read(CUlaunchAttributeID name, const CUlaunchAttributeValue *value,
	struct launch_attrs *attrs, struct launch_hints *hints, struct launch_events *ret_events)
{
	switch (name) {
	case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
		hints->window = value->accessPolicyWindow;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
		hints->domains = value->memSyncDomainMap;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		hints->carveout = value->sharedMemCarveout;
		return hint_check((int)value->sharedMemCarveout, CARVEOUT_DEFAULT, CARVEOUT_MAX);
	case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
		return hint_check((int)value->nvlinkUtilCentricScheduling, 0, 1);
	case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
		attribute_flag(attrs, WIRE_LAUNCH_ATTR_COOPERATIVE, value->cooperative);
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
		return attribute_cluster(
			attrs, value->clusterDim.x, value->clusterDim.y, value->clusterDim.z);
	case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
		attrs->attr_mask |= WIRE_LAUNCH_ATTR_CLUSTER_POLICY;
		attrs->cluster_policy = (uint32_t)value->clusterSchedulingPolicyPreference;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_PRIORITY:
		attrs->attr_mask |= WIRE_LAUNCH_ATTR_PRIORITY;
		attrs->priority = value->priority;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
		if ((unsigned)value->memSyncDomain > CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE)
			return CUDA_ERROR_INVALID_VALUE;
		attribute_flag(attrs, WIRE_LAUNCH_ATTR_REMOTE_DOMAIN,
			value->memSyncDomain == CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE);
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
		hints->is_of_node = true;
		return value->deviceUpdatableKernelNode.deviceUpdatable
			       ? refuse("cuLaunchKernelEx",
					 "kernels cannot change nodes of graphs: "
					 "their handle of a node is memory of the server")
			       : CUDA_SUCCESS;
	default:
		return ret_events ? stream_attribute_read(name, value, attrs, hints, ret_events)
				  : CUDA_ERROR_INVALID_VALUE;
	}
}

/* Such clusters consist of clusters of the launch, whether or not the GPU forms them. */
static bool preferred_cluster_ok(
	const CUlaunchConfig *config, const struct launch_attrs *attrs, const uint32_t preferred[3])
{
	const uint32_t grid[3] = {config->gridDimX, config->gridDimY, config->gridDimZ};

	if (!preferred[0] && !preferred[1] && !preferred[2])
		return true;
	if (!(attrs->attr_mask & WIRE_LAUNCH_ATTR_CLUSTER))
		return false;
	for (unsigned i = 0; i < 3; i++)
		if (preferred[i] == 0 || preferred[i] % attrs->cluster[i] != 0 ||
			grid[i] % preferred[i] != 0)
			return false;
	return true;
}

static CUresult check_captures(CUstream handle)
{
	struct context *context;
	struct stream *stream;
	bool captures = false;
	CUresult result = context_enter(&context);

	if (result == CUDA_SUCCESS)
		result = stream_resolve(context, handle, &stream);
	if (result == CUDA_SUCCESS)
		result = recorder_look(stream, &captures);
	return result == CUDA_SUCCESS && !captures ? CUDA_ERROR_NOT_SUPPORTED : result;
}

CUresult local_cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **kernelParams,
	void **extra, CUstream implicit)
{
	struct launch_events launch_events = {0};
	struct launch_hints hints = LAUNCH_HINTS_NONE;
	struct launch_attrs attrs = {0};
	struct launch launch;

	if (!config || (config->numAttrs > 0 && !config->attrs))
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < config->numAttrs; i++) {
		CUresult result = launch_attribute_read(config->attrs[i].id,
			&config->attrs[i].value, &attrs, &hints, &launch_events);

		if (result != CUDA_SUCCESS)
			return result;
	}
	if (!preferred_cluster_ok(config, &attrs, hints.preferred_cluster))
		return CUDA_ERROR_INVALID_CLUSTER_SIZE;
	launch = (struct launch){
		.grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
		.block = {config->blockDimX, config->blockDimY, config->blockDimZ},
		.shared_bytes = config->sharedMemBytes,
		.stream = config->hStream ? config->hStream : implicit,
		.attrs = attrs,
		.hints = &hints,
	};
	if (launch_events.programmatic || launch_events.completion)
		launch.events = &launch_events;
	if (unlikely(hints.is_of_node)) {
		CUresult result = check_captures(launch.stream);

		if (result != CUDA_SUCCESS)
			return result;
	}
	return launch_post(&launch, f, kernelParams, extra);
}
