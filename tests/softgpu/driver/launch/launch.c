/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel launches: checked and copied at the call, run by the stream.
 *
 * kernel_run() runs in streams' threads without the driver's lock, the rest in
 * any thread under it.
 */

#include "launch.h"

#include <stdio.h>
#include <string.h>

#include "kernel_log.h"
#include "turn.h"
#include "tests/softgpu/driver/copy/texture.h"
#include "tests/softgpu/driver/graph/capture.h"
#include "tests/softgpu/driver/graph/conditional.h"
#include "tests/softgpu/driver/memory/memory.h"
#include "tests/softgpu/driver/module/module.h"
#include "tests/softgpu/driver/stream/context.h"
#include "tests/softgpu/driver/stream/event.h"
#include "tests/softgpu/driver/stream/green.h"
#include "tests/softgpu/driver/stream/stream.h"
#include "tests/softgpu/driver/stream/trigger.h"

#define BLOCK_THREADS_MAX 1024

/* As in the driver, which keeps the output of kernels until a thread synchronises. */
static pthread_mutex_t print_lock = PTHREAD_MUTEX_INITIALIZER;
static char printed[1 << 20];
static size_t n_printed;

static void print(void *user, const char *text, size_t len)
{
	(void)user;
	pthread_mutex_lock(&print_lock);
	len = MIN(len, sizeof(printed) - n_printed);
	memcpy(printed + n_printed, text, len);
	n_printed += len;
	pthread_mutex_unlock(&print_lock);
}

void print_flush(void)
{
	pthread_mutex_lock(&print_lock);
	fwrite(printed, 1, n_printed, stdout);
	fflush(stdout);
	n_printed = 0;
	pthread_mutex_unlock(&print_lock);
}

static CUresult fault_result(const struct ptx_fault *fault)
{
	switch (fault->kind) {
	case PTX_FAULT_ADDRESS:
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	case PTX_FAULT_MISALIGNED:
		return CUDA_ERROR_MISALIGNED_ADDRESS;
	case PTX_FAULT_ASSERT:
		return CUDA_ERROR_ASSERT;
	case PTX_FAULT_CANCELLED:
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_LAUNCH_FAILED;
	}
}

static void pull(void *trigger)
{
	trigger_pull(trigger);
}

CUresult kernel_run(const struct kernel_work *kernel, const struct stream *stream)
{
	uint16_t sms[SMS_MAX];
	struct ptx_launch launch = {.shared_dynamic = kernel->shared_dynamic,
		.params = kernel->params,
		.lookup = range_lookup,
		.user = stream->context->device,
		.texture = texture_lookup,
		.n_sms = sm_set_list(&kernel->sms, sms),
		.n_sms_all = driver.n_sms,
		.sms = sms,
		.cancelled = &stream->cancelled,
		.print = print,
		.conditions = kernel->conditions,
		.set_condition = condition_set,
		.on_begun = kernel->trigger ? pull : NULL,
		.begun_user = kernel->trigger};
	struct ptx_fault fault = {.kind = PTX_FAULT_NONE};
	int r;

	/* As driver 580 (driver_stack.c). */
	if (kernel->graph_stack > stream->context->limits[CU_LIMIT_STACK_SIZE] &&
		ptx_kernel_info(kernel->kernel)->has_open_stack)
		return CUDA_ERROR_LAUNCH_FAILED;
	memcpy(launch.grid, kernel->grid, sizeof(launch.grid));
	memcpy(launch.cluster, kernel->cluster, sizeof(launch.cluster));
	memcpy(launch.block, kernel->block, sizeof(launch.block));
	turn_begin(stream->context->device);
	if (driver.launch_us > 0)
		usleep(driver.launch_us);
	r = ptx_kernel_run(kernel->kernel, &launch, &fault);
	turn_end(stream->context->device);
	if (r == 0)
		return CUDA_SUCCESS;
	if (r == -EFAULT && fault.kind != PTX_FAULT_CANCELLED)
		fprintf(stderr, "softgpu: kernel %s: fault %d at 0x%llx, %s\n",
			ptx_kernel_info(kernel->kernel)->name, (int)fault.kind,
			(unsigned long long)fault.address, fault.is_write ? "write" : "read");
	if (r == -EFAULT && fault.kind == PTX_FAULT_ADDRESS)
		kernel_log_fault(stream, fault.address, fault.is_write);
	return r == -EFAULT ? fault_result(&fault) : CUDA_ERROR_LAUNCH_FAILED;
}

/* The other way of passing arguments: a buffer with the caller's layout. */
static CUresult params_from_extra(void **extra, void *params, size_t size)
{
	const void *buffer = NULL;
	size_t buffer_size = 0;

	for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
		if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
			buffer = extra[1];
		else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
			memcpy(&buffer_size, extra[1], sizeof(buffer_size));
		else
			return CUDA_ERROR_INVALID_VALUE;
	}
	if (!buffer || buffer_size < size)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(params, buffer, size);
	return CUDA_SUCCESS;
}

