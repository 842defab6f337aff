/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAPTURE_H
#define CAPTURE_H

/*
 * Stream capture: while a stream has one, its work becomes nodes of a graph.
 *
 * A capture belongs to the stream where it began and is joined by every stream
 * that waits for an event recorded in it. All under the driver's lock.
 */

#include "tests/softgpu/driver/driver.h"

struct context;
struct event;
struct graph_point;
struct stream;
struct work;

/* Adds the work as a node behind what the stream has in the capture. Takes `work'. */
CUresult capture_push(struct stream *stream, struct work *work);

CUresult capture_record(struct stream *stream, struct event *event, bool is_external);
CUresult capture_await(struct stream *stream, struct event *event, bool is_external);

/* For calls that a capture does not survive: invalidates it and says so. */
CUresult capture_forbid(struct stream *stream);
CUresult capture_forbid_event(struct event *event);

/*
 * Whether a blocking stream of the context is being captured, so that work for
 * the default stream, which would wait for it, has to be refused. Invalidates.
 */
bool capture_blocks_default(const struct context *context);

/*
 * For calls that a capture in another mode than relaxed does not allow, like
 * allocations: invalidates those that are in this thread's way.
 */
CUresult capture_check_unsafe(void);

/* The stream is being destroyed. */
void capture_abandon(struct stream *stream);

void capture_point_unref(struct graph_point *point);

#endif
