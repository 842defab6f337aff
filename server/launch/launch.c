/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Launches. The path of plain launches has to be short. A launch with others behind it in
 * the ring joins their launch batch (launch_batch.c). A worker.
 *
 * Invariant: from the ring to the driver no memory is allocated, and no lock is taken that
 * another session holds.
 */

#include "launch.h"

#include <string.h>

#include "launch_batch.h"
#include "messages.h"
#include "server/session/counting.h"
#include "server/session/session.h"
#include "server/schedule/closed_gpu.h"
#include "server/schedule/foreground.h"
#include "server/share/session_device.h"
#include "server/stream/elastic_stream.h"
#include "server/stream/event.h"
#include "server/stream/observed.h"
#include "server/stream/printf_capture.h"
#include "server/stream/stream.h"
#include "server/module/kernel.h"
#include "do_launch.h"

/* Limits of the GPU, from facts read at the start. The driver might not refuse an invalid shape. */
bool launch_shape_ok(const struct device_facts *facts, const struct device_kernel *kernel,
	const uint32_t grid[3], const uint32_t block[3], uint32_t shared_bytes)
{
	const int32_t *limit = facts->attribute;
	uint64_t threads = (uint64_t)block[0] * block[1];

	return grid[0] <= (uint32_t)limit[CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X] &&
	       grid[1] <= (uint32_t)limit[CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y] &&
	       grid[2] <= (uint32_t)limit[CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z] &&
	       block[0] <= (uint32_t)limit[CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X] &&
	       block[1] <= (uint32_t)limit[CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y] &&
	       block[2] <= (uint32_t)limit[CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z] &&
	       threads <= kernel->threads_max && threads * block[2] <= kernel->threads_max &&
	       shared_bytes <= kernel->dynamic_shared_max;
}

/* Begins on the stream anew. */
static CUresult wait_to_print(
	struct session *session, struct stream *stream, struct kernel *kernel, CUstream *ret_real)
{
	launch_batch_flush(session);
	printf_capture_wait(session, &kernel->print_history);
	return stream_begin(session, stream, ret_real);
}

/* Launches in a stream that has SMs of its own, or whose session is in the background. */
static __attribute__((noinline)) CUresult launch_apart(struct session *session,
	struct stream *stream, const struct queued_launch *launch, bool is_alone)
{
	CUresult result;

	if (!is_alone) {
		launch_batch_add(session, stream, launch);
		return CUDA_SUCCESS;
	}
	launch_batch_flush(session);
	elastic_stream_wait(session, stream, 1);
	counter_add(session, COUNTER_LAUNCHES, 1);
	result = OBSERVED(session, stream, launch_in(session, stream, launch),
		{.kind = TRACE_LAUNCH,
			.count = 1,
			.name = launch->kernel->name,
			.shape = foreground_hash(0, (uintptr_t)launch->kernel, launch->grid)});
	if (result == CUDA_SUCCESS)
		elastic_stream_note(session, stream, 1);
	return result;
}

_hot_ CUresult do_launch(struct session *session, struct stream *stream, struct kernel *kernel,
	const struct msg_launch *msg, const void *params)
{
	struct queued_launch queued = {
		.kernel = kernel,
		.grid = {msg->grid[0], msg->grid[1], msg->grid[2]},
		.block = {msg->block[0], msg->block[1], msg->block[2]},
		.shared_bytes = msg->shared_bytes,
		.params = params,
	};
	const struct device_kernel *found;
	struct launch_batch *batch = session->batch;
	CUstream real;
	CUresult result;

	if (batch->n > 0 && batch->stream != stream)
		launch_batch_flush(session);
	result = stream_begin(session, stream, &real);
	if (result == CUDA_SUCCESS)
		result = kernel_find(session, kernel, stream->sdev, &found);
	if (unlikely(result != CUDA_SUCCESS))
		return result;
	if (unlikely(msg->params_size < kernel->param_bytes) ||
		unlikely(!launch_shape_ok(
			&stream->device->facts, found, msg->grid, msg->block, msg->shared_bytes)))
		return CUDA_ERROR_INVALID_VALUE;
	result = kernel_ready(session, kernel, stream->sdev, found);
	if (unlikely(result != CUDA_SUCCESS))
		return result;
	if (unlikely(kernel->prints) && !printf_capture_begin(session, &kernel->print_history))
		result = wait_to_print(session, stream, kernel, &real);
	if (unlikely(result != CUDA_SUCCESS))
		return result;
	last_launch_note(&session->last_launch, kernel->name);
	queued.function = found->function;
	queued.params_size = kernel->param_bytes;
	/*
	 * A launch batch has all SMs of the session. And in a graph the driver does not make a
	 * parent wait for what the parent before it launches last (cudaStreamTailLaunch).
	 */
	batch->lone = batch->n == 0 ? stream : NULL;
	batch->lone_at = session->n_messages;
	if (unlikely(stream->is_apart))
		return launch_apart(session, stream, &queued,
			found->is_clustered || stream->green || kernel->is_parent);
	if (found->is_clustered || unlikely(kernel->is_parent) ||
		(batch->n == 0 && !ring_has_next(&session->receiver) &&
			!launch_batch_hold(session, stream, &queued))) {
		launch_batch_flush(session);
		counter_add(session, COUNTER_LAUNCHES, 1);
		return OBSERVED(session, stream,
			LAUNCHING(session, stream->device, launch_alone(&queued, real)),
			{.kind = TRACE_LAUNCH,
				.count = 1,
				.name = kernel->name,
				.shape = foreground_hash(0, (uintptr_t)kernel, queued.grid)});
	}
	launch_batch_add(session, stream, &queued);
	return CUDA_SUCCESS;
}

