/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Streams that change their share of SMs. A worker.
 *
 * Invariant: the driver stream that stream::real names has, or waits for, all work of the stream.
 */

#include "elastic_stream.h"

#include "stream.h"
#include "server/session/fault.h"
#include "server/session/session_part.h"
#include "server/schedule/background.h"
#include "server/schedule/blocked_streams.h"
#include "server/share/green.h"
#include "server/share/session_device.h"

struct elastic_stream {
	CUstream reals[SHARE_SIZES_MAX]; /* by share; NULL: not made yet */
	unsigned at;                     /* the share of stream::real */
};

static bool elastic_stream_has_all(const struct stream *stream)
{
	return stream->real == stream->home;
}

CUcontext elastic_stream_share_context(const struct stream *stream)
{
	return stream->sdev->elastic.shares[stream->elastic->at].context;
}

CUresult elastic_stream_enter_share(struct session *session, const struct stream *stream)
{
	return elastic_shares_enter(session, stream->sdev, stream->elastic->at);
}

static struct elastic_stream *elastic_get(struct session *session, struct stream *stream)
{
	const unsigned last = stream->sdev->elastic.n - 1;

	if (stream->elastic)
		return stream->elastic;
	stream->elastic = account_alloc(session->account, sizeof(*stream->elastic),
		(uint64_t)SHARE_SIZES_MAX * KEPT_STREAM);
	if (stream->elastic) {
		stream->elastic->reals[last] = stream->home;
		stream->elastic->at = last;
	}
	return stream->elastic;
}

static CUresult make_real(
	struct session *session, struct stream *stream, unsigned share, CUstream *ret_real)
{
	if (*ret_real)
		return CUDA_SUCCESS;
	return green_try_stream(
		session, stream->sdev->elastic.shares[share].green, stream->priority, ret_real);
}

/* The stream continues on `real', behind all its work. After an error it stays where it is. */
static CUresult change_real(struct session *session, struct stream *stream, CUstream real)
{
	CUstream before = stream->real;
	CUresult result = CUDA_SUCCESS;

	if (!stream->event)
		result = cuda.cuEventCreate(&stream->event, CU_EVENT_DISABLE_TIMING);
	if (result != CUDA_SUCCESS)
		return result;
	blocked_evade(session, stream);
	result = cuda.cuEventRecord(stream->event, before);
	if (result != CUDA_SUCCESS)
		return result;
	stream->real = real;
	result = stream_wait_event(
		session, stream, stream->event, blocked_contains(session, stream->id));
	if (result != CUDA_SUCCESS)
		stream->real = before;
	return result;
}

/* The context of the stream's GPU is current. */
static void move(struct session *session, struct stream *stream, unsigned share)
{
	struct elastic_stream *elastic = elastic_get(session, stream);

	if (elastic && elastic->at != share &&
		make_real(session, stream, share, &elastic->reals[share]) == CUDA_SUCCESS &&
		change_real(session, stream, elastic->reals[share]) == CUDA_SUCCESS)
		elastic->at = share;
}

static void move_to(struct session *session, struct stream *stream, unsigned share)
{
	/* A stream with SMs that the client chose stays. So does a stream without any work yet. */
	if (stream->sdev->elastic.n > 0 && stream->home && !stream->green && !stream->parked &&
		session_device_enter(session, stream->sdev) == CUDA_SUCCESS)
		move(session, stream, share);
}

/* The share that the session's launches get now. */
static unsigned share_of(const struct session *session, const struct stream *stream)
{
	const struct elastic_shares *elastic = &stream->sdev->elastic;

	return elastic->n > 0 ? elastic_shares_find(elastic, session->background->groups) : 0;
}

void elastic_stream_change(struct session *session, struct stream *stream, unsigned share)
{
	/* Waits of one stream for another are dear, and may be rationed, while any is blocked. */
	if (!blocked_any())
		move_to(session, stream, share);
}

unsigned elastic_stream_wait_others(struct session *session, struct stream *stream, unsigned n)
{
	if (classes_join(session) == CLASS_FOREGROUND)
		return n;
	n = background_wait(session, stream, 1, n);
	elastic_stream_change(session, stream, share_of(session, stream));
	return n;
}

unsigned elastic_stream_wait_graph(struct session *session, struct stream *stream, unsigned n)
{
	if (classes_join(session) == CLASS_FOREGROUND)
		return elastic_shares_own(&stream->sdev->elastic);
	background_wait(session, stream, n, n);
	return share_of(session, stream);
}

bool elastic_stream_has_to_retry(struct session *session, struct stream *stream, CUresult result)
{
	if (result == CUDA_SUCCESS || result_is_fault(result) || elastic_stream_has_all(stream))
		return false;
	move_to(session, stream, elastic_shares_own(&stream->sdev->elastic));
	return elastic_stream_has_all(stream);
}

/*
 * A session with few SMs of its own may have less than its share: what others feel then goes to
 * the account of the share, which is all that the controller can change.
 */
static struct background_use use_of(
	const struct session *session, const struct stream *stream, unsigned share)
{
	const struct elastic_shares *elastic = &stream->sdev->elastic;
	unsigned all = elastic_groups_all(stream->device), own = elastic_shares_own(elastic);

	if (elastic->n == 0)
		return (struct background_use){.groups = all};
	return (struct background_use){
		.groups = share == share_of(session, stream) ? session->background->groups
							     : elastic->groups[share],
		.yielded = (elastic->groups[own] - elastic->groups[share]) * 1000 / all,
	};
}

void elastic_stream_note_graph(
	struct session *session, struct stream *stream, unsigned n, unsigned share)
{
	if (classes_join(session) == CLASS_BACKGROUND)
		background_note(session, stream, n, use_of(session, stream, share));
}

void elastic_stream_note_others(struct session *session, struct stream *stream, unsigned n)
{
	elastic_stream_note_graph(session, stream, n,
		stream->elastic ? stream->elastic->at : elastic_shares_own(&stream->sdev->elastic));
}

static void elastic_stream_end(struct stream *stream, bool device_lost)
{
	struct elastic_stream *elastic = TAKE_PTR(stream->elastic);

	if (!elastic)
		return;
	for (unsigned i = 0; i + 1 < stream->sdev->elastic.n && !device_lost; i++)
		if (elastic->reals[i])
			green_give_stream(stream->sdev->elastic.shares[i].green, elastic->reals[i]);
	stream->real = stream->home;
	account_free(elastic);
}

const struct session_part elastic_streams_part = {.stream_end = elastic_stream_end};
