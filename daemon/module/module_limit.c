/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Limits of namespaces, of protocol 3: they are those of a group. Loop thread.
 *
 * Invariant: a command sets all its limits, or none.
 */

#include <stdio.h>
#include <string.h>

#include "limit_text.h"
#include "modules.h"
#include "daemon/config/settings.h"
#include "daemon/state/daemon.h"
#include "daemon/state/groups.h"
#include "daemon/conn/conn.h"
#include "daemon/server/clients.h"
#include "daemon/server/group_shares.h"
#include "daemon/reply/command_reply.h"

#define UNLIMITED "unlimited"

/* ---- set */

/* One limit for each GPU of the machine. */
static bool set_memory(struct conn *conn, const char *text, struct settings *settings)
{
	const struct devices *devices = &conn->daemon->devices;
	bool is_unlimited = strcmp(text, UNLIMITED) == 0;
	char uuid[DEVICE_UUID_TEXT];
	uint64_t bytes;

	if (!is_unlimited && parse_size(text, &bytes) < 0)
		return command_fail(conn,
			"\"%s\" is not a size: --pinned-memory-limit takes " SIZE_ACCEPTED
			", or " UNLIMITED,
			text);
	if (!is_unlimited && devices->n == 0)
		return command_fail(
			conn, "The GPUs are not known: %s", conn->daemon->probe_failure.text);
	settings_unset(settings, SETTING_MEMORY);
	for (unsigned i = 0; i < devices->n && !is_unlimited; i++) {
		device_uuid_text(&devices->items[i], uuid);
		/* There is space: each GPU has one limit. */
		(void)settings_set_memory(settings, devices, uuid, bytes);
	}
	return true;
}

static bool set_soft_limit(struct conn *conn, const char *text, struct settings *settings)
{
	settings_unset(settings, SETTING_SOFT_LIMIT);
	if (strcmp(text, UNLIMITED) == 0 || parse_soft_limit(text, &settings->soft_limit) == 0)
		return true;
	return command_fail(conn,
		"\"%s\" is not a size: --soft-limit takes " SOFT_LIMIT_ACCEPTED ", or " UNLIMITED,
		text);
}

static bool set_percentage(struct conn *conn, const char *text, struct settings *settings)
{
	if (parse_percentage(text, &settings->active_threads) == 0)
		return true;
	return command_fail(conn,
		"\"%s\" is not a percentage: --active-thread-percentage takes " PERCENTAGE_ACCEPTED,
		text);
}

static bool set_priority(struct conn *conn, const char *text, struct settings *settings)
{
	if (parse_priority(text, &settings->priority) == 0)
		return true;
	return command_fail(conn, "\"%s\" is not a priority: it " PRIORITY_ACCEPTED, text);
}

static const struct {
	const char *key;
	bool (*set)(struct conn *conn, const char *text, struct settings *settings);
	bool is_at_once; /* also for clients that are there */
} limits[] = {
	{"pinned-memory-limit", set_memory, true},
	{"active-thread-percentage", set_percentage, false},
	{"client-priority", set_priority, false},
	{"soft-limit", set_soft_limit, true},
};

static void note_later(struct conn *conn, const char *key, const struct group *group)
{
	unsigned n = clients_count_group(conn->daemon, group->id);

	if (n > 0)
		command_note(conn,
			"--%s counts for clients that come from now on, and not for the %u that "
			"%s there",
			key, n, n > 1 ? "are" : "is");
}

bool module_set_limits(
	struct conn *conn, const struct tokens *tokens, struct group *group, bool has_more)
{
	struct settings settings = group->commands;
	const char *later = NULL;
	unsigned n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		const char *text = arguments_get(tokens, limits[i].key);

		if (text && !limits[i].set(conn, text, &settings))
			return false;
		n += text != NULL;
		if (text && !limits[i].is_at_once)
			later = limits[i].key;
	}
	if (n == 0 && !has_more)
		return command_fail(conn, "%s needs a limit:" MODULE_LIMITS, tokens->item[0]);
	group->commands = settings;
	group_shares_changed(conn->daemon, group);
	daemon_want(conn->daemon, WANT_RECORD);
	if (later)
		note_later(conn, later, group);
	return true;
}

/* ---- show */

void module_add_limits(struct table *table, const struct group *group)
{
	static const struct devices none;
	const struct settings settings = groups_settings(group, &none);
	uint32_t share = settings.active_threads ? settings.active_threads : ACTIVE_THREADS_ALL;
	char size[SIZE_TEXT_MAX] = UNLIMITED;

	if (settings.n_memory > 0)
		format_size(settings.memory[0].bytes, size, sizeof(size));
	table_add(table, "%s", size);
	table_add(table, "%u.%02u", share / 1000, share % 1000 / 10);
	table_add(table, "%d", MAX(settings.priority, 0));
}

void module_add_soft_limit(struct table *table, const struct group *group)
{
	static const struct devices none;
	const struct settings settings = groups_settings(group, &none);
	char size[SIZE_TEXT_MAX] = UNLIMITED;

	/* Each value is one that the option takes. */
	if (settings.soft_limit == 0)
		snprintf(size, sizeof(size), "0");
	else if (setting_is_set(&settings, SETTING_SOFT_LIMIT))
		format_size(settings.soft_limit, size, sizeof(size));
	table_add(table, "%s", size);
}