/* No GPU has larger clusters. The driver decides which of the smaller ones a GPU has. */
#define CLUSTER_BLOCKS_MAX 16

bool launch_cluster_ok(const uint32_t grid[3], const uint32_t cluster[3])
{
	uint64_t blocks = (uint64_t)cluster[0] * cluster[1] * cluster[2];

	return blocks > 0 && blocks <= CLUSTER_BLOCKS_MAX && grid[0] % cluster[0] == 0 &&
	       grid[1] % cluster[1] == 0 && grid[2] % cluster[2] == 0;
}

unsigned launch_attributes(CUlaunchAttribute attributes[LAUNCH_ATTRIBUTES_MAX], uint32_t attr_mask,
	const uint32_t cluster[3], uint32_t cluster_policy, int32_t priority)
{
	CUlaunchAttribute *next = attributes;

	memset(attributes, 0, LAUNCH_ATTRIBUTES_MAX * sizeof(*attributes));
	if (attr_mask & WIRE_LAUNCH_ATTR_COOPERATIVE) {
		next->id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
		next++->value.cooperative = 1;
	}
	if (attr_mask & WIRE_LAUNCH_ATTR_CLUSTER) {
		next->id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
		next->value.clusterDim.x = cluster[0];
		next->value.clusterDim.y = cluster[1];
		next++->value.clusterDim.z = cluster[2];
	}
	if (attr_mask & WIRE_LAUNCH_ATTR_CLUSTER_POLICY) {
		next->id = CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE;
		next++->value.clusterSchedulingPolicyPreference =
			(CUclusterSchedulingPolicy)cluster_policy;
	}
	if (attr_mask & WIRE_LAUNCH_ATTR_PRIORITY) {
		next->id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
		next++->value.priority = priority;
	}
	if (attr_mask & WIRE_LAUNCH_ATTR_REMOTE_DOMAIN) {
		next->id = CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN;
		next++->value.memSyncDomain = CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE;
	}
	return (unsigned)(next - attributes);
}

/* The events that a launch records; NULL: none. */
struct launch_events {
	struct event *programmatic, *completion;
};

/* The driver records such events only without timing, and within its process. */
static CUresult find_event(struct session *session, const struct stream *stream, bool is_wanted,
	uint32_t id, struct event **ret_event)
{
	struct event *event = is_wanted ? session_event(session, id) : NULL;

	*ret_event = event;
	if (!is_wanted)
		return CUDA_SUCCESS;
	if (!event)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!(event->flags & CU_EVENT_DISABLE_TIMING) || event->user)
		return CUDA_ERROR_INVALID_VALUE;
	return event_make(event, stream->sdev);
}

static CUresult find_events(struct session *session, const struct stream *stream,
	uint32_t attr_mask, uint32_t programmatic, uint32_t completion,
	struct launch_events *ret_events)
{
	CUresult result =
		find_event(session, stream, attr_mask & WIRE_LAUNCH_ATTR_PROGRAMMATIC_EVENT,
			programmatic, &ret_events->programmatic);

	return result == CUDA_SUCCESS
		       ? find_event(session, stream, attr_mask & WIRE_LAUNCH_ATTR_COMPLETION_EVENT,
				 completion, &ret_events->completion)
		       : result;
}

