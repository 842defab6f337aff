/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Pieces of foreground work and their times. A worker.
 *
 * Invariant: pieces end in the order in which they were closed, because they are pieces of one
 * stream at a time. A piece of another stream begins when no piece waits.
 */

#include "foreground.h"

#include "elastic.h"
#include "hash.h"
#include "server/session/session_part.h"
#include "server/driver/session_stream.h"
#include "server/device/device.h"

/* An end that was seen later counts only if the piece took 16 times as long as that. */
#define LATE_NS 10000u
#define LATE_PART 16u

uint64_t foreground_hash(uint64_t hash, uint64_t kernel, const uint32_t grid[3])
{
	hash = hash_bytes(hash, &kernel, sizeof(kernel));
	return hash_bytes(hash, grid, 3 * sizeof(*grid));
}

/* Whether the same background work was on the GPU from the begin to the end. */
static bool is_comparable(const struct background_work *begin, const struct background_work *end)
{
	return begin->groups == end->groups &&
	       (begin->groups > 0 || begin->n_noted == end->n_noted);
}

static void piece_end(struct session *session, const struct piece_of_work *piece, uint64_t now)
{
	struct foreground *own = session->foreground;
	uint64_t begin_ns = MAX(piece->begin_ns, own->ended_ns);
	uint64_t late_ns = now - MAX(own->unfinished_ns, begin_ns);
	const struct background_work beside = classes_background(piece->device->ordinal);

	own->ended_ns = now;
	if (is_comparable(&piece->beside, &beside) &&
		(late_ns <= LATE_NS || late_ns <= (now - begin_ns) / LATE_PART))
		elastic_note(piece->device, session->id, piece->work, now - begin_ns,
			piece->beside.groups, now);
}

void foreground_look(struct session *session, uint64_t now)
{
	struct foreground *own = session->foreground;

	while (own->n_ended != own->n_closed) {
		const struct piece_of_work *piece =
			&own->pieces[own->n_ended % FOREGROUND_PIECES_MAX];

		if (shm_load64(&session->page->timeline[piece->stream]) < piece->seqno) {
			own->unfinished_ns = now;
			return;
		}
		own->n_ended++;
		piece_end(session, piece, now);
	}
}

void foreground_note(struct session *session, const struct stream *stream, uint64_t work)
{
	struct foreground *own = session->foreground;
	struct piece_of_work *open = &own->open;
	uint64_t now = now_ns();

	elastic_note_foreground(stream->device, now);
	foreground_look(session, now);
	if (!open->device) {
		if (foreground_is_waiting(own) &&
			own->pieces[own->n_ended % FOREGROUND_PIECES_MAX].stream != stream->id)
			return;
		*open = (struct piece_of_work){
			.device = stream->device,
			.stream = stream->id,
			.begin_ns = now,
			.beside = classes_background(stream->device->ordinal),
		};
	}
	if (open->stream == stream->id)
		open->work = hash_bytes(open->work, &work, sizeof(work));
}

void foreground_close(struct session *session, uint32_t stream, uint64_t seqno)
{
	struct foreground *own = session->foreground;

	if (!own->open.device || own->open.stream != stream)
		return;
	own->open.seqno = seqno;
	if (own->n_closed - own->n_ended < FOREGROUND_PIECES_MAX)
		own->pieces[own->n_closed++ % FOREGROUND_PIECES_MAX] = own->open;
	own->open.device = NULL;
}

static void foreground_begin(struct session *session, void *part)
{
	session->foreground = part;
}

const struct session_part foreground_part = {
	.size = sizeof(struct foreground),
	.begin = foreground_begin,
};
