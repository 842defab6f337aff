/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The group command. Loop thread.
 *
 * Invariant: a group is changed by all that a command asks for, or not at all.
 */

#include <stdio.h>
#include <string.h>

#include "command_scope.h"
#include "command_conn.h"
#include "commands.h"
#include "daemon.h"
#include "groups.h"
#include "json.h"
#include "limit_text.h"
#include "conn.h"
#include "settings.h"

#define OPTIONS_ACCEPTED                                                                           \
	"-active_thread_percentage PERCENTAGE, -device_pinned_mem_limit DEVICE SIZE and "          \
	"-priority PRIORITY"

/* What a group will be. */
struct plan {
	bool is_new, has_uid;
	uid_t uid;
	struct settings settings;
	const char *unchecked; /* the name of a GPU that could not be looked up, or NULL */
};

/* ---- options */

static bool read_uid(struct peer *peer, const char *text, struct plan *plan)
{
	uint64_t uid;

	if (!plan->is_new) {
		commander_fail(peer, "A group keeps its UID: delete it and create it again");
		return false;
	}
	if (parse_number(text, UINT32_MAX - 1, &uid) < 0) {
		commander_fail(peer, "\"%s\" is not a user id (UID), which is a number", text);
		return false;
	}
	plan->has_uid = true;
	plan->uid = (uid_t)uid;
	return true;
}

static bool read_percentage(struct peer *peer, const char *text, struct plan *plan)
{
	if (parse_percentage(text, &plan->settings.active_threads) == 0)
		return true;
	commander_fail(peer,
		"\"%s\" is not a percentage: -active_thread_percentage takes " PERCENTAGE_ACCEPTED,
		text);
	return false;
}

static bool read_memory(struct peer *peer, const char *device, const char *size, struct plan *plan)
{
	const struct devices *devices = scope_devices(peer);
	uint64_t bytes = MEMORY_ALL;

	if (strcmp(size, "none") != 0 && parse_size(size, &bytes) < 0) {
		commander_fail(peer,
			"\"%s\" is not a size: -device_pinned_mem_limit takes a device and "
			"" SIZE_ACCEPTED ", or none",
			size);
		return false;
	}
	if (!scope_check_device(peer, devices, device))
		return false;
	if (settings_set_memory(&plan->settings, devices, device, bytes) < 0) {
		commander_fail(peer, "There are limits for %d devices, and more there cannot be",
			DEVICES_MAX);
		return false;
	}
	plan->unchecked = device;
	return true;
}

static bool read_priority(struct peer *peer, const char *text, struct plan *plan)
{
	if (parse_priority(text, &plan->settings.priority) == 0)
		return true;
	commander_fail(peer, "\"%s\" is not a priority: it " PRIORITY_ACCEPTED, text);
	return false;
}

/* One option, at word `i'. How many words it has; 0: it is answered. */
static size_t read_option(struct peer *peer, const struct words *words, size_t i, struct plan *plan)
{
	const char *option = words->word[i];
	size_t n_values = strcmp(option, "-device_pinned_mem_limit") == 0 ? 2 : 1;
	const char *value = i + 1 < words->n ? words->word[i + 1] : "";
	bool is_done = false;

	if (i + n_values >= words->n)
		commander_fail(peer,
			"%s needs a value, or there is no such option: there are -uid "
			"UID (of a new group), " OPTIONS_ACCEPTED,
			option);
	else if (n_values == 2)
		is_done = read_memory(peer, value, words->word[i + 2], plan);
	else if (strcmp(option, "-uid") == 0)
		is_done = read_uid(peer, value, plan);
	else if (strcmp(option, "-active_thread_percentage") == 0)
		is_done = read_percentage(peer, value, plan);
	else if (strcmp(option, "-priority") == 0)
		is_done = read_priority(peer, value, plan);
	else
		commander_fail(peer,
			"Unknown option \"%s\": there are -uid UID (of a new group), "
			"" OPTIONS_ACCEPTED,
			option);
	return is_done ? 1 + n_values : 0;
}

static bool read_options(struct peer *peer, const struct words *words, struct plan *plan)
{
	for (size_t i = 3; i < words->n;) {
		size_t n = read_option(peer, words, i, plan);

		if (n == 0)
			return false;
		i += n;
	}
	return true;
}

static void apply(struct peer *peer, struct group *group, const struct plan *plan)
{
	group->settings = plan->settings;
	groups_changed(peer->daemon, group);
	if (plan->unchecked)
		scope_note_unchecked(peer, scope_devices(peer), plan->unchecked);
}

/* ---- create, set, delete */

static void create(struct peer *peer, const struct words *words)
{
	struct groups *groups = &peer->daemon->groups;
	const char *name = words->word[2];
	struct plan plan = {.is_new = true};
	struct group *group;
	int r;

	if (!group_name_ok(name)) {
		commander_fail(
			peer, "\"%s\" is not a name of a group: it has " GROUP_NAME_ACCEPTED, name);
		return;
	}
	if (groups_find(groups, name)) {
		commander_fail(peer, "Group %s exists: change it with group set", name);
		return;
	}
	settings_init(&plan.settings);
	if (!read_options(peer, words, &plan))
		return;
	r = groups_add(groups, name, &group);
	if (r < 0) {
		commander_fail(peer,
			r == -ENOSPC ? "There are %d groups, and more there cannot be: delete one"
				     : "The daemon has no memory for a group beside %d others",
			(int)groups->n);
		return;
	}
	group->has_uid = plan.has_uid;
	group->uid = plan.uid;
	apply(peer, group, &plan);
}

