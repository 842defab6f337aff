/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The modules `feature' and `context-share' of protocol 3. Loop thread.
 *
 * Invariant: a feature that cannot be switched off is never described as disabled.
 */

#include <string.h>

#include "modules.h"
#include "daemon/state/daemon.h"
#include "daemon/state/groups.h"
#include "daemon/conn/conn.h"
#include "daemon/server/group_shares.h"
#include "daemon/reply/command_reply.h"
#include "daemon/reply/command_scope.h"

#define MEMACCT "memacct"
#define CONTEXT_SHARE "context-share"

/* Of both modules' `describe'. */
static const char *const columns[] = {
	"feature",
	"state",
	"module",
	"covers",
};

static const char *const share_columns[] = {
	"setting",
	"value",
};

/* ---- describe */

static bool is_feature(const char *name)
{
	return strcmp(name, MEMACCT) == 0 || strcmp(name, CONTEXT_SHARE) == 0;
}

/* "(default)" follows a state that no command has changed. */
static void add_row(struct table *table, const char *name, bool is_off)
{
	table_add(table, "%s", name);
	table_add(table, "%s", is_off ? "disabled" : "enabled (default)");
	table_add(table, "%s", name);
	table_add(table, "-");
}

static void refuse_name(struct conn *conn, const char *name)
{
	command_fail(conn,
		"Unknown feature \"%s\": the features are " MEMACCT " and " CONTEXT_SHARE, name);
}

void module_feature_describe(struct conn *conn, const struct tokens *tokens)
{
	const char *name = tokens->n > 1 ? tokens->item[1] : NULL;
	struct table table;

	if (name && !is_feature(name)) {
		refuse_name(conn, name);
		return;
	}
	if (!module_open_table(conn, tokens, columns, ARRAY_SIZE(columns), &table))
		return;
	if (!name || strcmp(name, MEMACCT) == 0)
		add_row(&table, MEMACCT, conn->daemon->is_memacct_off);
	if (!name || strcmp(name, CONTEXT_SHARE) == 0)
		add_row(&table, CONTEXT_SHARE, false);
	module_reply_table(conn, &table);
}

void module_context_share_describe(struct conn *conn, const struct tokens *tokens)
{
	struct table table;

	if (!module_open_table(conn, tokens, share_columns, ARRAY_SIZE(share_columns), &table))
		return;
	table_add(&table, "enabled");
	table_add(&table, "true");
	table_add(&table, "default_socket");
	table_add(&table, "%s", conn->daemon->is_socket_apart ? "off" : "on");
	module_reply_table(conn, &table);
}

/* ---- enable, disable and set */

/* Servers that have groups of clients learn of it now. */
static void set_memacct(struct daemon *daemon, bool is_off)
{
	daemon->is_memacct_off = is_off;
	group_shares_changed_all(daemon);
	daemon_want(daemon, WANT_RECORD);
}

static void switch_feature(struct conn *conn, const struct tokens *tokens, bool is_off)
{
	const char *name = tokens->item[1];

	if (!scope_permits_config(conn, tokens->item[0]))
		return;
	if (!is_feature(name))
		refuse_name(conn, name);
	else if (strcmp(name, MEMACCT) == 0)
		set_memacct(conn->daemon, is_off);
	else if (is_off)
		command_fail(conn, CONTEXT_SHARE " " MODULE_SHARES_CONTEXT);
}

void module_feature_enable(struct conn *conn, const struct tokens *tokens)
{
	switch_feature(conn, tokens, false);
}

void module_feature_disable(struct conn *conn, const struct tokens *tokens)
{
	switch_feature(conn, tokens, true);
}

void module_context_share_set(struct conn *conn, const struct tokens *tokens)
{
	const char *value = arguments_get(tokens, "default-socket");

	if (!scope_permits_config(conn, tokens->item[0]))
		return;
	if (!value || (strcmp(value, "on") != 0 && strcmp(value, "off") != 0)) {
		command_fail(
			conn, "%s needs default_socket=on or default_socket=off", tokens->item[0]);
		return;
	}
	conn->daemon->is_socket_apart = strcmp(value, "off") == 0;
	daemon_want(conn->daemon, WANT_RECORD);
}
