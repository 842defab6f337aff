/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Replies to commands. Loop thread.
 *
 * Invariant: a connection whose peer leaves too much unread is closed.
 */

#include "command_reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/text/line_buffer.h"
#include "daemon/state/daemon.h"
#include "daemon/conn/conn.h"

/*
 * How many bytes a connection may leave unread. A reply may have a line for
 * each client: of one user, or of all users.
 */
#define OUT_MAX ((size_t)32 << 20)
#define GUEST_OUT_MAX ((size_t)4 << 20)

void command_reply_flush(struct conn *conn)
{
	while (conn->kind == CONN_COMMAND && conn->out_size > 0) {
		ssize_t n = send(conn->fd, conn->out, conn->out_size, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0) {
			conn_close(conn);
			return;
		}
		conn->out_size -= (size_t)n;
		memmove(conn->out, conn->out + n, conn->out_size);
	}
}

static void put_reply(struct conn *conn, const char *bytes, size_t size)
{
	if (conn->kind != CONN_COMMAND)
		return;
	if (conn->out_size + size > conn->out_room) {
		size_t max = daemon_trusts(conn->daemon, conn->cred.uid) ? OUT_MAX : GUEST_OUT_MAX;
		size_t room = MAX(MIN(2 * conn->out_room, max), MAX(conn->out_size + size, 4096));
		char *out = room <= max ? realloc(conn->out, room) : NULL;

		if (!out) {
			conn_close(conn);
			return;
		}
		conn->out = out;
		conn->out_room = room;
	}
	memcpy(conn->out + conn->out_size, bytes, size);
	conn->out_size += size;
}

void command_reply_eot(struct conn *conn)
{
	put_reply(conn, (char[]){COMMAND_EOT}, 1);
}

static void put_reply_line(struct conn *conn, const char *line)
{
	put_reply(conn, line, strlen(line));
	put_reply(conn, "\n", 1);
}

/* Marks the reply as a failure, once for each command. */
static void put_failure_mark(struct conn *conn, const char *line)
{
	char mark[sizeof(conn->command) + 4];

	if (!conn->wants_marks || conn->is_marked)
		return;
	conn->is_marked = true;
	if (conn->is_for_file)
		snprintf(mark, sizeof(mark), "%c%u ", COMMAND_NAK, conn->n_commands);
	else
		snprintf(mark, sizeof(mark), "%c%s: ", COMMAND_NAK, conn->command);
	put_reply(conn, mark, strlen(mark));
	put_reply_line(conn, line);
}

void command_reply_line(struct conn *conn, bool is_failure, const char *format, va_list args)
{
	char line[LINE_MAX_SIZE + 1];

	vsnprintf(line, sizeof(line), format, args);
	line_clean(line);
	conn_log(conn, "%s", line);
	if (is_failure)
		put_failure_mark(conn, line);
	put_reply_line(conn, line);
}

void command_reply(struct conn *conn, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	command_reply_line(conn, false, format, args);
	va_end(args);
}

void command_reply_text(struct conn *conn, const char *text)
{
	if (!conn->is_watching)
		conn_log(conn, "%zu bytes", text ? strlen(text) : 0);
	if (text)
		put_reply_line(conn, text);
}

bool command_fail(struct conn *conn, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	command_reply_line(conn, true, format, args);
	va_end(args);
	return false;
}

void command_note(struct conn *conn, const char *format, ...)
{
	char line[LINE_MAX_SIZE + 1];

	if (!conn->wants_marks)
		return;
	format_arguments(line, format);
	line_clean(line);
	put_reply(conn, (char[]){COMMAND_SYN}, 1);
	put_reply_line(conn, line);
}
