/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ALIAS_H
#define ALIAS_H

/*
 * Aliases: files of shared memory that the client has mapped and registered. The server maps
 * and pins them at addresses of the host space, which the GPU uses. The session's worker
 * only.
 */

#include "server/driver/driver.h"

struct session;
struct alias;
struct alias_run;
struct alias_file;

/* The aliases of a session. Zero-initialised is empty. */
struct aliases {
	struct alias_run *runs;
	struct alias_file *files;
	struct alias *closing; /* ended by the client; they wait for work queued earlier */
};

/* Whether all these bytes, in the host space, lie in one alias. */
bool alias_has(const struct session *session, uint64_t address, uint64_t size);

/* Frees the closing aliases whose work has ended. */
void aliases_poll(struct session *session);

#endif
