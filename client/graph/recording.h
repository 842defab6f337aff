/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RECORDING_H
#define RECORDING_H

/*
 * A recording is what all streams of one capture share; a point is a position in
 * it. Under the lock of all graphs.
 */

#include "graph.h"
#include "client/stream/recorder.h"

struct recording {
	uint32_t refs; /* number of points */
	uint64_t id;
	struct graph *graph; /* owned, unless borrowed; NULL: the capture has ended */
	bool is_borrowed;    /* the program's own graph */
	bool is_invalid;
	const struct stream *origin; /* where the capture began and must end */
	CUstreamCaptureMode mode;
	pthread_t thread;        /* that began the capture */
	CUgraphNode *ended_tips; /* owned: tips of ended streams, for which others may still wait */
	size_t n_ended_tips;
};

/* The nodes for which a stream's next node will wait, or which an event stands for. */
struct capture_point {
	struct recording *recording; /* owns a reference */
	CUgraphNode *tips;           /* owned, like the next */
	CUgraphEdgeData *data;
	size_t n_tips;
};

CUresult point_new(struct recording *recording, const CUgraphNode *tips,
	const CUgraphEdgeData *data, size_t n_tips, struct capture_point **ret_point);
void point_free(struct capture_point *point);

/* Adds the tips that the point does not have yet. */
CUresult point_add(struct capture_point *point, const CUgraphNode *tips,
	const CUgraphEdgeData *data, size_t n_tips);

/* The stream captures from now on; takes ownership of `point'. capture_stop() ends that. */
void capture_start(struct stream *stream, struct capture_point *point);
void capture_stop(struct stream *stream);

/* For a NULL stream: the recording of a stream for which it would have to wait; NULL: none. */
struct recording *recording_blocking(const struct stream *null);

void recording_unref(struct recording *recording);

/* All streams leave the recording. Returns its graph, which the caller owns. */
struct graph *recording_end(struct recording *recording);

#endif
