/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RECORDING_H
#define RECORDING_H

/*
 * What all streams of one capture have in common, and points of it. Under the
 * lock of all graphs.
 */

#include "client/stream/recorder.h"
#include "client/graph/graph.h"

struct recording {
	uint32_t refs; /* points of it */
	uint64_t id;
	struct graph *graph; /* owned, unless borrowed; NULL: the capture is over */
	bool is_borrowed;    /* the program's own graph */
	bool is_invalid;
	const struct stream *origin; /* where it began and has to end */
	CUstreamCaptureMode mode;
	pthread_t thread;  /* that began it */
	CUgraphNode *left; /* owned: tips of streams that ended; someone may still wait for them */
	size_t n_left;
};

/* What a stream's next node will wait for, or an event stands for. */
struct capture_point {
	struct recording *recording; /* owns a reference */
	CUgraphNode *tips;           /* owned, as the next */
	CUgraphEdgeData *data;
	size_t n_tips;
};

CUresult point_new(struct recording *recording, const CUgraphNode *tips,
	const CUgraphEdgeData *data, size_t n_tips, struct capture_point **ret_point);
void point_free(struct capture_point *point);

/* Adds those that are not there yet. */
CUresult point_add(struct capture_point *point, const CUgraphNode *tips,
	const CUgraphEdgeData *data, size_t n_tips);

/* The stream captures from now on; takes `point'. Or it does no more. */
void capture_start(struct stream *stream, struct capture_point *point);
void capture_stop(struct stream *stream);

/* Of a NULL stream: the recording of a stream that it would have to wait for; NULL: none. */
struct recording *recording_blocking(const struct stream *null);

void recording_unref(struct recording *recording);

/* Every stream leaves the recording. Its graph is the caller's. */
struct graph *recording_end(struct recording *recording);

#endif
