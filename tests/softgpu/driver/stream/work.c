/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all kinds of work share: running, copying into a queue, and releasing what
 * the work owns.
 *
 * work_run() and work_abort() run in streams' threads without the driver's
 * lock, the rest with it.
 */

#include "work.h"

#include <string.h>

#include "event.h"
#include "event_share.h"
#include "stream.h"
#include "trigger.h"
#include "tests/softgpu/driver/graph/conditional.h"
#include "tests/softgpu/driver/graph/graph_memory.h"
#include "tests/softgpu/driver/memory/memory.h"
#include "tests/softgpu/driver/module/module.h"

static CUresult work_guarded(struct work *work, struct stream *stream)
{
	switch (work->kind) {
	case WORK_KERNEL:
		return kernel_run(&work->kernel, stream);
	case WORK_COPY:
		return copy_run(&work->copy);
	case WORK_FILL:
		return fill_run(&work->fill);
	default:
		return memops_run(&work->memops, stream);
	}
}

static CUresult run_kernel(struct work *work, struct stream *stream)
{
	CUresult result = CUDA_ERROR_LAUNCH_FAILED;

	if (loops_kernel_begin(stream->context))
		result = guard_run(work_guarded, work, stream);
	loops_kernel_end(stream->context);
	return result;
}

static CUresult wait_shared(const struct shared_work *shared, const struct stream *stream)
{
	while (!event_share_reached(shared->share, shared->number) &&
		!atomic_load_explicit(&stream->cancelled, memory_order_relaxed))
		event_share_pause();
	return CUDA_SUCCESS;
}

CUresult work_run(struct work *work, struct stream *stream)
{
	switch (work->kind) {
	case WORK_KERNEL:
		return run_kernel(work, stream);
	case WORK_COPY:
	case WORK_FILL:
	case WORK_MEMOPS:
		return guard_run(work_guarded, work, stream);
	case WORK_STAMP:
		stamp_set(work->stamp);
		return CUDA_SUCCESS;
	case WORK_WAIT_SHARED:
		return wait_shared(&work->shared, stream);
	case WORK_HOST:
		call_forbid(true);
		work->host.fn(work->host.user);
		call_forbid(false);
		return CUDA_SUCCESS;
	case WORK_CALLBACK:
		work_abort(work, CUDA_SUCCESS);
		return CUDA_SUCCESS;
	case WORK_FREE:
		memory_free_async(work->address);
		return CUDA_SUCCESS;
	case WORK_GRAPH_FREE:
		graph_memory_discard(work->memory);
		return CUDA_SUCCESS;
	case WORK_CONDITIONAL:
		return conditional_run(&work->conditional, stream);
	case WORK_ASSIGN:
		condition_assign(&work->assign);
		return CUDA_SUCCESS;
	default:
		return CUDA_SUCCESS;
	}
}

void work_abort(struct work *work, CUresult result)
{
	call_forbid(true);
	work->host.callback(work->host.handle, result, work->host.user);
	call_forbid(false);
}

void work_fini(struct work *work)
{
	switch (work->kind) {
	case WORK_KERNEL:
		module_unref(work->kernel.module);
		condition_values_unref(work->kernel.conditions);
		trigger_unref(work->kernel.trigger);
		free(work->kernel.params);
		break;
	case WORK_COPY:
		free(work->copy.staged);
		break;
	case WORK_MEMOPS:
		free(work->memops.ops);
		break;
	case WORK_STAMP:
		stamp_unref(work->stamp);
		break;
	case WORK_WAIT_SHARED:
		event_share_unref(work->shared.share);
		break;
	case WORK_WAIT_EVENT:
	case WORK_RECORD_EVENT:
		event_unref(work->event);
		break;
	case WORK_GRAPH_ALLOC:
	case WORK_GRAPH_FREE:
		graph_memory_unref(work->memory);
		break;
	case WORK_CONDITIONAL:
		conditional_fini(&work->conditional);
		break;
	case WORK_ASSIGN:
		condition_values_unref(work->assign.values);
		free(work->assign.assignments);
		break;
	default:
		break;
	}
	work->kind = WORK_NONE;
}

/* Replaces *p by a copy of its `size' bytes; NULL stays NULL. */
static bool dup_into(void **p, size_t size)
{
	void *copy;

	if (!*p || size == 0) {
		*p = NULL;
		return true;
	}
	copy = malloc(size);
	if (copy)
		memcpy(copy, *p, size);
	*p = copy;
	return copy;
}

CUresult work_dup(const struct work *from, struct work *ret_work)
{
	struct work work = *from;
	void *ops = from->kind == WORK_MEMOPS ? from->memops.ops : NULL;

	switch (work.kind) {
	case WORK_KERNEL:
		if (!dup_into(&work.kernel.params, work.kernel.params_size))
			return CUDA_ERROR_OUT_OF_MEMORY;
		module_ref(work.kernel.module);
		condition_values_ref(work.kernel.conditions);
		trigger_ref(work.kernel.trigger);
		break;
	case WORK_COPY:
		if (!dup_into(&work.copy.staged, work.copy.width))
			return CUDA_ERROR_OUT_OF_MEMORY;
		break;
	case WORK_MEMOPS:
		if (!dup_into(&ops, work.memops.n_ops * sizeof(*work.memops.ops)))
			return CUDA_ERROR_OUT_OF_MEMORY;
		work.memops.ops = ops;
		break;
	case WORK_STAMP:
		work.stamp->refs++;
		break;
	case WORK_WAIT_EVENT:
	case WORK_RECORD_EVENT:
		work.event->refs++;
		break;
	case WORK_GRAPH_ALLOC:
	case WORK_GRAPH_FREE:
		graph_memory_ref(work.memory);
		break;
	case WORK_CONDITIONAL:
		return conditional_dup(from, ret_work);
	case WORK_ASSIGN:
		return condition_assign_dup(from, ret_work);
	default:
		break;
	}
	*ret_work = work;
	return CUDA_SUCCESS;
}
