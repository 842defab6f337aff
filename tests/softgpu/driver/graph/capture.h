/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAPTURE_H
#define CAPTURE_H

/*
 * Stream capture: while a stream is being captured, its work becomes nodes of a graph.
 *
 * A capture belongs to the stream where it began. A stream that waits for an event
 * of the capture joins it. All under the driver's lock.
 */

#include "tests/softgpu/driver/driver.h"

struct context;
struct event;
struct graph_point;
struct launch;
struct stream;
struct work;

/* Adds the work as a node behind the stream's tips. Takes `work'. */
CUresult capture_push(struct stream *stream, struct work *work);

/* The stream's last node is the launch; nodes that wait for its events get edges from its ports. */
CUresult capture_launched(struct stream *stream, const struct launch *launch);

CUresult capture_record(struct stream *stream, struct event *event, bool is_external);
CUresult capture_await(struct stream *stream, struct event *event, bool is_external);

/* For calls that end a capture: invalidates the capture and returns the error. */
CUresult capture_forbid(struct stream *stream);
CUresult capture_forbid_event(struct event *event);

/* The same error for a captured event, without an effect. CUDA_SUCCESS: it is none. */
CUresult capture_look_event(const struct event *event);

/*
 * Whether this is a default stream and a blocking stream of its context is being captured.
 * Work for the default stream would wait for it, and must be refused. Invalidates the capture.
 */
bool capture_blocks(const struct stream *stream);

/*
 * For calls that only the mode relaxed allows, such as allocations: invalidates the
 * captures that forbid the call to this thread.
 */
CUresult capture_check_unsafe(void);

/* Removes a stream that is being destroyed. */
void capture_abandon(struct stream *stream);

void capture_point_unref(struct graph_point *point);

#endif
