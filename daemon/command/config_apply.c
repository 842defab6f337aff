/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Limits of the configuration file. main() before the loop, then the loop
 * thread.
 *
 * Invariant: what a command has set, and the file does not mention, stays.
 */

#include "config_apply.h"

#include <stdio.h>

#include "daemon/state/daemon.h"
#include "daemon/state/groups.h"
#include "daemon/state/tenant.h"
#include "daemon/server/clients.h"
#include "daemon/server/group_shares.h"
#include "daemon/server/server.h"
#include "daemon/server/state_text.h"

static const struct settings no_settings = SETTINGS_NONE;

/* ---- what has changed */

/* Reports each value that has changed; whether there is any. `commands' are those before. */
static bool report_changes(const struct daemon *daemon, const char *subject,
	const struct settings *before, const struct settings *commands, const struct settings *now,
	const struct config_report *report)
{
	char old[SETTING_TEXT_MAX], new[SETTING_TEXT_MAX];
	bool has_changed = false;

	for (enum setting setting = 0; setting < SETTINGS; setting++) {
		if (setting_is_equal(before, now, setting, &daemon->devices))
			continue;
		has_changed = true;
		setting_format(before, setting, old);
		setting_format(now, setting, new);
		config_report(report, "%s: %s: %.300s (was %.300s%s)", subject,
			setting_name(setting), new, old,
			setting_is_set(commands, setting) ? ", which a command had set" : "");
	}
	return has_changed;
}

/* Names of GPUs can be checked once the GPUs are known. */
static void report_unknown_devices(const struct daemon *daemon, const struct config_report *report)
{
	const struct frame_device *device;
	char list[512];

	if (!devices_are_complete(&daemon->devices))
		return;
	devices_list(&daemon->devices, list, sizeof(list));
	for (unsigned i = 0; i < daemon->config_file.n_sections; i++) {
		const struct config_section *section = &daemon->config_file.sections[i];

		for (unsigned j = 0; j < section->settings.n_memory; j++) {
			const char *name = section->settings.memory[j].device;

			if (devices_find(&daemon->devices, name, &device) < 0)
				config_report(report,
					"line %u: the limit of device \"%s\" has no effect: the "
					"devices are %s",
					section->lines[SETTING_MEMORY], name, list);
		}
	}
}

/* ---- the defaults */

/* What [default] sets, without what the environment sets. */
static struct settings file_defaults(
	const struct config_file *file, const struct config_report *report)
{
	const struct config_section *section = config_file_find(file, SECTION_DEFAULT, "");
	struct settings settings;

	settings_init(&settings);
	if (!section)
		return settings;
	settings = section->settings;
	for (enum setting setting = 0; setting < SETTINGS; setting++) {
		if (section->lines[setting] == 0 || !setting_is_in_environment(setting))
			continue;
		settings_unset(&settings, setting);
		config_report(report,
			"line %u: %s has no effect, as %s is set in the daemon's environment",
			section->lines[setting], setting_name(setting), setting_variable(setting));
	}
	return settings;
}

/*
 * A running server has its own copy of the commands about the defaults. It gets the present
 * ones of each limit that the file mentions, or mentioned before.
 */
static void renew_servers(struct daemon *daemon, const struct settings *old_file)
{
	list_each (struct server, server, &daemon->servers, link_in_daemon) {
		settings_take(&server->default_commands, &daemon->default_commands, old_file,
			&daemon->devices);
		settings_take(&server->default_commands, &daemon->default_commands,
			&daemon->default_file, &daemon->devices);
	}
}

static void apply_defaults(struct daemon *daemon, const struct config_report *report)
{
	const struct settings before = default_settings(daemon);
	const struct settings commands = daemon->default_commands;
	const struct settings old_file = daemon->default_file;
	struct settings now;

	daemon->default_file = file_defaults(&daemon->config_file, report);
	settings_take(
		&daemon->default_commands, &no_settings, &daemon->default_file, &daemon->devices);
	renew_servers(daemon, &old_file);
	now = default_settings(daemon);
	report_changes(daemon, "default", &before, &commands, &now, report);
}

/* ---- users */

static void report_user(const struct daemon *daemon, const struct config_section *before,
	const struct config_section *now, const struct config_report *report)
{
	char subject[GROUP_NAME_MAX + 16];

	snprintf(subject, sizeof(subject), "user %s", now ? now->name : before->name);
	report_changes(daemon, subject, before ? &before->settings : &no_settings, &no_settings,
		now ? &now->settings : &no_settings, report);
}

static void report_users(const struct daemon *daemon, const struct config_file *old,
	const struct config_report *report)
{
	const struct config_file *new = &daemon->config_file;

	for (unsigned i = 0; i < new->n_sections; i++)
		if (new->sections[i].kind == SECTION_USER)
			report_user(daemon, config_file_find_user(old, new->sections[i].uid),
				&new->sections[i], report);
	for (unsigned i = 0; i < old->n_sections; i++)
		if (old->sections[i].kind == SECTION_USER &&
			!config_file_find_user(new, old->sections[i].uid))
			report_user(daemon, &old->sections[i], NULL, report);
}

