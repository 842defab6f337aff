/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Commands about limits: percentages of SMs, memory, priority. Loop thread.
 *
 * Invariant: an invalid value changes nothing and is answered by the accepted
 * values.
 */

#include <string.h>

#include "command_conn.h"
#include "command_scope.h"
#include "commands.h"
#include "conn.h"
#include "daemon.h"
#include "groups.h"
#include "limit_text.h"
#include "settings.h"

/* Removes a limit. */
#define NO_LIMIT "none"

/* The token at `i', or "" if there are fewer. */
static const char *token_at(const struct tokens *tokens, size_t i)
{
	return i < tokens->n ? tokens->item[i] : "";
}

static struct scope default_scope(struct conn *conn)
{
	return (struct scope){
		.settings = &conn->daemon->settings,
		.devices = scope_devices(conn),
		.next = 1,
	};
}

/* ---- active threads */

static void limit_reply_percentage(struct conn *conn, const struct settings *settings)
{
	char text[PERCENTAGE_TEXT];

	format_percentage(settings->active_threads ? settings->active_threads : ACTIVE_THREADS_ALL,
		text, sizeof(text));
	command_reply(conn, "%s", text);
}

static void limit_set_percentage(
	struct conn *conn, const struct tokens *tokens, const struct scope *scope)
{
	const char *text = token_at(tokens, scope->next);
	uint32_t thousandths;

	if (parse_percentage(text, &thousandths) < 0) {
		command_fail(conn, "\"%s\" is not a percentage: %s takes " PERCENTAGE_ACCEPTED,
			text, tokens->item[0]);
		return;
	}
	scope->settings->active_threads = thousandths;
	scope->settings->active_threads_origin = ORIGIN_COMMAND;
	scope_changed(conn, scope);
	limit_reply_percentage(conn, scope->settings);
}

void command_set_default_percentage(struct conn *conn, const struct tokens *tokens)
{
	const struct scope scope = default_scope(conn);

	if (scope_permits_config(conn, tokens->item[0]))
		limit_set_percentage(conn, tokens, &scope);
}

void command_get_default_percentage(struct conn *conn, _unused_ const struct tokens *tokens)
{
	limit_reply_percentage(conn, &conn->daemon->settings);
}

void command_set_percentage(struct conn *conn, const struct tokens *tokens)
{
	struct scope scope;

	if (scope_find(conn, tokens, true, &scope))
		limit_set_percentage(conn, tokens, &scope);
}

void command_get_percentage(struct conn *conn, const struct tokens *tokens)
{
	struct scope scope;

	if (scope_find(conn, tokens, false, &scope))
		limit_reply_percentage(conn, scope.settings);
}

/* ---- memory */

static void limit_set_memory(
	struct conn *conn, const struct tokens *tokens, const struct scope *scope)
{
	const char *device = token_at(tokens, scope->next);
	const char *size = token_at(tokens, scope->next + 1);
	uint64_t bytes = MEMORY_ALL;

	if (strcmp(size, NO_LIMIT) != 0 && parse_size(size, &bytes) < 0) {
		command_fail(conn, "\"%s\" is not a size: %s takes " SIZE_ACCEPTED ", or " NO_LIMIT,
			size, tokens->item[0]);
		return;
	}
	if (!scope_check_device(conn, scope->devices, device))
		return;
	if (settings_set_memory(scope->settings, scope->devices, device, bytes, ORIGIN_COMMAND) <
		0) {
		command_fail(
			conn, "Limits are set for %d devices, which is the maximum", DEVICES_MAX);
		return;
	}
	scope_changed(conn, scope);
	scope_note_unchecked(conn, scope->devices, device);
}

static void limit_reply_memory(
	struct conn *conn, const struct tokens *tokens, const struct scope *scope)
{
	const char *device = token_at(tokens, scope->next);
	char text[SIZE_TEXT_MAX] = NO_LIMIT;
	uint64_t bytes;

	if (!scope_check_device(conn, scope->devices, device))
		return;
	bytes = settings_get_memory(scope->settings, scope->devices, device);
	if (bytes != MEMORY_ALL)
		format_size(bytes, text, sizeof(text));
	command_reply(conn, "%s", text);
}

void command_set_default_memory(struct conn *conn, const struct tokens *tokens)
{
	const struct scope scope = default_scope(conn);

	if (scope_permits_config(conn, tokens->item[0]))
		limit_set_memory(conn, tokens, &scope);
}

void command_get_default_memory(struct conn *conn, const struct tokens *tokens)
{
	const struct scope scope = default_scope(conn);

	limit_reply_memory(conn, tokens, &scope);
}

void command_set_memory(struct conn *conn, const struct tokens *tokens)
{
	struct scope scope;

	if (scope_find(conn, tokens, true, &scope))
		limit_set_memory(conn, tokens, &scope);
}

void command_get_memory(struct conn *conn, const struct tokens *tokens)
{
	struct scope scope;

	if (scope_find(conn, tokens, false, &scope))
		limit_reply_memory(conn, tokens, &scope);
}

/* ---- priority */

static void limit_set_priority(
	struct conn *conn, const struct tokens *tokens, const struct scope *scope)
{
	int32_t priority;

	if (parse_priority(token_at(tokens, scope->next), &priority) < 0) {
		command_fail(conn, "Invalid priority value - must be 0, 1 or 2!");
		return;
	}
	scope->settings->priority = priority;
	scope->settings->priority_origin = ORIGIN_COMMAND;
	scope_changed(conn, scope);
}

static void limit_reply_priority(struct conn *conn, const struct settings *settings)
{
	int32_t priority = settings->priority;

	/*
	 * A server without a priority has the default; so has a group, which then changes no
	 * priority.
	 */
	command_reply(conn, "%d", priority < 0 ? conn->daemon->settings.priority : priority);
}

void command_set_default_priority(struct conn *conn, const struct tokens *tokens)
{
	const struct scope scope = default_scope(conn);

	if (scope_permits_config(conn, tokens->item[0]))
		limit_set_priority(conn, tokens, &scope);
}

void command_get_default_priority(struct conn *conn, _unused_ const struct tokens *tokens)
{
	limit_reply_priority(conn, &conn->daemon->settings);
}

void command_set_priority(struct conn *conn, const struct tokens *tokens)
{
	struct scope scope;

	if (scope_find(conn, tokens, true, &scope))
		limit_set_priority(conn, tokens, &scope);
}

void command_get_priority(struct conn *conn, const struct tokens *tokens)
{
	struct scope scope;

	if (scope_find(conn, tokens, false, &scope))
		limit_reply_priority(conn, scope.settings);
}
