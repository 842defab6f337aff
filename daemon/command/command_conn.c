/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Connections that send text. Loop thread.
 *
 * Invariant: no further command runs while a reply is unread, so the memory
 * that one connection can occupy is bounded by the reply to one command.
 */

#include "command_conn.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "bounds.h"
#include "commands.h"
#include "daemon/text/line_buffer.h"
#include "daemon/config/allowances.h"
#include "daemon/state/daemon.h"
#include "daemon/state/tenant.h"
#include "daemon/conn/admission.h"
#include "daemon/conn/conn.h"
#include "daemon/conn/pending.h"
#include "daemon/server/state_text.h"
#include "daemon/reply/command_reply.h"

/* How long a connection may leave a reply unread. */
#define OUT_MS 5000

/* Stores the name of the command, the first token. */
static void note_command_name(struct conn *conn, const char *line)
{
	const char *name = line + strspn(line, " ");
	bool was_stats = strcmp(conn->command, "stats") == 0;

	snprintf(conn->command, sizeof(conn->command), "%.*s", (int)strcspn(name, " "), name);
	conn->is_watching =
		conn->is_for_pages || (was_stats && strcmp(conn->command, "stats") == 0);
	conn->is_marked = false;
}

/* Before the reply: what a command has said to be done survives the daemon. */
static void record_command(struct daemon *daemon)
{
	if (daemon->wants & WANT_RECORD) {
		daemon->wants &= ~(unsigned)WANT_RECORD;
		servers_record(daemon);
	}
}

static void run_command_line(struct conn *conn, char *line)
{
	size_t length = strlen(line);

	if (length > 0 && line[length - 1] == '\r')
		line[--length] = '\0';
	if (length == 1 && line[0] == COMMAND_EOT) {
		command_reply_eot(conn);
		return;
	}
	if (length == 1 && line[0] == COMMAND_NAK) {
		conn->wants_marks = true;
		return;
	}
	line_clean(line);
	if (line[strspn(line, " ")] == '\0')
		return;
	if (conn->is_for_pages && strcmp(line, "metrics") != 0) {
		conn_log(conn,
			"mps-exporter asked for what it may not have: closing its connection");
		conn_close(conn);
		return;
	}
	note_command_name(conn, line);
	conn->n_commands++;
	if (!conn->is_watching)
		conn_log(conn, "Cmd:%s", line);
	/*
	 * The deadline of an incomplete line no longer applies; a command that waits may set its
	 * own.
	 */
	conn_set_deadline(conn, 0);
	command_run(conn, line);
	record_command(conn->daemon);
}

/* Removes the next line from the buffer; false if no line is complete. */
static bool take_input_line(struct conn *conn, char *line)
{
	char *newline = memchr(conn->in.text, '\n', conn->in_size);
	size_t length = newline ? (size_t)(newline - conn->in.text) : conn->in_size;
	size_t taken = newline ? length + 1 : length;

	if (!newline && !(conn->at_end && length > 0))
		return false;
	memcpy(line, conn->in.text, length);
	line[length] = '\0';
	conn->in_size -= taken;
	memmove(conn->in.text, conn->in.text + taken, conn->in_size);
	return true;
}

/* Drops input that belongs to a line that was too long. */
static void skip_input_line(struct conn *conn)
{
	char *newline = memchr(conn->in.text, '\n', conn->in_size);
	size_t dropped = newline ? (size_t)(newline - conn->in.text) + 1 : conn->in_size;

	conn->is_skipping = !newline;
	conn->in_size -= dropped;
	memmove(conn->in.text, conn->in.text + dropped, conn->in_size);
}

static bool is_command_idle(const struct conn *conn)
{
	return conn->kind == CONN_COMMAND && !conn->pending && conn->out_size == 0;
}

static bool has_hung_up(const struct conn *conn)
{
	struct pollfd pfd = {.fd = conn->fd};

	return poll(&pfd, 1, 0) == 1 && (pfd.revents & POLLHUP);
}

/* Runs the complete lines one by one, and decides what to wait for next. */
static void run_input_lines(struct conn *conn)
{
	char line[COMMAND_MAX + 1];

	/* Commands of a connection that has hung up in the queue are not executed. */
	if (conn->was_queued && has_hung_up(conn)) {
		conn_close(conn);
		return;
	}
	conn->was_queued = false;
	while (is_command_idle(conn) && take_input_line(conn, line)) {
		run_command_line(conn, line);
		command_reply_flush(conn);
	}
	if (is_command_idle(conn) && conn->in_size == sizeof(conn->in.text)) {
		note_command_name(conn, "");
		command_fail(conn, "A command has at most %d bytes", COMMAND_MAX - 1);
		conn->is_skipping = true;
		skip_input_line(conn);
		command_reply_flush(conn);
	}
	/* Its quit is done: the command line waits for the exit, and not for further input. */
	if (is_command_idle(conn) && conn->keeps_fd && conn->wants_marks && !conn->has_end_mark) {
		conn->has_end_mark = true;
		command_reply_eot(conn);
		command_reply_flush(conn);
	}
	if (is_command_idle(conn) && conn->at_end)
		conn_close(conn);
	if (conn->kind != CONN_COMMAND)
		return;
	conn_watch(conn);
	/* A command that waits has set its own deadline, if it has one. */
	if (!conn->pending)
		conn_set_deadline(conn, conn->out_size > 0                       ? OUT_MS
					: conn->in_size > 0 || conn->is_skipping ? INTRODUCTION_MS
										 : 0);
}

