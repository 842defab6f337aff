/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Walks through the list of the parts of a session. The loop and workers.
 *
 * Invariant: the list is constant, so no lock is needed.
 */

#include "session_part.h"

#include "base.h"

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

bool session_parts_are_settled(const struct session *session)
{
	for (const struct session_part *const *part = session_parts; *part; part++)
		if ((*part)->is_settled && !(*part)->is_settled(session))
			return false;
	return true;
}

const char *session_parts_obstacle(struct session *session)
{
	const char *reason = NULL;

	for (unsigned i = 0; session_parts[i] && !reason; i++)
		if (session_parts[i]->obstacle)
			reason = session_parts[i]->obstacle(session);
	return reason;
}

const char *session_parts_stay(const struct session *session)
{
	const char *reason = NULL;

	for (unsigned i = 0; session_parts[i] && !reason; i++)
		if (session_parts[i]->stays)
			reason = session_parts[i]->stays(session);
	return reason;
}

static unsigned n_parts(void)
{
	unsigned n = 0;

	while (session_parts[n])
		n++;
	return n;
}

int session_parts_pack(struct session *session, struct pack *pack)
{
	int r = 0;

	for (unsigned i = n_parts(); i-- > 0 && r == 0;)
		if (session_parts[i]->pack)
			r = session_parts[i]->pack(session, pack);
	return r;
}

int session_parts_check(struct session *session, struct pack *pack)
{
	int r = 0;

	for (unsigned i = n_parts(); i-- > 0 && r == 0;)
		if (session_parts[i]->check)
			r = session_parts[i]->check(session, pack);
	return r;
}

int session_parts_unpack(struct session *session, struct pack *pack)
{
	int r = 0;

	for (unsigned i = n_parts(); i-- > 0 && r == 0;)
		if (session_parts[i]->unpack)
			r = session_parts[i]->unpack(session, pack);
	return r;
}

int session_parts_join(struct session *session)
{
	int r = 0;

	for (unsigned i = 0; session_parts[i] && r == 0; i++)
		if (session_parts[i]->join)
			r = session_parts[i]->join(session);
	return r;
}

bool session_parts_need(const struct session *session, const struct session *other)
{
	for (unsigned i = 0; session_parts[i]; i++)
		if (session_parts[i]->needs && session_parts[i]->needs(session, other))
			return true;
	return false;
}
