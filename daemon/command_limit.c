/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Commands about limits: percentages of SMs, memory, priority. Loop thread.
 *
 * Invariant: what is not understood changes nothing, and is answered by what is
 * accepted.
 */

#include <string.h>

#include "command_scope.h"
#include "command_conn.h"
#include "commands.h"
#include "daemon.h"
#include "groups.h"
#include "limit_text.h"
#include "conn.h"
#include "settings.h"

/* Takes a limit back. */
#define NO_LIMIT "none"

/* The word at `i', or "" where there is none. */
static const char *word_at(const struct words *words, size_t i)
{
	return i < words->n ? words->word[i] : "";
}

static struct scope default_scope(struct peer *peer)
{
	return (struct scope){
		.settings = &peer->daemon->settings,
		.devices = scope_devices(peer),
		.next = 1,
	};
}

/* ---- active threads */

static void reply_percentage(struct peer *peer, const struct settings *settings)
{
	char text[PERCENTAGE_TEXT];

	format_percentage(settings->active_threads ? settings->active_threads : ACTIVE_THREADS_ALL,
		text, sizeof(text));
	commander_reply(peer, "%s", text);
}

static void set_percentage(struct peer *peer, const struct words *words, const struct scope *scope)
{
	const char *text = word_at(words, scope->next);
	uint32_t thousandths;

	if (parse_percentage(text, &thousandths) < 0) {
		commander_fail(peer, "\"%s\" is not a percentage: %s takes " PERCENTAGE_ACCEPTED,
			text, words->word[0]);
		return;
	}
	scope->settings->active_threads = thousandths;
	scope_changed(peer, scope);
	reply_percentage(peer, scope->settings);
}

void command_set_default_percentage(struct peer *peer, const struct words *words)
{
	const struct scope scope = default_scope(peer);

	if (scope_may_set(peer, words->word[0]))
		set_percentage(peer, words, &scope);
}

void command_get_default_percentage(struct peer *peer, _unused_ const struct words *words)
{
	reply_percentage(peer, &peer->daemon->settings);
}

void command_set_percentage(struct peer *peer, const struct words *words)
{
	struct scope scope;

	if (scope_find(peer, words, true, &scope))
		set_percentage(peer, words, &scope);
}

void command_get_percentage(struct peer *peer, const struct words *words)
{
	struct scope scope;

	if (scope_find(peer, words, false, &scope))
		reply_percentage(peer, scope.settings);
}

/* ---- memory */

static void set_memory(struct peer *peer, const struct words *words, const struct scope *scope)
{
	const char *device = word_at(words, scope->next);
	const char *size = word_at(words, scope->next + 1);
	uint64_t bytes = MEMORY_ALL;

	if (strcmp(size, NO_LIMIT) != 0 && parse_size(size, &bytes) < 0) {
		commander_fail(peer,
			"\"%s\" is not a size: %s takes " SIZE_ACCEPTED ", or " NO_LIMIT, size,
			words->word[0]);
		return;
	}
	if (!scope_check_device(peer, scope->devices, device))
		return;
	if (settings_set_memory(scope->settings, scope->devices, device, bytes) < 0) {
		commander_fail(peer, "There are limits for %d devices, and more there cannot be",
			DEVICES_MAX);
		return;
	}
	scope_changed(peer, scope);
	scope_note_unchecked(peer, scope->devices, device);
}

static void get_memory(struct peer *peer, const struct words *words, const struct scope *scope)
{
	const char *device = word_at(words, scope->next);
	char text[SIZE_TEXT_MAX] = NO_LIMIT;
	uint64_t bytes;

	if (!scope_check_device(peer, scope->devices, device))
		return;
	bytes = settings_get_memory(scope->settings, scope->devices, device);
	if (bytes != MEMORY_ALL)
		format_size(bytes, text, sizeof(text));
	commander_reply(peer, "%s", text);
}

void command_set_default_memory(struct peer *peer, const struct words *words)
{
	const struct scope scope = default_scope(peer);

	if (scope_may_set(peer, words->word[0]))
		set_memory(peer, words, &scope);
}

void command_get_default_memory(struct peer *peer, const struct words *words)
{
	const struct scope scope = default_scope(peer);

	get_memory(peer, words, &scope);
}

void command_set_memory(struct peer *peer, const struct words *words)
{
	struct scope scope;

	if (scope_find(peer, words, true, &scope))
		set_memory(peer, words, &scope);
}

void command_get_memory(struct peer *peer, const struct words *words)
{
	struct scope scope;

	if (scope_find(peer, words, false, &scope))
		get_memory(peer, words, &scope);
}

/* ---- priority */

static void set_priority(struct peer *peer, const struct words *words, const struct scope *scope)
{
	int32_t priority;

	if (parse_priority(word_at(words, scope->next), &priority) < 0) {
		commander_fail(peer, "Invalid priority value - must be 0, 1 or 2!");
		return;
	}
	scope->settings->priority = priority;
	scope_changed(peer, scope);
}

static void reply_priority(struct peer *peer, const struct settings *settings)
{
	int32_t priority = settings->priority;

	/* A server without its own has the default's, a group without gives nobody another. */
	commander_reply(peer, "%d", priority < 0 ? peer->daemon->settings.priority : priority);
}

void command_set_default_priority(struct peer *peer, const struct words *words)
{
	const struct scope scope = default_scope(peer);

	if (scope_may_set(peer, words->word[0]))
		set_priority(peer, words, &scope);
}

void command_get_default_priority(struct peer *peer, _unused_ const struct words *words)
{
	reply_priority(peer, &peer->daemon->settings);
}

void command_set_priority(struct peer *peer, const struct words *words)
{
	struct scope scope;

	if (scope_find(peer, words, true, &scope))
		set_priority(peer, words, &scope);
}

void command_get_priority(struct peer *peer, const struct words *words)
{
	struct scope scope;

	if (scope_find(peer, words, false, &scope))
		reply_priority(peer, scope.settings);
}
