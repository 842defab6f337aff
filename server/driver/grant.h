/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GRANT_H
#define GRANT_H

/*
 * What a session may use of GPUs: the limits that it starts with, and those of its group,
 * which may change. The loop.
 */

#include <stdint.h>

struct frame_limits;
struct group;
struct session;

/*
 * Before the client is welcomed and the worker starts: the least of both limits holds, also in
 * what the client is told of its GPUs. Takes the reference to `group', which may be NULL.
 */
void session_limit(struct session *session, const struct frame_limits *limits, struct group *group);

/* The loop, when the group's limits have changed: tells the client how much memory its GPUs have.
 */
void session_notify_memory(struct session *session);

/* The loop: what the session may have of a GPU that it has opened. UINT64_MAX: there is no limit.
 */
uint64_t session_memory_limit(const struct session *session, uint32_t ordinal);

#endif
