/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The group command. Loop thread.
 *
 * Invariant: a command applies all its changes to a group, or none.
 */

#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "limit_text.h"
#include "daemon/config/settings.h"
#include "daemon/state/daemon.h"
#include "daemon/state/groups.h"
#include "daemon/conn/conn.h"
#include "daemon/server/clients.h"
#include "daemon/server/group_shares.h"
#include "daemon/server/state_text.h"
#include "daemon/reply/command_reply.h"
#include "daemon/reply/command_scope.h"

#define OPTIONS_ACCEPTED                                                                           \
	"-active_thread_percentage PERCENTAGE, -device_pinned_mem_limit DEVICE SIZE and "          \
	"-priority PRIORITY"

/* The new state of a group. */
struct change {
	bool is_new, has_uid;
	uid_t uid;
	struct settings commands;
	const char *unchecked; /* a GPU's name that could not be looked up, or NULL */
};

/* ---- options */

static bool group_read_uid(struct conn *conn, const char *text, struct change *change)
{
	uint64_t uid;

	if (!change->is_new)
		return command_fail(conn,
			"The UID of a group cannot change: delete the group and create it again");
	if (parse_number(text, UINT32_MAX - 1, &uid) < 0)
		return command_fail(conn, "\"%s\" is not a user id (UID): a UID is a number", text);
	change->has_uid = true;
	change->uid = (uid_t)uid;
	return true;
}

static bool group_read_percentage(struct conn *conn, const char *text, struct change *change)
{
	if (parse_percentage(text, &change->commands.active_threads) == 0)
		return true;
	return command_fail(conn,
		"\"%s\" is not a percentage: -active_thread_percentage takes " PERCENTAGE_ACCEPTED,
		text);
}

static bool group_read_memory(
	struct conn *conn, const char *device, const char *size, struct change *change)
{
	const struct devices *devices = &conn->daemon->devices;
	uint64_t bytes = MEMORY_ALL;

	if (strcmp(size, "none") != 0 && parse_size(size, &bytes) < 0)
		return command_fail(conn,
			"\"%s\" is not a size: -device_pinned_mem_limit takes a device and "
			"" SIZE_ACCEPTED ", or none",
			size);
	if (!scope_check_device(conn, devices, device))
		return false;
	if (settings_set_memory(&change->commands, devices, device, bytes) < 0)
		return command_fail(
			conn, "Limits are set for %d devices, which is the maximum", DEVICES_MAX);
	change->unchecked = device;
	return true;
}

static bool group_read_priority(struct conn *conn, const char *text, struct change *change)
{
	if (parse_priority(text, &change->commands.priority) == 0)
		return true;
	return command_fail(conn, "\"%s\" is not a priority: it " PRIORITY_ACCEPTED, text);
}

/* Reads the option at token `i'. Returns its number of tokens, or 0 after answering an error. */
static size_t group_read_option(
	struct conn *conn, const struct tokens *tokens, size_t i, struct change *change)
{
	const char *option = tokens->item[i];
	size_t n_values = strcmp(option, "-device_pinned_mem_limit") == 0 ? 2 : 1;
	const char *value = i + 1 < tokens->n ? tokens->item[i + 1] : "";
	bool is_done = false;

	if (i + n_values >= tokens->n)
		command_fail(conn,
			"%s needs a value or is not an option: the options are -uid UID (of a new "
			"group), " OPTIONS_ACCEPTED,
			option);
	else if (n_values == 2)
		is_done = group_read_memory(conn, value, tokens->item[i + 2], change);
	else if (strcmp(option, "-uid") == 0)
		is_done = group_read_uid(conn, value, change);
	else if (strcmp(option, "-active_thread_percentage") == 0)
		is_done = group_read_percentage(conn, value, change);
	else if (strcmp(option, "-priority") == 0)
		is_done = group_read_priority(conn, value, change);
	else
		command_fail(conn,
			"Unknown option \"%s\": the options are -uid UID (of a new "
			"group), " OPTIONS_ACCEPTED,
			option);
	return is_done ? 1 + n_values : 0;
}

static bool group_read_options(
	struct conn *conn, const struct tokens *tokens, struct change *change)
{
	for (size_t i = 3; i < tokens->n;) {
		size_t n = group_read_option(conn, tokens, i, change);

		if (n == 0)
			return false;
		i += n;
	}
	return true;
}

static void group_apply(struct conn *conn, struct group *group, const struct change *change)
{
	group->commands = change->commands;
	group_shares_changed(conn->daemon, group);
	servers_record(conn->daemon);
	if (change->unchecked)
		scope_note_unchecked(conn, &conn->daemon->devices, change->unchecked);
}

/* ---- create, set, delete */

static void group_create(struct conn *conn, const struct tokens *tokens)
{
	struct groups *groups = &conn->daemon->groups;
	const char *name = tokens->item[2];
	struct change change = {.is_new = true};
	struct group *group;
	int r;

	if (!group_name_ok(name)) {
		command_fail(conn,
			"\"%s\" is not a valid group name: it must have " GROUP_NAME_ACCEPTED,
			name);
		return;
	}
	if (groups_find(groups, name)) {
		command_fail(conn, "Group %s already exists: change it with group set", name);
		return;
	}
	settings_init(&change.commands);
	if (!group_read_options(conn, tokens, &change))
		return;
	r = groups_add(groups, name, &group);
	if (r < 0) {
		command_fail(conn,
			r == -ENOSPC ? "There are %d groups, which is the maximum: delete one"
				     : "The daemon is out of memory: it cannot add a group to the "
				       "existing %d",
			(int)groups->n);
		return;
	}
	group->has_uid = change.has_uid;
	group->uid = change.uid;
	group_apply(conn, group, &change);
}

