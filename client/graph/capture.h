/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAPTURE_H
#define CAPTURE_H

/*
 * Stream capture: while a stream captures, its work becomes nodes of a graph
 * instead of messages. A capture begins on one stream, and is joined by every
 * stream that waits for an event recorded in it. Any thread.
 */

#include "client/stream/event.h"
#include "node_op.h"

/* Streams that capture now; atomic. Nearly always none, which is all that most calls look at. */
extern uint32_t captures_running;

static inline bool capture_is_running(void)
{
	return __atomic_load_n(&captures_running, __ATOMIC_ACQUIRE) > 0;
}

/*
 * Before work for a stream: whether it is to be captured, by one of the
 * functions below. CUDA_ERROR_STREAM_CAPTURE_IMPLICIT: it may not be posted.
 */
CUresult capture_look_close(struct stream *stream, bool *ret_captures);

static inline CUresult capture_look(struct stream *stream, bool *ret_captures)
{
	*ret_captures = false;
	return likely(!capture_is_running()) ? CUDA_SUCCESS
					     : capture_look_close(stream, ret_captures);
}

/* The same before a wait for an event, which may have been recorded in a capture. */
CUresult capture_look_wait_close(struct stream *stream, struct event *event, bool *ret_captures);

static inline CUresult capture_look_wait(
	struct stream *stream, struct event *event, bool *ret_captures)
{
	*ret_captures = false;
	return likely(!capture_is_running() && !__atomic_load_n(&event->captured, __ATOMIC_ACQUIRE))
		       ? CUDA_SUCCESS
		       : capture_look_wait_close(stream, event, ret_captures);
}

/* Each adds a node behind what the stream has. */
CUresult capture_kernel(struct stream *stream, const struct launch *launch, struct kernel *kernel,
	const uint8_t *params);
CUresult capture_copy(struct stream *stream, uint64_t dst, uint64_t src, uint64_t size);
CUresult capture_box(struct stream *stream, const struct box *box, const CUDA_MEMCPY3D *given);
CUresult capture_fill(struct stream *stream, const struct fill *fill);
CUresult capture_memory_ops(struct stream *stream, const struct memory_op *ops, uint32_t n_ops);
CUresult capture_alloc(
	struct stream *stream, CUdevice ordinal, uint64_t size, uint64_t *ret_address);
CUresult capture_free(struct stream *stream, uint64_t address);
CUresult capture_host(struct stream *stream, CUhostFn function, void *data);

/* Takes `task', on failure too. */
CUresult capture_task(struct stream *stream, struct task *task);

CUresult capture_record(struct stream *stream, struct event *event, bool is_external);
CUresult capture_wait(struct stream *stream, struct event *event, bool is_external);

/* For what cannot be captured: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, and the capture is lost. */
CUresult capture_forbid(struct stream *stream);

/*
 * Before waiting for a stream or asking how far it is, for an event, or for all
 * of a GPU or of a context: what captures has not even begun.
 */
CUresult capture_check_wait(struct stream *stream);
CUresult capture_check_event(struct event *event);
CUresult capture_check_device(unsigned device);
CUresult capture_check_context(const struct context *context);

/* Before what may be unsafe beside a capture, like an allocation. */
CUresult capture_check_unsafe(void);

/* The event is recorded anew, or ends. */
void capture_forget_event(struct event *event);

/* The stream ends. */
void capture_abandon(struct stream *stream);

#endif
