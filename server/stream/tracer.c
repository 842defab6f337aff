/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The recorder of a traced session. A worker.
 *
 * The driver stamps an event when the GPU reaches it, so a pair of events gives the time of
 * the work between them. An event changes neither the order nor the result of the work. No
 * event enters a stream while any stream is blocked (blocked_streams.h): work is then only
 * marked. A failure of a call here is no failure of the client's work.
 *
 * Stamps are relative to an event of the same GPU, the origin of a clock. Its time by the
 * host's clock lies between two bounds: work does not begin before the worker has submitted
 * it, nor end after the worker has seen its end. Each piece of work narrows the bounds.
 *
 * Invariant: the work of a stream is written in its order, and does not overlap.
 */

#include "tracer.h"

#include "clock.h"
#include "server/session/fault.h"
#include "server/session/session_part.h"
#include "server/schedule/blocked_streams.h"
#include "server/share/session_device.h"

/* Work whose end is not known yet. More is marked without times. */
#define PIECES_MAX 512u

/* How many pieces the worker looks at when it submits another one. */
#define PIECES_LOOKED_AT 8u

/* How often a worker looks that has nothing else to do. */
#define LOOK_MS 1
#define LOOK_NS 1000000u

/*
 * The clocks of GPU and host diverge, and stamps are floats, so a clock is not used for long.
 * A new one begins in a stream at rest if there is one in time, because times are not known
 * before the GPU has reached the origin.
 */
#define CLOCK_NS 1000000000ull
#define CLOCK_MAX_NS (10 * CLOCK_NS)

/* How long events may stay unwritten. */
#define WRITE_NS 100000000ull

/* A GPU has two, so that one can begin while work refers to the other. */
struct clock {
	CUevent origin; /* NULL: not made yet */
	uint64_t recorded_ns;
	uint64_t first_ns, last_ns; /* the time of `origin' lies between them */
	uint32_t n_pieces;          /* that refer to it */
};

struct piece {
	struct piece *next;
	CUevent begin, end; /* of the GPU of `sdev'; NULL: not made yet */
	const struct session_device *sdev;
	struct clock *clock;
	struct trace_record record; /* start_ns: when it was submitted */
	char name[TRACE_NAME_MAX];
};

struct tracer {
	struct piece *open; /* between tracer_open() and tracer_close(), or NULL */
	const struct stream *open_stream;
	struct piece *pending, **last; /* in the order of submission */
	struct piece *unused;
	uint32_t n_made;
	uint32_t serial;               /* of the present look */
	uint32_t unended[STREAMS_MAX]; /* the last look that found the stream's work unended */
	uint64_t end_ns[STREAMS_MAX];  /* of the last work that was written */
	struct clock clocks[DEVICES_MAX][2];
	uint8_t present[DEVICES_MAX];                            /* which clock new work uses */
	uint64_t levels[DEVICES_MAX][TRACE_KINDS - TRACE_SHARE]; /* as written */
	struct trace_writer writer;
	struct piece pieces[PIECES_MAX];
};

/* ---- clocks */

/* The origin goes into the stream, before the work. */
static bool clock_begin(struct clock *clock, CUstream real)
{
	clock->recorded_ns = 0;
	if (!clock->origin &&
		cuda.cuEventCreate(&clock->origin, CU_EVENT_DEFAULT) != CUDA_SUCCESS) {
		clock->origin = NULL;
		return false;
	}
	clock->first_ns = now_ns();
	clock->last_ns = UINT64_MAX;
	if (cuda.cuEventRecord(clock->origin, real) != CUDA_SUCCESS)
		return false;
	clock->recorded_ns = clock->first_ns;
	return true;
}

/* Whether the session needs another clock; `is_at_rest': the stream has no work. */
static bool clock_is_old(const struct clock *clock, bool is_at_rest)
{
	return !clock->recorded_ns ||
	       now_ns() - clock->recorded_ns > (is_at_rest ? CLOCK_NS : CLOCK_MAX_NS);
}