/* What only a launch has. The stream's GPU is current. Returns the number of attributes. */
static unsigned stream_attributes(
	CUlaunchAttribute *attributes, uint32_t attr_mask, const struct launch_events *events)
{
	CUlaunchAttribute *next = attributes;

	if (attr_mask & WIRE_LAUNCH_ATTR_SERIALIZATION) {
		next->id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
		next++->value.programmaticStreamSerializationAllowed = 1;
	}
	if (events->programmatic) {
		next->id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT;
		next->value.programmaticEvent.event = events->programmatic->real;
		next++->value.programmaticEvent.triggerAtBlockStart =
			(attr_mask & WIRE_LAUNCH_ATTR_TRIGGER_AT_START) != 0;
	}
	if (events->completion) {
		next->id = CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT;
		next++->value.launchCompletionEvent.event = events->completion->real;
	}
	return (unsigned)(next - attributes);
}

/* A later wait for an event looks whether this stream is blocked. */
static void events_note(const struct launch_events *events, const struct stream *stream)
{
	if (events->programmatic)
		events->programmatic->stream = stream->id;
	if (events->completion)
		events->completion->stream = stream->id;
}

/* Prepares everything for a plain launch, and makes the stream ready for it. */
static CUresult launch_prepare(struct session *session, struct stream *stream,
	struct kernel *kernel, CUlaunchConfig *config, const struct device_kernel **ret_found)
{
	const uint32_t grid[3] = {config->gridDimX, config->gridDimY, config->gridDimZ};
	const uint32_t block[3] = {config->blockDimX, config->blockDimY, config->blockDimZ};
	CUresult result = stream_begin(session, stream, &config->hStream);

	if (result == CUDA_SUCCESS)
		result = kernel_find(session, kernel, stream->sdev, ret_found);
	if (result != CUDA_SUCCESS)
		return result;
	return launch_shape_ok(
		       &stream->device->facts, *ret_found, grid, block, config->sharedMemBytes)
		       ? kernel_ready(session, kernel, stream->sdev, *ret_found)
		       : CUDA_ERROR_INVALID_VALUE;
}

static CUresult launch_configured(struct session *session, struct stream *stream,
	CUlaunchConfig *config, CUfunction function, void **extra)
{
	CUresult result = LAUNCHING(
		session, stream->device, cuda.cuLaunchKernelEx(config, function, NULL, extra));

	if (!elastic_stream_has_to_retry(session, stream, result))
		return result;
	config->hStream = stream->real;
	return LAUNCHING(
		session, stream->device, cuda.cuLaunchKernelEx(config, function, NULL, extra));
}

CUresult do_launch_with(struct session *session, struct stream *stream, struct kernel *kernel,
	const struct msg_launch_with *msg, const void *params)
{
	CUlaunchAttribute attributes[LAUNCH_ATTRIBUTES_MAX];
	CUlaunchConfig config = {msg->grid[0], msg->grid[1], msg->grid[2], msg->block[0],
		msg->block[1], msg->block[2], msg->shared_bytes, NULL, attributes, 0};
	struct kernel_extra extra;
	const struct device_kernel *found;
	struct launch_events events;
	CUresult result;

	if ((msg->attr_mask & WIRE_LAUNCH_ATTR_CLUSTER) &&
		!launch_cluster_ok(msg->grid, msg->cluster))
		return CUDA_ERROR_INVALID_CLUSTER_SIZE;
	elastic_stream_wait(session, stream, 1);
	result = launch_prepare(session, stream, kernel, &config, &found);
	if (result != CUDA_SUCCESS)
		return result;
	if (msg->params_size < kernel->param_bytes)
		return CUDA_ERROR_INVALID_VALUE;
	result = find_events(session, stream, msg->attr_mask, msg->programmatic_event,
		msg->completion_event, &events);
	if (result != CUDA_SUCCESS)
		return result;
	if (kernel->prints && !printf_capture_begin(session, &kernel->print_history))
		result = wait_to_print(session, stream, kernel, &config.hStream);
	if (result != CUDA_SUCCESS)
		return result;
	last_launch_note(&session->last_launch, kernel->name);
	counter_add(session, COUNTER_LAUNCHES, 1);
	config.numAttrs = launch_attributes(attributes, msg->attr_mask, msg->cluster,
		msg->cluster_policy, session_device_priority(stream->sdev, msg->priority));
	config.numAttrs += stream_attributes(&attributes[config.numAttrs], msg->attr_mask, &events);
	result = OBSERVED(session, stream,
		launch_configured(session, stream, &config, found->function,
			kernel_extra(&extra, params, kernel->param_bytes)),
		{.kind = TRACE_LAUNCH,
			.count = 1,
			.name = kernel->name,
			.shape = foreground_hash(0, (uintptr_t)kernel, msg->grid)});
	if (result != CUDA_SUCCESS)
		return result;
	events_note(&events, stream);
	elastic_stream_note(session, stream, 1);
	return CUDA_SUCCESS;
}
