/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Connections that send text. Loop thread.
 *
 * Invariant: no further command runs while a reply waits to be read, so what
 * one peer can make us keep is bounded by the reply to one command.
 */

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "admission.h"
#include "allowances.h"
#include "bounds.h"
#include "command.h"
#include "command_conn.h"
#include "daemon.h"
#include "line_buffer.h"
#include "conn.h"
#include "tenant.h"

/*
 * What a peer may leave unread, and for how long. A reply may tell of each client: of those of
 * one user, or of all.
 */
#define OUT_MAX ((size_t)32 << 20)
#define GUEST_OUT_MAX ((size_t)4 << 20)
#define OUT_MS 5000

static const char eot = COMMAND_EOT;

static void flush(struct peer *peer)
{
	while (peer->kind == PEER_COMMANDER && peer->out_size > 0) {
		ssize_t n = send(peer->fd, peer->out, peer->out_size, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0) {
			peer_close(peer);
			return;
		}
		peer->out_size -= (size_t)n;
		memmove(peer->out, peer->out + n, peer->out_size);
	}
}

static void put(struct peer *peer, const char *bytes, size_t size)
{
	if (peer->kind != PEER_COMMANDER)
		return;
	if (peer->out_size + size > peer->out_room) {
		size_t max = daemon_trusts(peer->daemon, peer->cred.uid) ? OUT_MAX : GUEST_OUT_MAX;
		size_t room = MAX(MIN(2 * peer->out_room, max), MAX(peer->out_size + size, 4096));
		char *out = room <= max ? realloc(peer->out, room) : NULL;

		if (!out) {
			peer_close(peer);
			return;
		}
		peer->out = out;
		peer->out_room = room;
	}
	memcpy(peer->out + peer->out_size, bytes, size);
	peer->out_size += size;
}

static void put_line(struct peer *peer, const char *line)
{
	put(peer, line, strlen(line));
	put(peer, "\n", 1);
}

/* Tells a front end, once for each command, that the reply is a failure. */
static void put_mark(struct peer *peer, const char *line)
{
	char mark[sizeof(peer->command) + 4];

	if (!peer->wants_marks || peer->is_marked)
		return;
	peer->is_marked = true;
	snprintf(mark, sizeof(mark), "%c%s: ", COMMAND_NAK, peer->command);
	put(peer, mark, strlen(mark));
	put_line(peer, line);
}

static void reply(struct peer *peer, bool is_failure, const char *format, va_list args)
{
	char line[LINE_MAX_SIZE + 1];

	vsnprintf(line, sizeof(line), format, args);
	line_clean(line);
	peer_log(peer, "%s", line);
	if (is_failure)
		put_mark(peer, line);
	put_line(peer, line);
}

void commander_reply(struct peer *peer, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	reply(peer, false, format, args);
	va_end(args);
}

void commander_reply_text(struct peer *peer, const char *text)
{
	peer_log(peer, "%zu bytes", text ? strlen(text) : 0);
	if (text)
		put_line(peer, text);
}

void commander_fail(struct peer *peer, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	reply(peer, true, format, args);
	va_end(args);
}

/* Its first word. */
static void note_command(struct peer *peer, const char *line)
{
	const char *name = line + strspn(line, " ");

	snprintf(peer->command, sizeof(peer->command), "%.*s", (int)strcspn(name, " "), name);
	peer->is_marked = false;
}

static void run_line(struct peer *peer, char *line)
{
	size_t length = strlen(line);

	if (length > 0 && line[length - 1] == '\r')
		line[--length] = '\0';
	if (length == 1 && line[0] == COMMAND_EOT) {
		put(peer, &eot, 1);
		return;
	}
	if (length == 1 && line[0] == COMMAND_NAK) {
		peer->wants_marks = true;
		return;
	}
	line_clean(line);
	if (line[strspn(line, " ")] == '\0')
		return;
	peer_log(peer, "Cmd:%s", line);
	note_command(peer, line);
	/* The one for an incomplete line is over; a command that waits may set its own. */
	peer_set_deadline(peer, 0);
	command_run(peer, line);
}

/* Takes the next line out of the buffer; false if there is no whole one. */
static bool take_line(struct peer *peer, char *line)
{
	char *newline = memchr(peer->in.text, '\n', peer->in_size);
	size_t length = newline ? (size_t)(newline - peer->in.text) : peer->in_size;
	size_t taken = newline ? length + 1 : length;

	if (!newline && !(peer->at_end && length > 0))
		return false;
	memcpy(line, peer->in.text, length);
	line[length] = '\0';
	peer->in_size -= taken;
	memmove(peer->in.text, peer->in.text + taken, peer->in_size);
	return true;
}

/* Drops what belongs to a line that was too long. */
static void skip_line(struct peer *peer)
{
	char *newline = memchr(peer->in.text, '\n', peer->in_size);
	size_t dropped = newline ? (size_t)(newline - peer->in.text) + 1 : peer->in_size;

	peer->is_skipping = !newline;
	peer->in_size -= dropped;
	memmove(peer->in.text, peer->in.text + dropped, peer->in_size);
}

static bool is_idle(const struct peer *peer)
{
	return peer->kind == PEER_COMMANDER && !peer->is_waiting && peer->out_size == 0;
}

