/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GRANT_H
#define GRANT_H

/*
 * What a session may use of GPUs: its limits at the start, and those of its group, which may
 * change. The loop.
 */

#include <stdint.h>

struct frame_limits;
struct group;
struct session;

/*
 * Before the client is welcomed and the worker starts. The lower of both limits applies,
 * also to the facts of GPUs that the client sees. Takes the reference to `group', which may
 * be NULL. session::cgroups are set before.
 */
void grant_set(struct session *session, const struct frame_limits *limits, struct group *group);

/* The same of a client of another server, for which the limits are those that it has there. */
void grant_set_moved(
	struct session *session, const struct frame_limits *limits, struct group *group);

/*
 * The loop, when the group's limits have changed: writes into the page how much memory the
 * GPUs have.
 */
void grant_publish_memory(struct session *session);

/*
 * The loop: how much memory the session may have on a GPU that it has opened. UINT64_MAX: no
 * limit.
 */
uint64_t grant_memory_limit(const struct session *session, uint32_t ordinal);

#endif
