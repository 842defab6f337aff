/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What sessions may use of GPUs. The loop.
 *
 * Invariant: the lowest of the limits of the client, of its user and of its group applies.
 */

#include "grant.h"

#include "sm_share.h"
#include "server/session/session.h"
#include "server/device/device.h"

/* The client sees as many SMs on a GPU as its partition has, of which percentages take none. */
static void grant_set_partition(struct session *session, uint32_t ordinal)
{
	struct device_facts __shm *facts = &session->page->device[ordinal];
	uint32_t n_sms = sm_share_of_partition(session, device_get(ordinal));
	const uint32_t undivided = 0;

	if (n_sms == 0)
		return;
	shm_copy_in(
		&facts->attribute[CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT], &n_sms, sizeof(n_sms));
	shm_copy_in(&facts->n_sm_groups, &undivided, sizeof(undivided));
}

static void lower(struct frame_limits *limits, const struct frame_limits *of_group)
{
	limits->active_threads = MIN(limits->active_threads, of_group->active_threads);
	limits->priority = MAX(limits->priority, of_group->priority);
	if (of_group->oversubscribe != OVERSUBSCRIBE_UNSET)
		limits->oversubscribe = of_group->oversubscribe;
}

void grant_set_moved(
	struct session *session, const struct frame_limits *limits, struct group *group)
{
	struct frame_limits *own = &session->limits;

	*own = *limits;
	own->active_threads = MIN(MAX(own->active_threads, 1u), ACTIVE_THREADS_ALL);
	session->group = group;
	session->group_threads = group ? group->limits.active_threads : ACTIVE_THREADS_ALL;
	shm_store32(&session->page->active_threads, own->active_threads);
	for (uint32_t i = 0; i < devices_count(); i++)
		if (sm_share_is_partitioned(session, device_get(i)))
			grant_set_partition(session, i);
	grant_publish_memory(session);
}

void grant_set(struct session *session, const struct frame_limits *limits, struct group *group)
{
	struct frame_limits lowest = *limits;

	if (group)
		lower(&lowest, &group->limits);
	grant_set_moved(session, &lowest, group);
}

static uint64_t group_memory_limit(const struct session *session, uint32_t ordinal)
{
	uint64_t limit = UINT64_MAX;

	for (unsigned i = 0; i < MEMBERSHIPS_MAX; i++) {
		const struct group *group = session_group(session, i);

		if (group)
			limit = MIN(limit, quota_limit(&group->memory[ordinal]));
	}
	return limit;
}

void grant_publish_memory(struct session *session)
{
	for (uint32_t i = 0; i < devices_count(); i++) {
		uint64_t total = MIN(device_get(i)->facts.total_memory, session->limits.memory[i]);

		total = MIN(total, group_memory_limit(session, i));
		shm_store64(&session->page->device[i].total_memory, total);
	}
}

uint64_t grant_memory_limit(const struct session *session, uint32_t ordinal)
{
	return MIN(session->grants[ordinal].memory, group_memory_limit(session, ordinal));
}