static void on_command_deadline(struct conn *conn)
{
	if (!conn->pending)
		conn_close(conn);
	else if (conn->pending->on_deadline)
		conn->pending->on_deadline(conn);
}

static void on_command_resume(uv_timer_t *timer)
{
	struct conn *conn = timer->data;

	if (conn->kind != CONN_COMMAND)
		return;
	command_reply_flush(conn);
	run_input_lines(conn);
}

static void command_resume(struct conn *conn)
{
	if (conn->kind != CONN_COMMAND)
		return;
	conn->pending = NULL;
	/* Deferred, since the caller iterates over lists that the next command may change. */
	uv_timer_start(&conn->timer, on_command_resume, 0, 0);
}

static int command_events(const struct conn *conn)
{
	if (conn->pending)
		return 0;
	if (conn->out_size > 0)
		return UV_WRITABLE;
	return conn->at_end ? 0 : UV_READABLE;
}

static void read_input(struct conn *conn)
{
	ssize_t n = conn_recv(
		conn, conn->in.text + conn->in_size, sizeof(conn->in.text) - conn->in_size);

	if (n > 0) {
		conn->in_size += (size_t)n;
		if (conn->is_skipping)
			skip_input_line(conn);
	} else if (n == 0) {
		conn->at_end = true;
	} else if (n != -EAGAIN) {
		conn_close(conn);
	}
}

static void on_command_event(struct conn *conn, int events)
{
	if (events & UV_WRITABLE)
		command_reply_flush(conn);
	if (is_command_idle(conn) && !conn->at_end && (events & UV_READABLE))
		read_input(conn);
	if (conn->kind == CONN_COMMAND)
		run_input_lines(conn);
}

static const struct conn_ops command_ops;

/* ---- connections above the limit of an account */

static bool is_conn_queued(const struct conn *conn)
{
	return conn->kind == CONN_QUEUED;
}

static bool is_conn_silent(const struct conn *conn)
{
	return is_command_idle(conn) && conn->in_size == 0 && !conn->is_for_pages;
}

static void begin_next(const struct daemon *daemon, const struct account *account)
{
	struct conn *next = NULL;

	if (account->n_conns_of[CONN_QUEUED] > 0 && admission_allows_command_conn(daemon, account))
		next = account_find_oldest_conn(account, is_conn_queued);
	if (!next)
		return;
	conn_become(next, CONN_COMMAND, &command_ops);
	/* Deferred, since the caller iterates over lists that these commands may change. */
	uv_timer_start(&next->timer, on_command_resume, 0, 0);
}

/* Commands end by themselves, but a connection may stay open without one. */
static void on_queued_deadline(struct conn *conn)
{
	struct conn *silent = account_find_oldest_conn(conn->tenant->account, is_conn_silent);

	conn_set_deadline(conn, QUEUED_COMMAND_CONN_MS);
	if (!silent)
		return;
	conn_log(silent,
		"Account %u has reached the limit of command connections: closing the oldest "
		"silent one",
		silent->tenant->account->uid);
	conn_close(silent);
}

static enum eviction_merit queued_merit(_unused_ const struct conn *conn)
{
	return MERIT_PARTLY_READ;
}

static const struct conn_ops queued_ops = {
	/* After all its commands the peer may send end of file: that does not mean that it left. */
	.on_deadline = on_queued_deadline,
	.merit = queued_merit,
};

/* ---- the kind */

static void on_command_close(struct conn *conn)
{
	begin_next(conn->daemon, conn->tenant->account);
}

static enum eviction_merit command_merit(const struct conn *conn)
{
	return conn->pending ? MERIT_ANSWERED : MERIT_PARTLY_READ;
}

static const struct conn_ops command_ops = {
	.events = command_events,
	.on_event = on_command_event,
	.on_deadline = on_command_deadline,
	.on_close = on_command_close,
	.merit = command_merit,
	.run = command_run,
	.resume = command_resume,
	.reply = command_reply_line,
};

/* The connection stays CONN_NEW, with that kind's deadline, until its first line is complete. */
void command_conn_read(struct conn *conn)
{
	read_input(conn);
	if (conn->kind != CONN_NEW)
		return;
	if (!conn->at_end && conn->in_size < sizeof(conn->in.text) &&
		!memchr(conn->in.text, '\n', conn->in_size))
		return;
	if (admission_allows_command_conn(conn->daemon, conn->tenant->account)) {
		conn_become(conn, CONN_COMMAND, &command_ops);
		run_input_lines(conn);
	} else if (admission_allows_queued(conn->tenant->account)) {
		conn->was_queued = true;
		conn_become(conn, CONN_QUEUED, &queued_ops);
		conn_set_deadline(conn, QUEUED_COMMAND_CONN_MS);
	} else {
		conn_log(conn,
			"Account %u has reached the limit of command connections: closing the new "
			"one",
			conn->tenant->account->uid);
		conn_close(conn);
	}
}