static void set(struct peer *peer, const struct words *words)
{
	struct group *group = scope_find_group(peer, words->word[2]);
	struct plan plan = {0};

	if (!group)
		return;
	if (words->n == 3) {
		commander_fail(peer, "group set needs an option: there are " OPTIONS_ACCEPTED);
		return;
	}
	plan.settings = group->settings;
	if (read_options(peer, words, &plan))
		apply(peer, group, &plan);
}

static void delete (struct peer *peer, const struct words *words)
{
	struct group *group = scope_find_group(peer, words->word[2]);
	unsigned n = group ? groups_count_clients(peer->daemon, group) : 0;

	if (!group)
		return;
	if (n > 0)
		commander_fail(peer, "Group %s has %u clients: end them before", group->name, n);
	else
		groups_remove(peer->daemon, group);
}

/* ---- get, list */

static void format_uid(const struct group *group, char *text, size_t size)
{
	if (group->has_uid)
		snprintf(text, size, "%u", group->uid);
	else
		snprintf(text, size, "any");
}

static void format_priority(const struct group *group, char *text, size_t size)
{
	if (group->settings.priority >= 0)
		snprintf(text, size, "%d", group->settings.priority);
	else
		snprintf(text, size, "-");
}

static void format_share(const struct group *group, char *text, size_t size)
{
	if (group->settings.active_threads > 0)
		format_percentage(group->settings.active_threads, text, size);
	else
		snprintf(text, size, "-");
}

static void get(struct peer *peer, const struct words *words)
{
	const struct group *group = scope_find_group(peer, words->word[2]);
	char uid[16], priority[16], share[PERCENTAGE_TEXT], size[SIZE_TEXT_MAX];

	if (!group)
		return;
	format_uid(group, uid, sizeof(uid));
	format_priority(group, priority, sizeof(priority));
	format_share(group, share, sizeof(share));
	commander_reply(peer, "uid %s", uid);
	commander_reply(peer, "active_thread_percentage %s", share);
	for (unsigned i = 0; i < group->settings.n_memory; i++) {
		const struct memory_limit *limit = &group->settings.memory[i];

		format_size(limit->bytes, size, sizeof(size));
		commander_reply(peer, "device_pinned_mem_limit %s %s", limit->device, size);
	}
	commander_reply(peer, "priority %s", priority);
	commander_reply(peer, "clients %u", groups_count_clients(peer->daemon, group));
}

static void print_group(struct peer *peer, const struct group *group)
{
	char uid[16], priority[16], share[PERCENTAGE_TEXT];

	format_uid(group, uid, sizeof(uid));
	format_priority(group, priority, sizeof(priority));
	format_share(group, share, sizeof(share));
	commander_reply(peer, "%-31s %-11s %-11s %-9s %u", group->name, uid, share, priority,
		groups_count_clients(peer->daemon, group));
}

static void write_memory(struct json *json, const struct settings *settings)
{
	json_open(json, "device_pinned_mem_limit", '[');
	for (unsigned i = 0; i < settings->n_memory; i++) {
		json_open(json, NULL, '{');
		json_string(json, "device", settings->memory[i].device);
		json_number(json, "bytes", (int64_t)settings->memory[i].bytes);
		json_close(json, '}');
	}
	json_close(json, ']');
}

static void write_group(struct peer *peer, const struct group *group, struct json *json)
{
	const struct settings *settings = &group->settings;

	json_open(json, NULL, '{');
	json_string(json, "name", group->name);
	if (group->has_uid)
		json_number(json, "uid", group->uid);
	else
		json_null(json, "uid");
	if (settings->active_threads > 0)
		json_thousandths(json, "active_thread_percentage", settings->active_threads);
	else
		json_null(json, "active_thread_percentage");
	write_memory(json, settings);
	if (settings->priority >= 0)
		json_number(json, "priority", settings->priority);
	else
		json_null(json, "priority");
	json_number(json, "clients", groups_count_clients(peer->daemon, group));
	json_close(json, '}');
}

static void list_as_json(struct peer *peer)
{
	struct json json = {0};

	json_open(&json, NULL, '{');
	json_open(&json, "groups", '[');
	list_for_each (item, &peer->daemon->groups.list)
		write_group(peer, container_of(item, struct group, link), &json);
	json_close(&json, ']');
	json_close(&json, '}');
	scope_reply_json(peer, &json);
}

static void list(struct peer *peer, const struct words *words)
{
	if (words->n == 3 && strcmp(words->word[2], "--json") == 0) {
		list_as_json(peer);
		return;
	}
	if (words->n > 2) {
		commander_fail(peer, "Unknown option \"%s\": group list [--json]", words->word[2]);
		return;
	}
	commander_reply(peer, "%-31s %-11s %-11s %-9s %s", "NAME", "UID", "PERCENTAGE", "PRIORITY",
		"CLIENTS");
	list_for_each (item, &peer->daemon->groups.list)
		print_group(peer, container_of(item, struct group, link));
}

/* ---- all */

static const struct verb {
	const char *name;
	bool is_to_set;
	size_t n_min;
	void (*run)(struct peer *peer, const struct words *words);
} verbs[] = {
	{"create", true, 3, create},
	{"set", true, 3, set},
	{"get", false, 3, get},
	{"list", false, 2, list},
	{"delete", true, 3, delete},
};

void command_group(struct peer *peer, const struct words *words)
{
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++) {
		const struct verb *verb = &verbs[i];

		if (words->n < 2 || strcmp(words->word[1], verb->name) != 0)
			continue;
		if (words->n < verb->n_min)
			commander_fail(peer, "group %s needs the name of a group", verb->name);
		else if (!verb->is_to_set || scope_may_set(peer, words->word[0]))
			verb->run(peer, words);
		return;
	}
	commander_fail(peer, "Usage: group create|set|get|delete NAME, or group list: see help");
}
