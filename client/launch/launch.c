/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Launching kernels: checks, then one message. Any thread of the application.
 *
 * Invariant: what the driver would refuse at the call is refused here, with the
 * same result. A launch allocates no memory and waits only for space in the ring,
 * unless the program wants blocking launches.
 */

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "client/stream/recorder.h"
#include "client.h"
#include "launch.h"
#include "client/transport/server_link.h"
#include "occupancy.h"
#include "client/transport/route.h"
#include "client/util/number.h"
#include "send.h"
#include "client/device/share.h"
#include "client/stream/stream.h"
#include "client/stream/printf_output.h"

/* Up to this size parameters are gathered on the stack of every launch. */
#define PARAMS_USUAL 4096

/* Every GPU supports clusters of so many blocks; larger ones need the kernel's permission. */
#define CLUSTER_PORTABLE 8
#define CLUSTER_LARGEST 16

static atomic_bool is_blocking;

void launch_init(void)
{
	const char *value = getenv("CUDA_LAUNCH_BLOCKING");
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
	uint64_t room = share_sms(device);
	uint32_t blocks = 0;
	CUresult result = occupancy_blocks(kernel, device,
		launch->block[0] * launch->block[1] * launch->block[2], launch->shared_bytes,
		&blocks);

	if (result != CUDA_SUCCESS)
		return result;
	room *= blocks;
	/* Uses division: the product of three dimensions may exceed 64 bits. */
	for (unsigned i = 0; i < 3; i++)
		room /= launch->grid[i];
	return room > 0 ? CUDA_SUCCESS : CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
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

static CUresult launch_send(const struct launch *launch, const struct stream *stream,
	const struct kernel *kernel, const uint8_t *params)
{
	const struct launch_attrs *attrs = &launch->attrs;

	if (likely(!attrs->attr_mask))
		return send_launch(stream_id(stream), kernel_id(kernel), launch->grid,
			launch->block, launch->shared_bytes, params, kernel->param_bytes);
	return send_launch_with(stream_id(stream), kernel_id(kernel), launch->grid, launch->block,
		launch->shared_bytes, attrs->attr_mask, attrs->cluster, attrs->cluster_policy,
		attrs->priority, params, kernel->param_bytes);
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

/* Hints may be ignored; attributes that change what a launch does may not. */
CUresult launch_attribute_read(CUlaunchAttributeID name, const CUlaunchAttributeValue *value,
	bool is_node, struct launch_attrs *attrs)
{
	switch (name) {
	case CU_LAUNCH_ATTRIBUTE_IGNORE:
	case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
	case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
	case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
	case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
	case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
		attribute_flag(attrs, WIRE_LAUNCH_ATTR_COOPERATIVE, value->cooperative);
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
		attrs->attr_mask |= WIRE_LAUNCH_ATTR_CLUSTER;
		attrs->cluster[0] = value->clusterDim.x;
		attrs->cluster[1] = value->clusterDim.y;
		attrs->cluster[2] = value->clusterDim.z;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
		attrs->attr_mask |= WIRE_LAUNCH_ATTR_CLUSTER_POLICY;
		attrs->cluster_policy = (uint32_t)value->clusterSchedulingPolicyPreference;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_PRIORITY:
		attrs->attr_mask |= WIRE_LAUNCH_ATTR_PRIORITY;
		attrs->priority = value->priority;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
		attribute_flag(attrs, WIRE_LAUNCH_ATTR_REMOTE_DOMAIN,
			value->memSyncDomain == CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE);
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
		if (is_node)
			return CUDA_ERROR_INVALID_VALUE;
		attribute_flag(attrs, WIRE_LAUNCH_ATTR_SERIALIZATION,
			value->programmaticStreamSerializationAllowed);
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
	case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
		return refuse("cuLaunchKernelEx",
			"events within a launch are not supported: record them between launches");
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult local_cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **kernelParams,
	void **extra, CUstream implicit)
{
	struct launch_attrs attrs = {0};
	struct launch launch;

	if (!config || (config->numAttrs > 0 && !config->attrs))
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < config->numAttrs; i++) {
		CUresult result = launch_attribute_read(
			config->attrs[i].id, &config->attrs[i].value, false, &attrs);

		if (result != CUDA_SUCCESS)
			return result;
	}
	launch = (struct launch){
		.grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
		.block = {config->blockDimX, config->blockDimY, config->blockDimZ},
		.shared_bytes = config->sharedMemBytes,
		.stream = config->hStream ? config->hStream : implicit,
		.attrs = attrs,
	};
	return launch_post(&launch, f, kernelParams, extra);
}
