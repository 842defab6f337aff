/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Walks through the list of the parts of a session. The loop and workers.
 *
 * Invariant: the list is constant, so no lock is needed.
 */

#include "session_part.h"

#include "base.h"

/* Each part of the list that has this function, as `part'. */
#define part_each(list, function)                                                                  \
	for (const struct session_part *const *part = (list); *part; part++)                       \
		if ((*part)->function)

/* The memory of a part may begin with any type. */
#define PART_SIZE(part) ALIGN_UP((part)->size, _Alignof(max_align_t))

size_t session_parts_size(void)
{
	size_t size = 0;

	for (const struct session_part *const *part = session_parts; *part; part++)
		size += PART_SIZE(*part);
	return size;
}

uint64_t session_parts_kept(void)
{
	uint64_t kept = 0;

	for (const struct session_part *const *part = session_parts; *part; part++)
		kept += (*part)->kept;
	return kept;
}

void session_parts_begin(struct session *session, void *memory)
{
	uint8_t *at = memory;

	for (const struct session_part *const *part = session_parts; *part; part++) {
		if ((*part)->begin)
			(*part)->begin(session, at);
		at += PART_SIZE(*part);
	}
}

void session_parts_rest(struct session *session)
{
	part_each (session_parts, rest)
		(*part)->rest(session);
}

bool session_parts_are_settled(const struct session *session)
{
	part_each (session_parts, is_settled)
		if (!(*part)->is_settled(session))
			return false;
	return true;
}

void session_parts_poll(struct session *session)
{
	part_each (session_parts, poll)
		(*part)->poll(session);
}

void session_parts_trim(struct session *session, bool all)
{
	part_each (session_parts, trim)
		(*part)->trim(session, all);
}

void session_parts_release(struct session *session)
{
	part_each (session_parts, release)
		(*part)->release(session);
}

void session_parts_stream_end(struct stream *stream, bool device_lost)
{
	part_each (session_parts, stream_end)
		(*part)->stream_end(stream, device_lost);
}

void session_parts_code_end(struct session *session)
{
	part_each (session_parts, code_end)
		(*part)->code_end(session);
}

void session_parts_fault(void)
{
	part_each (session_parts, fault)
		(*part)->fault();
}

void session_parts_end(struct session *session, bool device_lost)
{
	part_each (session_parts, end)
		(*part)->end(session, device_lost);
}
