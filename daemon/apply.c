/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The commands of the file of -a. main(), before the loop runs by itself.
 *
 * Invariant: the commands are those of an operator, each of which has a deadline.
 */

#include "apply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/ask/control_socket.h"
#include "daemon/state/daemon.h"
#include "daemon/conn/conn.h"
#include "daemon/conn/pending.h"

/* Between two looks at the replies, beside events of the loop. */
#define STEP_MS 10

/* The other end of the connection, and the failure that it has read. */
struct apply {
	int fd;
	const char *commands;
	const char *rest; /* of them */
	char reply[512];  /* the line so far */
	size_t size;
	struct error_message *failure;
	bool has_failed, is_over;
};

/* A failure begins with the number of its command. */
static void note_failure(struct apply *apply, const char *reply)
{
	const char *command = apply->commands;
	char *text;
	unsigned long n = strtoul(reply, &text, 10);

	while (n-- > 1 && strchr(command, '\n'))
		command = strchr(command, '\n') + 1;
	apply->has_failed = true;
	error_message_set(apply->failure, 0, "%.*s: %s", (int)MIN(strcspn(command, "\n"), 200u),
		command, text + strspn(text, " "));
}

static void take_byte(struct apply *apply, char byte)
{
	if (byte != '\n') {
		if (apply->size < sizeof(apply->reply) - 1)
			apply->reply[apply->size++] = byte;
		return;
	}
	apply->reply[apply->size] = '\0';
	apply->size = 0;
	/* Failures are marked. */
	if (apply->reply[0] != COMMAND_NAK || apply->has_failed)
		return;
	note_failure(apply, apply->reply + 1);
}

static void read_replies(struct apply *apply)
{
	char bytes[512];
	ssize_t n = recv(apply->fd, bytes, sizeof(bytes), MSG_DONTWAIT);

	for (ssize_t i = 0; i < n; i++)
		take_byte(apply, bytes[i]);
	apply->is_over |= n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

static void send_commands(struct apply *apply)
{
	ssize_t n;

	if (!*apply->rest)
		return;
	n = send(apply->fd, apply->rest, strlen(apply->rest), MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n > 0)
		apply->rest += n;
	if (!*apply->rest)
		shutdown(apply->fd, SHUT_WR);
}

static void on_step(_unused_ uv_timer_t *timer)
{
}

static void on_closed(uv_handle_t *handle)
{
	*(bool *)handle->data = true;
}

/* The daemon's own events and this connection take turns. */
static void run_loop(struct daemon *daemon, struct apply *apply)
{
	bool is_closed = false;
	uv_timer_t step;

	uv_timer_init(&daemon->loop, &step);
	step.data = &is_closed;
	uv_timer_start(&step, on_step, STEP_MS, STEP_MS);
	while (!apply->is_over && !apply->has_failed && !daemon->is_quitting) {
		send_commands(apply);
		daemon_turn(daemon, UV_RUN_ONCE);
		read_replies(apply);
	}
	uv_close((uv_handle_t *)&step, on_closed);
	while (!is_closed)
		daemon_turn(daemon, UV_RUN_NOWAIT);
}

int apply_commands(struct daemon *daemon, const char *commands, struct error_message *error)
{
	_cleanup_free_ char *text = NULL;
	struct apply apply = {.commands = commands, .failure = error};
	int pair[2], r;

	if (!*commands)
		return 0;
	if (asprintf(&text, "%c\n%s", COMMAND_NAK, commands) < 0) {
		text = NULL;
		return error_message_set(error, -ENOMEM, "There is not enough memory");
	}
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) < 0)
		return error_message_set(
			error, -errno, "Cannot create a socket: %s", strerror(errno));
	apply.fd = pair[0];
	apply.rest = text;
	r = conn_open_for_file(daemon, pair[1]);
	if (r == 0) {
		daemon->is_applying = true;
		run_loop(daemon, &apply);
		daemon->is_applying = false;
		pending_rerun_all(&daemon->applying);
		r = apply.has_failed ? -EINVAL : 0;
	} else {
		error_message_set(error, r, "Cannot give commands: %s", strerror(-r));
	}
	close(pair[0]);
	return r;
}
