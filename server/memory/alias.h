/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ALIAS_H
#define ALIAS_H

/*
 * Aliases: files of shared memory that the client has mapped and registered,
 * mapped and pinned here at addresses of the host space, which are the GPU's.
 * The session's worker only.
 */

#include "server/driver/driver.h"

struct session;
struct session_room;
struct alias;
struct alias_run;

/* Of a session. Zero-initialised is none. */
struct aliases {
	struct alias_run *runs;
	struct alias *going; /* ended by the client; they wait for work that was queued before */
	uint32_t n;
};

/* Whether all these bytes, in the host space, lie in one alias. */
bool alias_has(const struct session *session, uint64_t address, uint64_t size);

/* Units of the host space that aliases have. */
uint64_t alias_units(const struct session *session);

/* Gives back those of which the work has ended. */
void aliases_poll(struct session *session);

/* What is done for each session: see session_room.h. */
extern const struct session_room aliases_room;

#endif
