/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Walks through the list of what rooms do for each session. The loop and workers.
 *
 * Invariant: the list is constant, so no lock is needed.
 */

#include "session_room.h"

#include "base.h"

/* A part may begin with any type. */
#define PART_SIZE(room) ALIGN_UP((room)->size, _Alignof(max_align_t))

size_t session_rooms_size(void)
{
	size_t size = 0;

	for (const struct session_room *const *room = session_rooms; *room; room++)
		size += PART_SIZE(*room);
	return size;
}

uint64_t session_rooms_kept(void)
{
	uint64_t kept = 0;

	for (const struct session_room *const *room = session_rooms; *room; room++)
		kept += (*room)->kept;
	return kept;
}

void session_rooms_begin(struct session *session, void *parts)
{
	uint8_t *part = parts;

	for (const struct session_room *const *room = session_rooms; *room; room++) {
		if ((*room)->begin)
			(*room)->begin(session, part);
		part += PART_SIZE(*room);
	}
}

void session_rooms_rest(struct session *session)
{
	for (const struct session_room *const *room = session_rooms; *room; room++)
		if ((*room)->rest)
			(*room)->rest(session);
}

void session_rooms_release(struct session *session)
{
	for (const struct session_room *const *room = session_rooms; *room; room++)
		if ((*room)->release)
			(*room)->release(session);
}

void session_rooms_stream_end(struct stream *stream, bool device_lost)
{
	for (const struct session_room *const *room = session_rooms; *room; room++)
		if ((*room)->stream_end)
			(*room)->stream_end(stream, device_lost);
}

void session_rooms_code_end(struct session *session)
{
	for (const struct session_room *const *room = session_rooms; *room; room++)
		if ((*room)->code_end)
			(*room)->code_end(session);
}

void session_rooms_fault(void)
{
	for (const struct session_room *const *room = session_rooms; *room; room++)
		if ((*room)->fault)
			(*room)->fault();
}

void session_rooms_end(struct session *session, bool device_lost)
{
	for (const struct session_room *const *room = session_rooms; *room; room++)
		if ((*room)->end)
			(*room)->end(session, device_lost);
}
