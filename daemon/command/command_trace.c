/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The command trace. The front end gives it without FILE, reads the events by `trace read',
 * and writes FILE with the rights of its user (cli_trace.c). Loop thread.
 *
 * Invariant: a user gets events of the own clients only.
 */

#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "daemon/text/json.h"
#include "daemon/state/daemon.h"
#include "daemon/state/tenant.h"
#include "daemon/conn/conn.h"
#include "daemon/server/server.h"
#include "daemon/server/viewer.h"
#include "daemon/watch/trace_text.h"
#include "daemon/watch/tracing.h"
#include "daemon/reply/command_reply.h"
#include "daemon/reply/command_scope.h"

static bool fail_by_usage(struct conn *conn)
{
	return command_fail(conn,
		"Usage: mps-control trace start|stop [-server PID] FILE, as arguments of "
		"mps-control, which writes FILE");
}

/* ---- start */

static void start(struct conn *conn, struct server *server)
{
	int r = tracing_begin(conn, server);

	if (r == 0)
		command_reply(conn, "Tracing server %d", server->pid);
	else if (r == -EALREADY)
		command_fail(conn, "Server %d is being traced: end that trace with trace stop FILE",
			server->pid);
	else if (r == -EUSERS)
		command_fail(conn, "There are too many traces: write them with trace stop FILE");
	else
		command_fail(conn, "Server %d cannot be traced: %s", server->pid, strerror(-r));
}

static void start_all(struct conn *conn)
{
	unsigned n = 0;

	list_each_safe (struct server, server, &conn->daemon->servers, link_in_daemon) {
		/* The server of all users traces the user's clients. */
		if (!viewer_sees_server(conn, server) && !conn->daemon->config.is_multiuser)
			continue;
		n++;
		start(conn, server);
	}
	if (n == 0)
		command_fail(conn, "No server runs that you may trace: start a client, or give "
				   "start_server -uid UID");
}

/* ---- stop */

static void reply_trace(struct conn *conn, const struct trace *trace)
{
	struct trace_summary summary;

	tracing_summarise(conn, trace, &summary);
	command_reply(conn, TRACE_LINE, trace->id, (int)trace->server_pid, summary.n_chunks,
		summary.n_events, summary.n_clients, summary.n_lost, (int)trace->is_cut);
}

static void stop(struct conn *conn, pid_t server_pid)
{
	char command[64] = "trace stop";
	unsigned n = 0;

	if (server_pid > 0)
		snprintf(command, sizeof(command), "trace stop -server %d", (int)server_pid);
	if (!tracing_is_ended(conn, server_pid, command))
		return;
	list_each (const struct trace, trace, &conn->daemon->traces, link) {
		if (!tracing_permits(conn, trace) ||
			(server_pid > 0 && trace->server_pid != server_pid))
			continue;
		n++;
		reply_trace(conn, trace);
	}
	if (n == 0)
		command_fail(conn, "There is no trace: begin one with trace start FILE");
}

/* ---- read, drop */

static struct trace *find(struct conn *conn, const char *text)
{
	uint64_t id;
	struct trace *trace =
		parse_number(text, INT64_MAX, &id) == 0 ? tracing_find(conn, id) : NULL;

	if (!trace)
		command_fail(conn, "Trace %s not found", text);
	return trace;
}

static void read_chunk(struct conn *conn, const struct tokens *tokens)
{
	const struct trace *trace = find(conn, tokens->item[2]);
	_cleanup_free_ struct trace_chunk *chunk = NULL;
	uint64_t index;

	if (!trace)
		return;
	if (parse_number(tokens->item[3], TRACE_CHUNKS - 1, &index) < 0) {
		fail_by_usage(conn);
		return;
	}
	chunk = malloc(sizeof(*chunk));
	if (chunk && tracing_read(conn, trace, (unsigned)index, chunk))
		scope_reply_json(conn, trace_text(chunk));
	else
		scope_reply_json(conn, json_array());
}

static void drop(struct conn *conn, const char *text)
{
	struct trace *trace = find(conn, text);

	if (trace)
		tracing_free(trace);
}

/* ---- the command */

/* The server that the command names, or NULL for all; false: the connection is answered. */
static bool find_server(struct conn *conn, const struct tokens *tokens, struct server **ret)
{
	*ret = NULL;
	if (tokens->n == 2)
		return true;
	if (tokens->n != 4 || strcmp(tokens->item[2], "-server") != 0)
		return fail_by_usage(conn);
	*ret = scope_find_server(conn, "trace", tokens->item[3], false);
	return *ret;
}

static void start_or_stop(struct conn *conn, const struct tokens *tokens)
{
	bool is_start = strcmp(tokens->item[1], "start") == 0;
	struct server *server;
	uint64_t pid;

	/* A trace may be left of a server that has ended. */
	if (!is_start && tokens->n == 4 && strcmp(tokens->item[2], "-server") == 0 &&
		parse_number(tokens->item[3], INT32_MAX, &pid) == 0 && pid > 0 &&
		!server_find(conn->daemon, (pid_t)pid)) {
		stop(conn, (pid_t)pid);
		return;
	}
	if (!find_server(conn, tokens, &server))
		return;
	if (!is_start)
		stop(conn, server ? server->pid : 0);
	else if (server)
		start(conn, server);
	else
		start_all(conn);
}

void command_trace(struct conn *conn, const struct tokens *tokens)
{
	const char *verb = tokens->item[1];

	if (strcmp(verb, "start") == 0 || strcmp(verb, "stop") == 0)
		start_or_stop(conn, tokens);
	else if (strcmp(verb, "read") == 0 && tokens->n == 4)
		read_chunk(conn, tokens);
	else if (strcmp(verb, "drop") == 0 && tokens->n == 3)
		drop(conn, tokens->item[2]);
	else
		fail_by_usage(conn);
}
