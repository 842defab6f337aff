/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RECORDER_H
#define RECORDER_H

/*
 * What calls do while a stream captures: their work becomes nodes of a graph
 * instead of messages. Calls of every room record; graph/capture.c provides the
 * recorder, so that no room but graph/ knows graphs. Any thread.
 */

#include "event.h"

struct box;
struct fill;
struct kernel;
struct launch;
struct memory_op;

struct recorder {
	/*
	 * Before work for a stream, and before a wait for an event: whether it is to be recorded,
	 * by one of the functions below. CUDA_ERROR_STREAM_CAPTURE_IMPLICIT: it may not be posted.
	 */
	CUresult (*look)(struct stream *stream, bool *ret_captures);
	CUresult (*look_wait)(struct stream *stream, struct event *event, bool *ret_captures);

	/* Each adds a node behind what the stream has. */
	CUresult (*kernel)(struct stream *stream, const struct launch *launch,
		struct kernel *kernel, const uint8_t *params);
	CUresult (*copy)(struct stream *stream, uint64_t dst, uint64_t src, uint64_t size);
	CUresult (*box)(struct stream *stream, const struct box *box, const CUDA_MEMCPY3D *desc);
	CUresult (*fill)(struct stream *stream, const struct fill *fill);
	CUresult (*memory_ops)(struct stream *stream, const struct memory_op *ops, uint32_t n_ops);
	CUresult (*alloc)(
		struct stream *stream, CUdevice ordinal, uint64_t size, uint64_t *ret_address);
	CUresult (*free)(struct stream *stream, uint64_t address);
	CUresult (*host)(struct stream *stream, CUhostFn function, void *data);
	CUresult (*event_record)(struct stream *stream, struct event *event, bool is_external);
	CUresult (*event_wait)(struct stream *stream, struct event *event, bool is_external);

	/* For what cannot be captured: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED; the capture is lost.
	 */
	CUresult (*forbid)(struct stream *stream);

	/*
	 * Before waiting for a stream or asking how far it is, for an event, or for all of a GPU or
	 * of a context: what captures has not even begun.
	 */
	CUresult (*check_wait)(struct stream *stream);
	CUresult (*check_event)(struct event *event);
	CUresult (*check_device)(unsigned device);
	CUresult (*check_context)(const struct context *context);

	/* Before what may be unsafe beside a capture, like an allocation. */
	CUresult (*check_unsafe)(void);

	/* The event is recorded anew, or ends. */
	void (*forget_event)(struct event *event);

	/* The stream ends. */
	void (*abandon)(struct stream *stream);
};

extern const struct recorder recorder;

/* Streams that capture now; atomic. Nearly always none, which is all that most calls look at. */
extern uint32_t captures_running;

static inline bool capture_is_running(void)
{
	return __atomic_load_n(&captures_running, __ATOMIC_ACQUIRE) > 0;
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
	return likely(!capture_is_running() && !__atomic_load_n(&event->captured, __ATOMIC_ACQUIRE))
		       ? CUDA_SUCCESS
		       : recorder.look_wait(stream, event, ret_captures);
}

#endif