static CUresult params_fill(
	const struct launch *launch, const struct ptx_kernel_info *info, char *params)
{
	if (launch->extra)
		return params_from_extra(launch->extra, params, info->param_size);
	for (uint32_t i = 0; i < info->n_params; i++) {
		if (!launch->params[i])
			return CUDA_ERROR_INVALID_VALUE;
		memcpy(params + info->params[i].offset, launch->params[i], info->params[i].size);
	}
	return CUDA_SUCCESS;
}

static CUresult params_new(
	const struct launch *launch, const struct ptx_kernel_info *info, struct kernel_work *kernel)
{
	_cleanup_free_ char *params = NULL;
	CUresult result;

	kernel->params = NULL;
	kernel->params_size = 0;
	if (info->n_params == 0)
		return CUDA_SUCCESS;
	if (!launch->params == !launch->extra)
		return CUDA_ERROR_INVALID_VALUE;
	params = calloc(1, MAX(info->param_size, 1));
	if (!params)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = params_fill(launch, info, params);
	if (result != CUDA_SUCCESS)
		return result;
	kernel->params_size = info->param_size;
	kernel->params = TAKE_PTR(params);
	return CUDA_SUCCESS;
}

static CUresult shape_check(const struct launch *launch, const struct ptx_kernel_info *info,
	const struct settings *settings)
{
	static const uint32_t grid_max[3] = {2147483647, 65535, 65535};
	static const uint32_t block_max[3] = {1024, 1024, 64};
	uint64_t threads = 1;
	int dynamic_max = settings->max_dynamic_shared;

	for (int i = 0; i < 3; i++) {
		if (launch->grid[i] == 0 || launch->grid[i] > grid_max[i] ||
			launch->block[i] == 0 || launch->block[i] > block_max[i])
			return CUDA_ERROR_INVALID_VALUE;
		threads *= launch->block[i];
	}
	if (threads > BLOCK_THREADS_MAX || threads > info->max_threads)
		return CUDA_ERROR_INVALID_VALUE;
	if (dynamic_max < 0)
		dynamic_max = SHARED_DEFAULT - (int)info->shared_static;
	return (int64_t)launch->shared_dynamic > dynamic_max ? CUDA_ERROR_INVALID_VALUE
							     : CUDA_SUCCESS;
}

/* The cluster size of the kernel itself; that of the launch is checked with it. */
static CUresult cluster_check(const struct launch *launch, const struct ptx_kernel_info *info)
{
	if (info->cluster[0] == 0)
		return CUDA_SUCCESS;
	for (unsigned i = 0; i < 3; i++)
		if (launch->grid[i] % info->cluster[i] ||
			(launch->cluster[0] && launch->cluster[i] != info->cluster[i]))
			return CUDA_ERROR_INVALID_CLUSTER_SIZE;
	return CUDA_SUCCESS;
}

static CUresult cooperative_check(CUfunction function, const uint32_t grid[3],
	const uint32_t block[3], uint32_t shared_dynamic, unsigned n_sms)
{
	uint64_t n_blocks = (uint64_t)grid[0] * grid[1] * grid[2];
	int blocks;
	CUresult result =
		launch_occupancy(function, block[0] * block[1] * block[2], shared_dynamic, &blocks);

	if (result != CUDA_SUCCESS)
		return result;
	return n_blocks > (uint64_t)blocks * n_sms ? CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE
						   : CUDA_SUCCESS;
}

CUresult launch_fits(const struct kernel_work *kernel)
{
	return kernel->is_cooperative
		       ? cooperative_check(kernel->function, kernel->grid, kernel->block,
				 kernel->shared_dynamic, sm_set_count(&kernel->sms))
		       : CUDA_SUCCESS;
}

CUresult launch_work(const struct launch *launch, struct context *context, struct green *green,
	struct work *ret_work)
{
	struct kernel_work *kernel = &ret_work->kernel;
	const struct ptx_kernel_info *info;
	struct function *function;
	CUresult result = function_get(launch->function, context, &function);