/* The clock for work that is submitted now; NULL: the driver has no memory. */
static struct clock *clock_get(struct tracer *tracer, const struct stream *stream)
{
	unsigned ordinal = stream->device->ordinal;
	uint8_t *present = &tracer->present[ordinal];
	struct clock *clock = &tracer->clocks[ordinal][*present];
	struct clock *other = &tracer->clocks[ordinal][!*present];

	if (!clock_is_old(clock, tracer->unended[stream->id] != tracer->serial))
		return clock;
	if (clock->n_pieces > 0 && other->n_pieces > 0)
		return clock;
	if (clock->n_pieces > 0) {
		*present ^= 1;
		clock = other;
	}
	return clock_begin(clock, stream->real) ? clock : NULL;
}

/* The work was submitted and its end was seen at these times by the host. */
static void clock_narrow(struct clock *clock, const struct trace_record *record, int64_t begin,
	int64_t length, uint64_t seen_ns)
{
	clock->first_ns = MAX(clock->first_ns, record->start_ns - (uint64_t)begin);
	clock->last_ns = MIN(clock->last_ns, seen_ns - (uint64_t)(begin + length));
}

/*
 * The first bound is good if some work was submitted to a stream at rest. The second one is
 * late by the time between two looks at most.
 */
static uint64_t clock_origin(const struct clock *clock)
{
	return MAX(clock->first_ns, clock->last_ns - LOOK_NS);
}

/* ---- pieces of work */

static struct piece *piece_take(struct tracer *tracer)
{
	struct piece *piece = tracer->unused;

	if (piece)
		tracer->unused = piece->next;
	else if (tracer->n_made < PIECES_MAX)
		piece = &tracer->pieces[tracer->n_made++];
	return piece;
}

static void piece_give(struct tracer *tracer, struct piece *piece)
{
	LIST_PUSH(tracer->unused, piece);
}

static void piece_fini(struct piece *piece, bool device_lost)
{
	if (piece->begin && !device_lost)
		cuda.cuEventDestroy_v2(piece->begin);
	if (piece->end && !device_lost)
		cuda.cuEventDestroy_v2(piece->end);
	piece->begin = piece->end = NULL;
}

/* Events belong to a GPU. */
static bool piece_make_events(struct piece *piece, const struct session_device *sdev)
{
	if (piece->end && piece->sdev == sdev)
		return true;
	piece_fini(piece, false);
	piece->sdev = sdev;
	if (cuda.cuEventCreate(&piece->begin, CU_EVENT_DEFAULT) != CUDA_SUCCESS) {
		piece->begin = NULL;
		return false;
	}
	if (cuda.cuEventCreate(&piece->end, CU_EVENT_DEFAULT) == CUDA_SUCCESS)
		return true;
	piece->end = NULL;
	piece_fini(piece, false);
	return false;
}

static void write_untimed(struct tracer *tracer, struct trace_record *record, const char *name)
{
	record->flags |= TRACE_UNTIMED;
	record->duration_ns = 0;
	trace_writer_add(&tracer->writer, record, name);
}

/* Writes work that lasted from `start_ns' to `end_ns', as far as the work before leaves space. */
static void write_timed(
	struct tracer *tracer, struct piece *piece, uint64_t start_ns, uint64_t end_ns)
{
	struct trace_record *record = &piece->record;
	uint64_t *last_ns = &tracer->end_ns[record->stream];

	record->start_ns = MAX(start_ns, *last_ns);
	*last_ns = MAX(end_ns, record->start_ns);
	record->duration_ns = *last_ns - record->start_ns;
	trace_writer_add(&tracer->writer, record, piece->name[0] ? piece->name : NULL);
}

static int64_t to_ns(float milliseconds)
{
	return (int64_t)((double)milliseconds * 1e6);
}

/* Writes the work if it has ended. */
static bool piece_settle(struct tracer *tracer, struct piece *piece)
{
	float begin, length;
	uint64_t origin;

	if (cuda.cuEventQuery(piece->end) != CUDA_SUCCESS ||
		cuda.cuEventElapsedTime(&begin, piece->clock->origin, piece->begin) !=
			CUDA_SUCCESS ||
		cuda.cuEventElapsedTime(&length, piece->begin, piece->end) != CUDA_SUCCESS)
		return false;
	clock_narrow(piece->clock, &piece->record, to_ns(begin), to_ns(length), now_ns());
	origin = clock_origin(piece->clock);
	write_timed(tracer, piece, origin + (uint64_t)to_ns(begin),
		origin + (uint64_t)(to_ns(begin) + to_ns(length)));
	piece->clock->n_pieces--;
	return true;
}

