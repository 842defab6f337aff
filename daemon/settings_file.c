/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What the configuration file does to settings. Loop thread, and main() before
 * the loop.
 *
 * Invariant: a limit that a command has set is replaced only by a line of the
 * file about the same limit.
 */

#include <string.h>

#include "limit_text.h"
#include "settings.h"

void settings_unset(struct settings *settings, enum setting setting)
{
	if (setting == SETTING_ACTIVE_THREADS)
		settings->active_threads = 0;
	else if (setting == SETTING_PRIORITY)
		settings->priority = -1;
	else
		settings->n_memory = 0;
}

static void remove_memory_of_file(struct settings *settings)
{
	unsigned n = 0;

	for (unsigned i = 0; i < settings->n_memory; i++)
		if (settings->memory[i].origin != ORIGIN_FILE)
			settings->memory[n++] = settings->memory[i];
	settings->n_memory = n;
}

/* There is room: each of the two has at most one limit for each GPU. */
static void copy_memory(struct settings *settings, const struct memory_limit *limit,
	const struct devices *devices, enum origin origin)
{
	(void)settings_set_memory(settings, devices, limit->device, limit->bytes, origin);
}

void settings_apply_file(struct settings *settings, const struct settings *file,
	const struct settings *base, const struct devices *devices)
{
	const struct settings old = *settings;

	if (file->active_threads > 0) {
		settings->active_threads = file->active_threads;
		settings->active_threads_origin = ORIGIN_FILE;
	} else if (old.active_threads_origin == ORIGIN_FILE) {
		settings->active_threads = base->active_threads;
		settings->active_threads_origin = ORIGIN_DEFAULT;
	}
	if (file->priority >= 0) {
		settings->priority = file->priority;
		settings->priority_origin = ORIGIN_FILE;
	} else if (old.priority_origin == ORIGIN_FILE) {
		settings->priority = base->priority;
		settings->priority_origin = ORIGIN_DEFAULT;
	}
	remove_memory_of_file(settings);
	for (unsigned i = 0; i < file->n_memory; i++)
		copy_memory(settings, &file->memory[i], devices, ORIGIN_FILE);
}

static bool is_by_command(const struct memory_limit *limit)
{
	return limit && limit->origin == ORIGIN_COMMAND;
}

void settings_apply_user(
	struct settings *settings, const struct settings *user, const struct devices *devices)
{
	if (user->active_threads > 0 && settings->active_threads_origin != ORIGIN_COMMAND) {
		settings->active_threads = user->active_threads;
		settings->active_threads_origin = ORIGIN_FILE;
	}
	if (user->priority >= 0 && settings->priority_origin != ORIGIN_COMMAND) {
		settings->priority = user->priority;
		settings->priority_origin = ORIGIN_FILE;
	}
	for (unsigned i = 0; i < user->n_memory; i++) {
		const struct memory_limit *limit = &user->memory[i];

		if (!is_by_command(settings_find_memory(settings, devices, limit->device)))
			copy_memory(settings, limit, devices, ORIGIN_FILE);
	}
}

static bool is_of_file(enum origin before, enum origin now)
{
	return before != ORIGIN_COMMAND && (before == ORIGIN_FILE || now == ORIGIN_FILE);
}

void settings_renew(
	struct settings *settings, const struct settings *initial, const struct devices *devices)
{
	const struct settings old = *settings;

	if (is_of_file(old.active_threads_origin, initial->active_threads_origin)) {
		settings->active_threads = initial->active_threads;
		settings->active_threads_origin = initial->active_threads_origin;
	}
	if (is_of_file(old.priority_origin, initial->priority_origin)) {
		settings->priority = initial->priority;
		settings->priority_origin = initial->priority_origin;
	}
	remove_memory_of_file(settings);
	for (unsigned i = 0; i < initial->n_memory; i++) {
		const struct memory_limit *limit = &initial->memory[i];
		const struct memory_limit *before =
			settings_find_memory(&old, devices, limit->device);

		if (is_of_file(before ? before->origin : ORIGIN_DEFAULT, limit->origin))
			copy_memory(settings, limit, devices, limit->origin);
	}
}

/* ---- texts for the operator */

static void format_memory(const struct settings *settings, char text[SETTING_TEXT_MAX])
{
	size_t used = 0;

	for (unsigned i = 0; i < settings->n_memory && used < SETTING_TEXT_MAX; i++) {
		const struct memory_limit *limit = &settings->memory[i];
		char size[SIZE_TEXT_MAX];

		format_size(limit->bytes, size, sizeof(size));
		used += (size_t)snprintf(text + used, SETTING_TEXT_MAX - used, "%s%s=%s",
			i > 0 ? "," : "", limit->device, size);
	}
}

void setting_format(
	const struct settings *settings, enum setting setting, char text[SETTING_TEXT_MAX])
{
	snprintf(text, SETTING_TEXT_MAX, "none");
	if (setting == SETTING_MEMORY)
		format_memory(settings, text);
	else if (setting == SETTING_ACTIVE_THREADS && settings->active_threads > 0)
		format_percentage(settings->active_threads, text, SETTING_TEXT_MAX);
	else if (setting == SETTING_PRIORITY && settings->priority >= 0)
		snprintf(text, SETTING_TEXT_MAX, "%d", settings->priority);
}

static bool has_memory_of(const struct settings *settings, const struct settings *other,
	const struct devices *devices)
{
	for (unsigned i = 0; i < other->n_memory; i++)
		if (settings_get_memory(settings, devices, other->memory[i].device) !=
			other->memory[i].bytes)
			return false;
	return true;
}

bool setting_is_equal(const struct settings *one, const struct settings *other,
	enum setting setting, const struct devices *devices)
{
	switch (setting) {
	case SETTING_ACTIVE_THREADS:
		return one->active_threads == other->active_threads;
	case SETTING_PRIORITY:
		return one->priority == other->priority;
	default:
		return has_memory_of(one, other, devices) && has_memory_of(other, one, devices);
	}
}

bool setting_is_by_command(const struct settings *settings, enum setting setting)
{
	if (setting == SETTING_ACTIVE_THREADS)
		return settings->active_threads_origin == ORIGIN_COMMAND;
	if (setting == SETTING_PRIORITY)
		return settings->priority_origin == ORIGIN_COMMAND;
	for (unsigned i = 0; i < settings->n_memory; i++)
		if (is_by_command(&settings->memory[i]))
			return true;
	return false;
}