	if (result != CUDA_SUCCESS)
		return result;
	info = ptx_kernel_info(function->kernel);
	result = shape_check(launch, info, function->settings);
	if (result == CUDA_SUCCESS)
		result = cluster_check(launch, info);
	kernel->sms = green_sms(green);
	if (result == CUDA_SUCCESS && launch->is_cooperative)
		result = cooperative_check(launch->function, launch->grid, launch->block,
			launch->shared_dynamic, sm_set_count(&kernel->sms));
	if (result == CUDA_SUCCESS)
		result = params_new(launch, info, kernel);
	if (result != CUDA_SUCCESS)
		return result;
	kernel->module = function->module;
	module_ref(kernel->module);
	kernel->kernel = function->kernel;
	kernel->function = (CUfunction)function;
	kernel->handle = function_kernel(function);
	kernel->conditions = NULL;
	kernel->context = green ? green_context(green) : (CUcontext)context;
	kernel->shared_dynamic = launch->shared_dynamic;
	kernel->graph_stack = 0;
	kernel->has_buffer = false;
	kernel->is_cooperative = launch->is_cooperative;
	kernel->hints = launch->hints;
	kernel->is_serialized = launch->is_serialized;
	kernel->trigger = NULL;
	memcpy(kernel->grid, launch->grid, sizeof(kernel->grid));
	memcpy(kernel->cluster, launch->cluster, sizeof(kernel->cluster));
	memcpy(kernel->block, launch->block, sizeof(kernel->block));
	ret_work->kind = WORK_KERNEL;
	return CUDA_SUCCESS;
}

/* Like the real driver, which grows the memory of all kernels when no kernel runs. */
static CUresult local_make_room(const struct launch *launch, struct context *context)
{
	struct function *function;
	CUresult result = function_get(launch->function, context, &function);
	size_t local;

	if (result != CUDA_SUCCESS)
		return CUDA_SUCCESS;
	local = ptx_kernel_info(function->kernel)->local_size;
	if (local <= MAX(context->limits[CU_LIMIT_STACK_SIZE], context->local_most))
		return CUDA_SUCCESS;
	context->local_most = local;
	return device_wait(context->device);
}

static CUresult launch_record(
	const struct launch *launch, struct stream *stream, struct trigger *trigger)
{
	if (stream->capture)
		return capture_launched(stream, launch);
	if (launch->programmatic)
		event_launched(launch->programmatic, stream, NULL);
	if (launch->completion)
		event_launched(launch->completion, stream, trigger);
	return CUDA_SUCCESS;
}