/* Looks at the first `most' pieces. Behind unended work of a stream no other has ended. */
static void tracer_look(struct tracer *tracer, unsigned most)
{
	struct piece **link = &tracer->pending;

	tracer->serial++;
	for (unsigned i = 0; i < most && *link; i++) {
		struct piece *piece = *link;
		uint32_t *unended = &tracer->unended[piece->record.stream];

		if (*unended != tracer->serial && piece_settle(tracer, piece)) {
			*link = piece->next;
			piece_give(tracer, piece);
			continue;
		}
		*unended = tracer->serial;
		link = &piece->next;
	}
	if (!*link)
		tracer->last = link;
}

/* ---- work */

static struct trace_record describe(const struct stream *stream, const struct trace_work *work)
{
	return (struct trace_record){
		.start_ns = now_ns(),
		.size = work->size,
		.stream = stream->id,
		.count = work->count,
		.kind = (uint16_t)work->kind,
		.flags = work->is_mixed ? TRACE_MIXED : 0,
	};
}

/* Puts the first event into the stream. */
static bool piece_begin(struct tracer *tracer, struct piece *piece, const struct stream *stream,
	const struct trace_work *work)
{
	size_t length = work->name ? strnlen(work->name, TRACE_NAME_MAX - 1) : 0;

	if (blocked_any() || !piece_make_events(piece, stream->sdev))
		return false;
	piece->clock = clock_get(tracer, stream);
	if (!piece->clock)
		return false;
	if (length > 0)
		memcpy(piece->name, work->name, length);
	piece->name[length] = '\0';
	piece->record = describe(stream, work);
	return cuda.cuEventRecord(piece->begin, stream->real) == CUDA_SUCCESS;
}

void tracer_open(struct session *session, struct stream *stream, const struct trace_work *work)
{
	struct tracer *tracer = session->tracer;
	struct trace_record record;
	struct piece *piece;

	tracer_look(tracer, PIECES_LOOKED_AT);
	piece = piece_take(tracer);
	if (!piece) {
		tracer_look(tracer, PIECES_MAX);
		piece = piece_take(tracer);
	}
	tracer->open_stream = stream;
	if (piece && piece_begin(tracer, piece, stream, work)) {
		tracer->open = piece;
		return;
	}
	if (piece)
		piece_give(tracer, piece);
	record = describe(stream, work);
	write_untimed(tracer, &record, work->name);
}

CUresult tracer_close(struct session *session, CUresult result)
{
	struct tracer *tracer = session->tracer;
	struct piece *piece = TAKE_PTR(tracer->open);

	if (!piece)
		return result;
	if (result != CUDA_SUCCESS)
		piece->record.flags |= TRACE_REFUSED;
	if (result_is_fault(result) || blocked_any() ||
		cuda.cuEventRecord(piece->end, tracer->open_stream->real) != CUDA_SUCCESS) {
		write_untimed(tracer, &piece->record, piece->name[0] ? piece->name : NULL);
		piece_give(tracer, piece);
		return result;
	}
	piece->next = NULL;
	*tracer->last = piece;
	tracer->last = &piece->next;
	piece->clock->n_pieces++;
	return result;
}

void tracer_mark(struct session *session, uint32_t stream, enum trace_kind kind)
{
	struct trace_record record = {.stream = stream, .kind = (uint16_t)kind};

	if (likely(!session->tracer))
		return;
	record.start_ns = now_ns();
	trace_writer_add(&session->tracer->writer, &record, NULL);
}

void tracer_poll(struct session *session)
{
	struct tracer *tracer = session->tracer;

	if (!tracer)
		return;
	if (fault_get() == CUDA_SUCCESS)
		tracer_look(tracer, PIECES_MAX);
	if (!tracer->pending || now_ns() - tracer->writer.written_ns > WRITE_NS)
		trace_writer_flush(&tracer->writer);
}