static void group_set(struct conn *conn, const struct tokens *tokens)
{
	struct group *group = scope_find_group(conn, tokens->item[2]);
	struct change change = {0};

	if (!group)
		return;
	if (tokens->n == 3) {
		command_fail(conn, "group set needs an option: the options are " OPTIONS_ACCEPTED);
		return;
	}
	change.commands = group->commands;
	if (group_read_options(conn, tokens, &change))
		group_apply(conn, group, &change);
}

static void group_delete(struct conn *conn, const struct tokens *tokens)
{
	struct group *group = scope_find_group(conn, tokens->item[2]);
	unsigned n = group ? clients_count_group(conn->daemon, group->id) : 0;

	if (!group)
		return;
	if (group->namespace) {
		command_fail(
			conn, "Group %s is a namespace: namespace delete ends it", group->name);
		return;
	}
	if (n > 0) {
		command_fail(conn, "Group %s has %u clients: end them first", group->name, n);
		return;
	}
	group_shares_remove(&conn->daemon->groups, group);
	servers_record(conn->daemon);
}

/* ---- get, list */

struct row {
	char uid[16], priority[16], percentage[PERCENTAGE_TEXT];
};

static struct row group_row(const struct group *group, const struct settings *settings)
{
	struct row row = {.uid = "any", .priority = "-", .percentage = "-"};

	if (group->has_uid)
		snprintf(row.uid, sizeof(row.uid), "%u", group->uid);
	if (settings->priority >= 0)
		snprintf(row.priority, sizeof(row.priority), "%d", settings->priority);
	if (settings->active_threads > 0)
		format_percentage(settings->active_threads, row.percentage, sizeof(row.percentage));
	return row;
}

static void group_get(struct conn *conn, const struct tokens *tokens)
{
	const struct group *group = scope_find_group(conn, tokens->item[2]);
	char size[SIZE_TEXT_MAX];
	struct settings settings;
	struct row row;

	if (!group)
		return;
	settings = groups_settings(group, &conn->daemon->devices);
	row = group_row(group, &settings);
	command_reply(conn, "uid %s", row.uid);
	command_reply(conn, "active_thread_percentage %s", row.percentage);
	for (unsigned i = 0; i < settings.n_memory; i++) {
		const struct memory_limit *limit = &settings.memory[i];

		format_size(limit->bytes, size, sizeof(size));
		command_reply(conn, "device_pinned_mem_limit %s %s", limit->device, size);
	}
	command_reply(conn, "priority %s", row.priority);
	command_reply(conn, "clients %u", clients_count_group(conn->daemon, group->id));
}

static void group_print(struct conn *conn, const struct group *group)
{
	const struct settings settings = groups_settings(group, &conn->daemon->devices);
	const struct row row = group_row(group, &settings);

	command_reply(conn, "%-31s %-11s %-11s %-9s %u", group->name, row.uid, row.percentage,
		row.priority, clients_count_group(conn->daemon, group->id));
}

static json_t *group_memory_json(const struct settings *settings)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < settings->n_memory; i++)
		json_add(&list,
			json_pack("{s:o s:o}", "device", json_text(settings->memory[i].device),
				"bytes", json_amount(settings->memory[i].bytes)));
	return list;
}

static json_t *group_json(const struct conn *conn, const struct group *group)
{
	const struct settings settings = groups_settings(group, &conn->daemon->devices);

	return json_pack("{s:s s:o s:o s:o s:o s:o}", "name", group->name, "uid",
		group->has_uid ? json_integer(group->uid) : json_null(), "active_thread_percentage",
		settings.active_threads > 0 ? json_real(settings.active_threads / 1000.0)
					    : json_null(),
		"device_pinned_mem_limit", group_memory_json(&settings), "priority",
		settings.priority >= 0 ? json_integer(settings.priority) : json_null(), "clients",
		json_integer(clients_count_group(conn->daemon, group->id)));
}

static void group_list_as_json(struct conn *conn)
{
	json_t *groups = json_array();

	list_each (struct group, group, &conn->daemon->groups.list, link)
		json_add(&groups, group_json(conn, group));
	scope_reply_json(conn, json_pack("{s:o}", "groups", groups));
}

static void list(struct conn *conn, const struct tokens *tokens)
{
	if (tokens->n == 3 && strcmp(tokens->item[2], "--json") == 0) {
		group_list_as_json(conn);
		return;
	}
	if (tokens->n > 2) {
		command_fail(conn, "Unknown option \"%s\": group list [--json]", tokens->item[2]);
		return;
	}
	command_reply(conn, "%-31s %-11s %-11s %-9s %s", "NAME", "UID", "PERCENTAGE", "PRIORITY",
		"CLIENTS");
	list_each (struct group, group, &conn->daemon->groups.list, link)
		group_print(conn, group);
}

/* ---- dispatch */

static const struct verb {
	const char *name;
	bool is_to_set;
	size_t n_min;
	void (*run)(struct conn *conn, const struct tokens *tokens);
} verbs[] = {
	{"create", true, 3, group_create},
	{"set", true, 3, group_set},
	{"get", false, 3, group_get},
	{"list", false, 2, list},
	{"delete", true, 3, group_delete},
};

void command_group(struct conn *conn, const struct tokens *tokens)
{
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++) {
		const struct verb *verb = &verbs[i];

		if (tokens->n < 2 || strcmp(tokens->item[1], verb->name) != 0)
			continue;
		if (tokens->n < verb->n_min)
			command_fail(conn, "group %s needs a group name", verb->name);
		else if (!verb->is_to_set || scope_permits_config(conn, tokens->item[0]))
			verb->run(conn, tokens);
		return;
	}
	command_fail(conn, "Usage: group create|set|get|delete NAME, or group list: see help");
}