/* ---- groups */

static void apply_group_settings(struct daemon *daemon, struct group *group,
	const struct settings *file, const struct config_report *report)
{
	const struct settings before = groups_settings(group, &daemon->devices);
	const struct settings commands = group->commands;
	char subject[GROUP_NAME_MAX + 16];
	struct settings now;

	group->file = *file;
	settings_take(&group->commands, &no_settings, file, &daemon->devices);
	now = groups_settings(group, &daemon->devices);
	snprintf(subject, sizeof(subject), "group %s", group->name);
	if (report_changes(daemon, subject, &before, &commands, &now, report))
		group_shares_changed(daemon, group);
}

/* The group has no section any more. */
static void release_group(
	struct daemon *daemon, struct group *group, const struct config_report *report)
{
	unsigned n = clients_count_group(daemon, group->id);

	if (n == 0 && !group->namespace && !settings_are_any(&group->commands)) {
		config_report(report, "group %s: deleted", group->name);
		group_shares_remove(&daemon->groups, group);
		return;
	}
	apply_group_settings(daemon, group, &no_settings, report);
	if (settings_are_any(&group->commands)) {
		group->is_of_file = group->is_uid_of_file = false;
		config_report(report,
			"group %s: stays, as a command has set a limit of it: end it with group "
			"delete",
			group->name);
	} else {
		config_report(report,
			"group %s: stays without limits, as it has %u clients: reload again when "
			"they have ended",
			group->name, n);
	}
}

/* Whether the section allows other users than the group does. */
static bool differs_in_uid(const struct group *group, const struct config_section *section)
{
	if (!section->has_uid && !group->is_uid_of_file)
		return false;
	return group->has_uid != section->has_uid ||
	       (section->has_uid && group->uid != section->uid);
}

static void apply_group_uid(struct daemon *daemon, struct group *group,
	const struct config_section *section, const struct config_report *report)
{
	unsigned n = clients_count_group(daemon, group->id);

	if (!differs_in_uid(group, section))
		return;
	if (n > 0) {
		config_report(report,
			"line %u: the uid of group %s cannot change while it has %u clients: "
			"reload again when they have ended",
			section->uid_line ? section->uid_line : section->line, group->name, n);
		return;
	}
	group->has_uid = group->is_uid_of_file = section->has_uid;
	group->uid = section->uid;
	if (section->has_uid)
		config_report(report, "group %s: uid: %u", group->name, group->uid);
	else
		config_report(report, "group %s: uid: any", group->name);
}

static void apply_group(struct daemon *daemon, const struct config_section *section,
	const struct config_report *report)
{
	struct group *group = groups_find(&daemon->groups, section->name);
	bool is_new = !group;
	int r = is_new ? groups_add(&daemon->groups, section->name, &group) : 0;

	if (r < 0) {
		config_report(report,
			r == -ENOSPC ? "line %u: group %s is not created, as there are %u groups, "
				       "which is the maximum: delete one and reload again"
				     : "line %u: group %s is not created, as the daemon is out of "
				       "memory (%u groups)",
			section->line, section->name, daemon->groups.n);
		return;
	}
	if (is_new)
		config_report(report, "group %s: created", group->name);
	group->is_of_file = true;
	apply_group_uid(daemon, group, section, report);
	apply_group_settings(daemon, group, &section->settings, report);
}

static void apply_groups(struct daemon *daemon, const struct config_report *report)
{
	const struct config_file *file = &daemon->config_file;

	list_each_safe (struct group, group, &daemon->groups.list, link)
		if (group->is_of_file && !config_file_find(file, SECTION_GROUP, group->name))
			release_group(daemon, group, report);
	for (unsigned i = 0; i < file->n_sections; i++)
		if (file->sections[i].kind == SECTION_GROUP)
			apply_group(daemon, &file->sections[i], report);
}

void config_apply(
	struct daemon *daemon, const struct config_file *old, const struct config_report *report)
{
	apply_defaults(daemon, report);
	report_users(daemon, old, report);
	apply_groups(daemon, report);
	servers_record(daemon);
	report_unknown_devices(daemon, report);
}

static void log_line(void *arg, const char *line)
{
	log_control(arg, "Configuration: %s", line);
}

void config_apply_first(struct daemon *daemon)
{
	static const struct config_file nothing;
	const struct config_report report = {log_line, &daemon->logs};

	if (daemon->config_file.hash != 0)
		log_control(
			&daemon->logs, "Using the configuration file %s", daemon->config_file.path);
	config_file_report_overridden(&daemon->config_file, &report);
	config_apply(daemon, &nothing, &report);
}
