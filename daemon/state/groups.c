/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Groups. Loop thread.
 *
 * Invariant: no two groups have the same name or the same id.
 */

#include "groups.h"

#include <string.h>
#include <sys/random.h>

#include "dmem.h"

void groups_init(struct groups *groups)
{
	*groups = (struct groups){0};
	list_init(&groups->list);
	list_init(&groups->cgroups);
	/* A fallback without the system's random numbers. */
	if (getrandom(&groups->last_id, sizeof(groups->last_id), GRND_NONBLOCK) < 0)
		groups->last_id = (uint32_t)getpid() << 12;
}

void groups_fini(struct groups *groups)
{
	list_each_safe (struct group, group, &groups->list, link)
		groups_remove(groups, group);
	list_each_safe (struct group, group, &groups->cgroups, link)
		groups_remove(groups, group);
}

static struct group *find_name(const struct list *list, const char *name)
{
	list_each (struct group, group, list, link)
		if (strcmp(group->name, name) == 0)
			return group;
	return NULL;
}

struct group *groups_find(const struct groups *groups, const char *name)
{
	return find_name(&groups->list, name);
}

struct group *groups_find_cgroup(const struct groups *groups, const char *name)
{
	return find_name(&groups->cgroups, name);
}

static struct group *find_id(const struct list *list, uint32_t id)
{
	list_each (struct group, group, list, link)
		if (group->id == id)
			return group;
	return NULL;
}

struct group *groups_get(const struct groups *groups, uint32_t id)
{
	struct group *group = find_id(&groups->list, id);

	return group ? group : find_id(&groups->cgroups, id);
}

struct group *groups_find_above(const struct groups *groups, const char *path)
{
	struct group *found = NULL;

	list_each (struct group, group, &groups->list, link)
		if (group_name_is_above(group->name, path) &&
			(!found || strlen(group->name) > strlen(found->name)))
			found = group;
	return found;
}

static uint32_t next_group_id(struct groups *groups)
{
	do
		groups->last_id++;
	while (groups->last_id == 0 || groups_get(groups, groups->last_id));
	return groups->last_id;
}

static struct group *group_new(struct groups *groups, const char *name)
{
	struct group *group = calloc(1, sizeof(*group));

	if (!group)
		return NULL;
	group->id = next_group_id(groups);
	list_init(&group->shares);
	settings_init(&group->file);
	settings_init(&group->commands);
	snprintf(group->name, sizeof(group->name), "%s", name);
	return group;
}

int groups_add(struct groups *groups, const char *name, struct group **ret_group)
{
	struct group *group;

	if (groups->n >= GROUPS_MAX)
		return -ENOSPC;
	group = group_new(groups, name);
	if (!group)
		return -ENOMEM;
	list_add_tail(&groups->list, &group->link);
	groups->n++;
	*ret_group = group;
	return 0;
}

int groups_add_cgroup(
	struct groups *groups, const char *name, struct dmem *dmem, struct group **ret_group)
{
	struct group *group = groups->n_cgroups < CGROUPS_MAX ? group_new(groups, name) : NULL;

	if (!group) {
		dmem_free(dmem);
		return groups->n_cgroups < CGROUPS_MAX ? -ENOMEM : -ENOSPC;
	}
	group->dmem = dmem;
	list_add_tail(&groups->cgroups, &group->link);
	groups->n_cgroups++;
	*ret_group = group;
	return 0;
}

struct settings groups_settings(const struct group *group, const struct devices *devices)
{
	const struct settings *const layers[LAYERS] = {
		[LAYER_SECTION] = &group->file,
		[LAYER_COMMAND] = &group->commands,
	};

	return settings_fold(layers, devices);
}

void groups_remove(struct groups *groups, struct group *group)
{
	list_remove(&group->link);
	if (group->dmem)
		groups->n_cgroups--;
	else
		groups->n--;
	dmem_free(group->dmem);
	free(group);
}