/* Runs what is there, one after the other, and decides what is waited for next. */
static void run_lines(struct peer *peer)
{
	char line[COMMAND_MAX + 1];

	while (is_idle(peer) && take_line(peer, line)) {
		run_line(peer, line);
		flush(peer);
	}
	if (is_idle(peer) && peer->in_size == sizeof(peer->in.text)) {
		note_command(peer, "");
		commander_fail(peer, "A command has at most %d bytes", COMMAND_MAX - 1);
		peer->is_skipping = true;
		skip_line(peer);
		flush(peer);
	}
	/* Its quit is done: a front end at a terminal would wait for the next command. */
	if (is_idle(peer) && peer->keeps_fd && peer->wants_marks && !peer->at_end) {
		put(peer, &eot, 1);
		flush(peer);
	}
	if (is_idle(peer) && peer->at_end)
		peer_close(peer);
	if (peer->kind != PEER_COMMANDER)
		return;
	peer_watch(peer);
	/* A command that waits has set a deadline of its own, if it has one. */
	if (!peer->is_waiting)
		peer_set_deadline(peer, peer->out_size > 0                       ? OUT_MS
					: peer->in_size > 0 || peer->is_skipping ? INTRODUCTION_MS
										 : 0);
}

void commander_on_deadline(struct peer *peer)
{
	if (peer->is_waiting)
		command_on_deadline(peer);
	else
		peer_close(peer);
}

static void on_resume(uv_timer_t *timer)
{
	struct peer *peer = timer->data;

	if (peer->kind != PEER_COMMANDER)
		return;
	flush(peer);
	run_lines(peer);
}

void commander_resume(struct peer *peer)
{
	if (peer->kind != PEER_COMMANDER)
		return;
	peer->is_waiting = false;
	/* Later, since the caller goes through lists that the next command may change. */
	uv_timer_start(&peer->timer, on_resume, 0, 0);
}

int commander_events(const struct peer *peer)
{
	if (peer->is_waiting)
		return 0;
	if (peer->out_size > 0)
		return UV_WRITABLE;
	return peer->at_end ? 0 : UV_READABLE;
}

static void fill(struct peer *peer)
{
	ssize_t n = peer_recv(
		peer, peer->in.text + peer->in_size, sizeof(peer->in.text) - peer->in_size);

	if (n > 0) {
		peer->in_size += (size_t)n;
		if (peer->is_skipping)
			skip_line(peer);
	} else if (n == 0) {
		peer->at_end = true;
	} else if (n != -EAGAIN) {
		peer_close(peer);
	}
}

void commander_on_event(struct peer *peer, int events)
{
	if (events & UV_WRITABLE)
		flush(peer);
	if (is_idle(peer) && !peer->at_end && (events & UV_READABLE))
		fill(peer);
	if (peer->kind == PEER_COMMANDER)
		run_lines(peer);
}

/*
 * Until its first line is whole it stays a stranger, with a stranger's
 * deadline.
 */
void commander_read(struct peer *peer)
{
	fill(peer);
	if (peer->kind != PEER_STRANGER)
		return;
	if (!peer->at_end && peer->in_size < sizeof(peer->in.text) &&
		!memchr(peer->in.text, '\n', peer->in_size))
		return;
	if (admission_allows_commander(peer->tenant)) {
		peer_become(peer, PEER_COMMANDER);
		run_lines(peer);
	} else if (admission_allows_queued(peer->tenant)) {
		peer_become(peer, PEER_QUEUED);
		peer_set_deadline(peer, COMMANDERS_QUEUED_MS);
	} else {
		peer_log(peer,
			"User %u has as many connections for commands as it can: one more is "
			"closed",
			peer->cred.uid);
		peer_close(peer);
	}
}

/* ---- more of a user's than there may be */

/* The one that has been connected for longest; NULL: there is none. */
static struct peer *find_oldest(const struct tenant *tenant, bool (*is_wanted)(const struct peer *))
{
	list_for_each (item, &tenant->peers) {
		struct peer *peer = container_of(item, struct peer, link);

		if (is_wanted(peer))
			return peer;
	}
	return NULL;
}

static bool is_queued(const struct peer *peer)
{
	return peer->kind == PEER_QUEUED;
}

static bool is_silent(const struct peer *peer)
{
	return is_idle(peer) && peer->in_size == 0;
}

/* What somebody asked who is gone is not done. */
static void on_begin(uv_timer_t *timer)
{
	struct peer *peer = timer->data;
	struct pollfd pfd = {.fd = peer->fd};

	if (peer->kind == PEER_COMMANDER && poll(&pfd, 1, 0) == 1 && (pfd.revents & POLLHUP))
		peer_close(peer);
	else
		on_resume(timer);
}

void commander_begin_next(struct tenant *tenant)
{
	struct peer *next = find_oldest(tenant, is_queued);

	if (!next || !admission_allows_commander(tenant))
		return;
	peer_become(next, PEER_COMMANDER);
	/* Later, since the caller goes through lists that its commands may change. */
	uv_timer_start(&next->timer, on_begin, 0, 0);
}

/* Commands end by themselves, but a connection may stay without one. */
void commander_on_queued_deadline(struct peer *peer)
{
	struct peer *silent = find_oldest(peer->tenant, is_silent);

	peer_set_deadline(peer, COMMANDERS_QUEUED_MS);
	if (!silent)
		return;
	peer_log(silent,
		"User %u has as many connections for commands as it can: the oldest that is silent "
		"makes room",
		silent->cred.uid);
	peer_close(silent);
}