static CUresult launch_recording(
	const struct launch *launch, struct stream *stream, struct work *work)
{
	struct trigger *trigger = trigger_new();
	CUresult result;

	if (!trigger) {
		work_fini(work);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (launch->completion && !stream->capture)
		work->kernel.trigger = trigger_ref(trigger);
	result = stream_push(stream, work);
	if (result == CUDA_SUCCESS)
		result = launch_record(launch, stream, trigger);
	trigger_unref(trigger);
	return result;
}

CUresult launch_push(const struct launch *launch, CUstream handle)
{
	struct stream *stream;
	struct work work;
	CUresult result = stream_get(handle, &stream);

	if (!launch->function)
		return CUDA_ERROR_INVALID_HANDLE;
	if (result == CUDA_SUCCESS && launch->is_of_node && !stream->capture)
		result = CUDA_ERROR_NOT_SUPPORTED;
	if (result == CUDA_SUCCESS)
		result = local_make_room(launch, stream->context);
	if (result == CUDA_SUCCESS)
		result = launch_work(launch, stream->context, stream->green, &work);
	if (result != CUDA_SUCCESS)
		return result;
	stat_add(STAT_LAUNCHES, 1);
	return launch->programmatic || launch->completion ? launch_recording(launch, stream, &work)
							  : stream_push(stream, &work);
}

ENTER_STREAM(cuLaunchKernel,
	(CUfunction f, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
		unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void **params,
		void **extra),
	launch_push(&(struct launch){.function = f,
			    .grid = {grid_x, grid_y, grid_z},
			    .block = {block_x, block_y, block_z},
			    .shared_dynamic = shared,
			    .params = params,
			    .extra = extra},
		stream))

ENTER_STREAM(cuLaunchCooperativeKernel,
	(CUfunction f, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
		unsigned block_y, unsigned block_z, unsigned shared, CUstream stream,
		void **params),
	launch_push(&(struct launch){.function = f,
			    .grid = {grid_x, grid_y, grid_z},
			    .block = {block_x, block_y, block_z},
			    .shared_dynamic = shared,
			    .is_cooperative = true,
			    .params = params},
		stream))

static CUresult launch_event(CUevent handle, int flags, struct event **ret_event)
{
	CUresult result = event_get(handle, ret_event);

	return result == CUDA_SUCCESS ? event_check_launch(*ret_event, flags) : result;
}

/* All zeros: the kernel's own size. */
static bool cluster_is_ok(const struct launch *launch, const CUlaunchAttribute *attribute)
{
	const uint32_t size[3] = {attribute->value.clusterDim.x, attribute->value.clusterDim.y,
		attribute->value.clusterDim.z};

	if (!size[0] && !size[1] && !size[2])
		return true;
	for (unsigned i = 0; i < 3; i++)
		if (size[i] == 0 || launch->grid[i] % size[i])
			return false;
	return true;
}

CUresult launch_hint(
	struct kernel_hints *hints, CUlaunchAttributeID name, const CUlaunchAttributeValue *value)
{
	switch (name) {
	case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
		hints->window = value->accessPolicyWindow;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
		hints->policy = value->clusterSchedulingPolicyPreference;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_PRIORITY:
		hints->priority = MIN(MAX(value->priority, STREAM_PRIORITY_GREATEST), 0);
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
		hints->domains = value->memSyncDomainMap;
		hints->has_domains = true;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
		if ((unsigned)value->memSyncDomain > CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE)
			return CUDA_ERROR_INVALID_VALUE;
		hints->domain = value->memSyncDomain;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		if ((int)value->sharedMemCarveout < -1 || (int)value->sharedMemCarveout > 100)
			return CUDA_ERROR_INVALID_VALUE;
		hints->carveout = value->sharedMemCarveout;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_NOT_FOUND;
	}
}

/* Attributes of a launch that change no result are accepted and ignored. */
static CUresult launch_attribute(struct launch *launch, const CUlaunchAttribute *attribute)
{
	CUresult result;

	switch (attribute->id) {
	case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
		launch->preferred_cluster[0] = attribute->value.preferredClusterDim.x;
		launch->preferred_cluster[1] = attribute->value.preferredClusterDim.y;
		launch->preferred_cluster[2] = attribute->value.preferredClusterDim.z;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
		launch->is_cooperative = attribute->value.cooperative != 0;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
		if (!cluster_is_ok(launch, attribute))
			return CUDA_ERROR_INVALID_CLUSTER_SIZE;
		launch->cluster[0] = attribute->value.clusterDim.x;
		launch->cluster[1] = attribute->value.clusterDim.y;
		launch->cluster[2] = attribute->value.clusterDim.z;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
		launch->is_serialized = attribute->value.programmaticStreamSerializationAllowed;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
		launch->triggers_at_start = attribute->value.programmaticEvent.triggerAtBlockStart;
		return launch_event(attribute->value.programmaticEvent.event,
			attribute->value.programmaticEvent.flags, &launch->programmatic);
	case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
		return launch_event(attribute->value.launchCompletionEvent.event,
			attribute->value.launchCompletionEvent.flags, &launch->completion);
	case CU_LAUNCH_ATTRIBUTE_IGNORE:
	case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
		launch->is_of_node = true;
		return attribute->value.deviceUpdatableKernelNode.deviceUpdatable
			       ? CUDA_ERROR_NOT_SUPPORTED
			       : CUDA_SUCCESS;
	default:
		result = launch_hint(&launch->hints, attribute->id, &attribute->value);
		return result == CUDA_ERROR_NOT_FOUND ? CUDA_ERROR_INVALID_VALUE : result;
	}
}

/* It has no effect, but must consist of clusters of the launch. */
static bool preferred_cluster_is_ok(const struct launch *launch)
{
	const uint32_t *preferred = launch->preferred_cluster, *cluster = launch->cluster;

	if (!preferred[0] && !preferred[1] && !preferred[2])
		return true;
	for (unsigned i = 0; i < 3; i++)
		if (!preferred[i] || !cluster[i] || preferred[i] % cluster[i] ||
			launch->grid[i] % preferred[i])
			return false;
	return true;
}

static CUresult launch_ex(
	const CUlaunchConfig *config, CUfunction f, void **params, void **extra, bool is_per_thread)
{
	struct launch launch;
	CUstream handle;
	CUresult result;

	if (!config || (config->numAttrs > 0 && !config->attrs))
		return CUDA_ERROR_INVALID_VALUE;
	handle = config->hStream || !is_per_thread ? config->hStream : CU_STREAM_PER_THREAD;
	launch = (struct launch){.function = f,
		.grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
		.block = {config->blockDimX, config->blockDimY, config->blockDimZ},
		.shared_dynamic = config->sharedMemBytes,
		.params = params,
		.extra = extra};
	for (unsigned i = 0; i < config->numAttrs; i++) {
		result = launch_attribute(&launch, &config->attrs[i]);
		if (result != CUDA_SUCCESS)
			return result;
	}
	if (!preferred_cluster_is_ok(&launch))
		return CUDA_ERROR_INVALID_CLUSTER_SIZE;
	return launch_push(&launch, handle);
}

CUresult cuLaunchKernelEx(
	const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra)
{
	ENTER(CALL_ALIVE);
	return launch_ex(config, f, kernelParams, extra, false);
}

CUresult cuLaunchKernelEx_ptsz(
	const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra)
{
	ENTER(CALL_ALIVE);
	return launch_ex(config, f, kernelParams, extra, true);
}