void tracer_level(struct session *session, uint32_t ordinal, enum trace_kind kind, uint64_t value)
{
	uint64_t *level = &session->tracer->levels[ordinal][kind - TRACE_SHARE];
	struct trace_record record = {.size = value, .stream = ordinal, .kind = (uint16_t)kind};

	if (*level == value)
		return;
	*level = value;
	record.start_ns = now_ns();
	trace_writer_add(&session->tracer->writer, &record, NULL);
}

void tracer_sleep(struct session *session, int timeout_ms)
{
	struct tracer *tracer = session->tracer;
	const uint64_t until_ms = now_ms() + (uint64_t)timeout_ms;
	int64_t left_ms;

	do {
		tracer_poll(session);
		left_ms = (int64_t)(until_ms - now_ms());
		if (left_ms > 0)
			ring_sleep(&session->receiver, tracer->pending ? LOOK_MS : (int)left_ms);
	} while (left_ms > 0 && tracer->pending && !ring_has_more(&session->receiver) &&
		 !atomic_load(&session->is_ending) && !trace_has_changed(session));
}

/* ---- begin and end */

static void tracer_join(struct session *session)
{
	struct tracer *tracer;

	if (!trace_join(session))
		return;
	/* It does not count for the client, which did not ask for it. */
	tracer = account_alloc(NULL, sizeof(*tracer), 0);
	if (!tracer) {
		trace_leave(session);
		return;
	}
	tracer->last = &tracer->pending;
	trace_writer_init(&tracer->writer, session);
	session->tracer = tracer;
	atomic_fetch_or(&session->observers, OBSERVER_TRACER);
}

/* What has not ended lasts until now. Of a stream only the first piece can have begun. */
static void write_unfinished(struct tracer *tracer)
{
	uint64_t now = now_ns();

	tracer->serial++;
	for (struct piece *piece = tracer->pending; piece; piece = piece->next) {
		uint32_t *unended = &tracer->unended[piece->record.stream];

		piece->record.flags |= TRACE_UNFINISHED;
		if (*unended == tracer->serial)
			write_untimed(tracer, &piece->record, piece->name[0] ? piece->name : NULL);
		else
			write_timed(tracer, piece, piece->record.start_ns, now);
		*unended = tracer->serial;
	}
}

/* Everything that is known of the session's work is written. */
static void tracer_settle(struct tracer *tracer, bool device_lost)
{
	if (!device_lost)
		tracer_look(tracer, PIECES_MAX);
	write_unfinished(tracer);
	tracer->pending = NULL;
}

static void tracer_leave(struct session *session, bool device_lost)
{
	struct tracer *tracer = TAKE_PTR(session->tracer);

	atomic_fetch_and(&session->observers, ~OBSERVER_TRACER);
	trace_writer_flush(&tracer->writer);
	for (unsigned i = 0; i < tracer->n_made; i++)
		piece_fini(&tracer->pieces[i], device_lost);
	for (unsigned i = 0; i < 2 * DEVICES_MAX; i++) {
		const struct clock *clock = &tracer->clocks[i / 2][i % 2];

		if (clock->origin && !device_lost)
			cuda.cuEventDestroy_v2(clock->origin);
	}
	account_free(tracer);
	trace_leave(session);
}

void tracer_sync(struct session *session)
{
	bool device_lost = fault_get() != CUDA_SUCCESS;

	if (session->tracer && trace_stay(session))
		return;
	if (session->tracer) {
		tracer_settle(session->tracer, device_lost);
		tracer_leave(session, device_lost);
	}
	tracer_join(session);
}

static void tracer_end(struct session *session, bool device_lost)
{
	if (!session->tracer)
		return;
	tracer_settle(session->tracer, device_lost);
	if (fault_get() != CUDA_SUCCESS)
		tracer_mark(session, 0, TRACE_FAULT);
	tracer_mark(session, 0, TRACE_END);
	tracer_leave(session, device_lost);
}

const struct session_part tracer_part = {.end = tracer_end};
