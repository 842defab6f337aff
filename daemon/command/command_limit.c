/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Commands about limits: percentages of SMs, memory, priority. Loop thread.
 *
 * Invariant: an invalid value changes nothing and is answered by the accepted
 * values.
 */

#include <string.h>

#include "commands.h"
#include "limit_text.h"
#include "daemon/config/settings.h"
#include "daemon/state/daemon.h"
#include "daemon/state/groups.h"
#include "daemon/conn/conn.h"
#include "daemon/reply/command_reply.h"
#include "daemon/reply/command_scope.h"

/* Removes a limit. */
#define NO_LIMIT "none"

/* The token at `i', or "" if there are fewer. */
static const char *token_at(const struct tokens *tokens, size_t i)
{
	return i < tokens->n ? tokens->item[i] : "";
}

/* The command has set a value, but the other side's value is lower. */
static void limit_note_lower(
	struct conn *conn, const struct scope *scope, const char *noun, const char *text)
{
	command_reply(conn,
		scope->is_wish ? "The operator's %s, %s, counts as long as it is lower"
			       : "The %s of the server's user, %s, counts as long as it is lower",
		noun, text);
}

/* ---- active threads */

static uint32_t limit_percentage(const struct conn *conn, const struct scope *scope)
{
	uint32_t thousandths = scope_settings(conn, scope).active_threads;

	return thousandths ? thousandths : ACTIVE_THREADS_ALL;
}

void command_set_percentage(struct conn *conn, const struct tokens *tokens)
{
	char lower[PERCENTAGE_TEXT];
	uint32_t thousandths;
	struct scope scope;
	const char *text;

	if (!scope_find(conn, tokens, true, &scope))
		return;
	text = token_at(tokens, scope.next);
	if (parse_percentage(text, &thousandths) < 0) {
		command_fail(conn, "\"%s\" is not a percentage: %s takes " PERCENTAGE_ACCEPTED,
			text, tokens->item[0]);
		return;
	}
	scope.layer->active_threads = thousandths;
	scope_changed(conn, &scope);
	format_percentage(limit_percentage(conn, &scope), lower, sizeof(lower));
	command_reply(conn, "%s", lower);
	if (limit_percentage(conn, &scope) < thousandths)
		limit_note_lower(conn, &scope, "limit", lower);
}

void command_get_percentage(struct conn *conn, const struct tokens *tokens)
{
	char text[PERCENTAGE_TEXT];
	struct scope scope;

	if (!scope_find(conn, tokens, false, &scope))
		return;
	format_percentage(limit_percentage(conn, &scope), text, sizeof(text));
	command_reply(conn, "%s", text);
}

/* ---- memory */

static uint64_t limit_memory(const struct conn *conn, const struct scope *scope, const char *device)
{
	const struct settings settings = scope_settings(conn, scope);

	return settings_get_memory(&settings, scope->devices, device);
}

static void limit_set_memory(
	struct conn *conn, const struct scope *scope, const char *device, uint64_t bytes)
{
	char text[SIZE_TEXT_MAX];
	uint64_t lower;

	if (!scope_check_device(conn, scope->devices, device))
		return;
	if (settings_set_memory(scope->layer, scope->devices, device, bytes) < 0) {
		command_fail(
			conn, "Limits are set for %d devices, which is the maximum", DEVICES_MAX);
		return;
	}
	scope_changed(conn, scope);
	lower = limit_memory(conn, scope, device);
	format_size(lower, text, sizeof(text));
	if (lower < bytes)
		limit_note_lower(conn, scope, "limit", text);
	scope_note_unchecked(conn, scope->devices, device);
}

void command_set_memory(struct conn *conn, const struct tokens *tokens)
{
	uint64_t bytes = MEMORY_ALL;
	struct scope scope;
	const char *size;

	if (!scope_find(conn, tokens, true, &scope))
		return;
	size = token_at(tokens, scope.next + 1);
	if (strcmp(size, NO_LIMIT) != 0 && parse_size(size, &bytes) < 0)
		command_fail(conn, "\"%s\" is not a size: %s takes " SIZE_ACCEPTED ", or " NO_LIMIT,
			size, tokens->item[0]);
	else
		limit_set_memory(conn, &scope, token_at(tokens, scope.next), bytes);
}

void command_get_memory(struct conn *conn, const struct tokens *tokens)
{
	char text[SIZE_TEXT_MAX] = NO_LIMIT;
	struct scope scope;
	const char *device;
	uint64_t bytes;

	if (!scope_find(conn, tokens, false, &scope))
		return;
	device = token_at(tokens, scope.next);
	if (!scope_check_device(conn, scope.devices, device))
		return;
	bytes = limit_memory(conn, &scope, device);
	if (bytes != MEMORY_ALL)
		format_size(bytes, text, sizeof(text));
	command_reply(conn, "%s", text);
}

/* ---- priority */

/* A group without a priority, which changes no priority, has the default. */
static int32_t limit_priority(const struct conn *conn, const struct scope *scope)
{
	int32_t priority = scope_settings(conn, scope).priority;

	return priority < 0 ? default_settings(conn->daemon).priority : priority;
}

void command_set_priority(struct conn *conn, const struct tokens *tokens)
{
	static const char *const texts[] = {"0 (normal)", "1 (below normal)", "2 (background)"};
	int32_t priority, lower;
	struct scope scope;

	if (!scope_find(conn, tokens, true, &scope))
		return;
	if (parse_priority(token_at(tokens, scope.next), &priority) < 0) {
		command_fail(conn, "Invalid priority value - must be 0, 1 or 2!");
		return;
	}
	scope.layer->priority = priority;
	scope_changed(conn, &scope);
	lower = limit_priority(conn, &scope);
	if (lower > priority)
		limit_note_lower(conn, &scope, "priority", texts[lower]);
}

void command_get_priority(struct conn *conn, const struct tokens *tokens)
{
	struct scope scope;

	if (scope_find(conn, tokens, false, &scope))
		command_reply(conn, "%d", limit_priority(conn, &scope));
}
