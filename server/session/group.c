/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The table of groups. The loop, except for references.
 *
 * Invariant: memory is charged to an entry only with a reference. So an entry without
 * references can be used for another group.
 */

#include "group.h"

#include <string.h>

#include "bounds.h"
#include "server/util/log.h"

/* Groups and cgroups have one kind of entry. */
#define N_ENTRIES (GROUPS_MAX + CGROUPS_MAX)

static struct group groups[N_ENTRIES];
static uint32_t daemon_count;

static bool is_used(const struct group *group)
{
	return group->name[0] != '\0';
}

static struct group *find_id(uint32_t id)
{
	for (unsigned i = 0; id != 0 && i < N_ENTRIES; i++)
		if (groups[i].id == id)
			return &groups[i];
	return NULL;
}

/*
 * A group that an earlier daemon has sent. The users of one daemon may have groups with the
 * same name.
 */
static struct group *find_earlier(const char *name)
{
	for (unsigned i = 0; i < N_ENTRIES; i++)
		if (is_used(&groups[i]) && groups[i].daemon != daemon_count &&
			strcmp(groups[i].name, name) == 0)
			return &groups[i];
	return NULL;
}

/* An entry that was never used, or one without members. NULL: all have members. */
static struct group *find_free(void)
{
	struct group *found = NULL;

	for (unsigned i = 0; i < N_ENTRIES; i++) {
		if (!is_used(&groups[i]))
			return &groups[i];
		if (!found && atomic_load(&groups[i].refs) == 0)
			found = &groups[i];
	}
	return found;
}

struct group *group_next(const struct group *group)
{
	for (unsigned i = group ? (unsigned)(group - groups) + 1 : 0; i < N_ENTRIES; i++)
		if (is_used(&groups[i]))
			return &groups[i];
	return NULL;
}

void groups_meet_daemon(void)
{
	daemon_count++;
	for (unsigned i = 0; i < N_ENTRIES; i++)
		if (atomic_load(&groups[i].refs) == 0)
			groups[i] = (struct group){0};
}

bool groups_have_met_daemon(void)
{
	return daemon_count > 0;
}

bool group_is_known(const struct group *group)
{
	return group->id != 0 && group->daemon == daemon_count;
}

static struct group *find_or_make(const struct frame_group *frame, uint32_t *ret_forgotten)
{
	struct group *group = find_id(frame->id);

	if (group && group->daemon == daemon_count)
		return group;
	if (group)
		group->id = 0;
	group = find_earlier(frame->name);
	if (group)
		return group;
	group = find_free();
	if (!group)
		return NULL;
	*ret_forgotten = group_is_known(group) ? group->id : 0;
	*group = (struct group){0};
	memcpy(group->name, frame->name, sizeof(group->name));
	for (unsigned i = 0; i < DEVICES_MAX; i++)
		group->memory[i].is_common = true;
	return group;
}

bool group_set(const struct frame_group *frame, uint32_t *ret_forgotten)
{
	const struct frame_limits *limits = &frame->limits;
	struct group *group;

	*ret_forgotten = 0;
	if (frame->id == 0 || !frame->name[0] || !frame_text_ok(frame->name, sizeof(frame->name)) ||
		limits->active_threads == 0 || limits->active_threads > ACTIVE_THREADS_ALL) {
		log_line("The daemon sent a group with a wrong ID, name or limit");
		return false;
	}
	group = find_or_make(frame, ret_forgotten);
	if (!group) {
		log_line("All %d groups have clients: "
			 "group %u gets no limits in this server, and its clients are refused",
			N_ENTRIES, frame->id);
		return false;
	}
	group->id = frame->id;
	group->daemon = daemon_count;
	group->is_cgroup = frame->is_cgroup != 0;
	memcpy(group->name, frame->name, sizeof(group->name));
	group->limits = *limits;
	for (unsigned i = 0; i < DEVICES_MAX; i++)
		atomic_store(&group->soft[i], limits->soft[i]);
	lease_set_limits(group, limits->memory);
	return true;
}

struct group *group_find(uint32_t id)
{
	struct group *group = find_id(id);

	return group ? group_ref(group) : NULL;
}

struct group *group_ref(struct group *group)
{
	atomic_fetch_add(&group->refs, 1);
	return group;
}

void group_unref(struct group *group)
{
	if (group)
		atomic_fetch_sub(&group->refs, 1);
}
