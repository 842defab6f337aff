/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RECORDER_H
#define RECORDER_H

/*
 * What calls do while a stream captures: their work becomes nodes of a graph
 * instead of messages. Calls of every room record; graph/capture.c provides the
 * recorder, so that only graph/ knows graphs. Any thread.
 */

#include <stdatomic.h>

#include "event.h"

struct box;
struct fill;
struct kernel;
struct launch;
struct memory_op;

struct recorder {
	/*
	 * Before work on a stream, and before a wait for an event: whether one of the functions
	 * below must record it. CUDA_ERROR_STREAM_CAPTURE_IMPLICIT: the work is not allowed.
	 */
	CUresult (*look)(struct stream *stream, bool *ret_captures);
	CUresult (*look_wait)(struct stream *stream, struct event *event, bool *ret_captures);

	/*
	 * CUDA_ERROR_CAPTURED_EVENT: its last record is part of a capture;
	 * CUDA_ERROR_INVALID_VALUE: of one that is over or invalid.
	 */
	CUresult (*look_event)(const struct event *event);

	/* Each adds a node that follows the stream's last node. */
	CUresult (*kernel)(struct stream *stream, const struct launch *launch,
		struct kernel *kernel, const uint8_t *params);
	CUresult (*copy)(struct stream *stream, const struct box *box, const CUDA_MEMCPY3D *desc);
	CUresult (*fill)(struct stream *stream, const struct fill *fill);
	CUresult (*memory_ops)(struct stream *stream, const struct memory_op *ops, uint32_t n_ops);
	CUresult (*alloc)(
		struct stream *stream, CUdevice ordinal, uint64_t size, uint64_t *ret_address);
	CUresult (*free)(struct stream *stream, uint64_t address);
	CUresult (*host)(struct stream *stream, CUhostFn function, void *data);
	CUresult (*event_record)(struct stream *stream, struct event *event, bool is_external);
	CUresult (*event_wait)(struct stream *stream, struct event *event, bool is_external);

	/*
	 * For work that cannot be captured: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED; the capture
	 * becomes invalid.
	 */
	CUresult (*forbid)(struct stream *stream);

	/*
	 * Before a wait for, or a query of, a stream, an event, a GPU or a context: captured
	 * work has not started, so the call fails.
	 */
	CUresult (*check_wait)(struct stream *stream);
	CUresult (*check_event)(struct event *event);
	CUresult (*check_device)(unsigned device);
	CUresult (*check_context)(const struct context *context);

	/* Before calls that may be unsafe during a capture, such as allocations. */
	CUresult (*check_unsafe)(void);

	/* The event is recorded again, or ends. */
	void (*forget_event)(struct event *event);

	/* The stream ends. */
	void (*abandon)(struct stream *stream);
};

extern const struct recorder recorder;

/*
 * Number of streams that capture now; atomic. Nearly always 0, and then most calls
 * check nothing else.
 */
extern _Atomic uint32_t captures_running;

static inline bool capture_is_running(void)
{
	return atomic_load_explicit(&captures_running, memory_order_acquire) > 0;
}

static inline CUresult recorder_look(struct stream *stream, bool *ret_captures)
{
	*ret_captures = false;
	return likely(!capture_is_running()) ? CUDA_SUCCESS : recorder.look(stream, ret_captures);
}

static inline CUresult recorder_look_wait(
	struct stream *stream, struct event *event, bool *ret_captures)
{
	*ret_captures = false;
	return likely(!capture_is_running() &&
		       !atomic_load_explicit(&event->captured, memory_order_acquire))
		       ? CUDA_SUCCESS
		       : recorder.look_wait(stream, event, ret_captures);
}

#endif
